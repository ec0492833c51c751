"""A server for the tests of its limits, and raw connections to it."""

import asyncio
import logging
import ssl
from contextlib import asynccontextmanager

from aiohttp import web
from tests.support.certificates import Authority
from tests.support.waiting import until

from bayplan.foundations.http_server import HostNames, HttpServer, Limits, bind

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: loc"
QUICK = Limits(handshake=0.2, header=0.2, body=0.2, response=0.2, idle=0.4, pause=0.05)


class Served:
    """A running server. `release` lets requests for /wait return; `serving` counts them."""

    def __init__(self, limits, tls=None):
        self.begun = asyncio.Event()
        self.serving = 0
        self.release = asyncio.Event()
        self.http = HttpServer(
            self._handle, log=logging.getLogger("bayplan.test"), limits=limits, tls=tls, hosts=HostNames("127.0.0.1")
        )
        self.port = 0

    async def _handle(self, request):
        if request.path == "/wait":
            self.serving += 1
            self.begun.set()
            await self.release.wait()
        if request.path == "/large":
            return web.Response(body=b"x" * 50_000_000)
        await request.read()
        return web.Response(text="served")

    @property
    def connections(self):
        return len(self.http._connections)

    async def open(self, sent=b"", tls=None):
        """Open a connection and send some bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def get(self, tls=None):
        """Send a whole request. Returns the response."""
        reader, writer = await self.open(REQUEST, tls)
        try:
            return await reader.readuntil(b"served")
        finally:
            writer.close()

    async def until_connections(self, number):
        await until(lambda: self.connections == number)


@asynccontextmanager
async def served(limits=QUICK, tls=None):
    one = Served(limits, tls)
    [listener] = await bind("127.0.0.1", 0)
    one.port = listener.getsockname()[1]
    one.http.start([listener])
    try:
        yield one
    finally:
        one.release.set()
        await one.http.stop(1)


def contexts(folder):
    """TLS contexts of a server and its clients."""
    pair = Authority().server("127.0.0.1")
    file = folder / "server.pem"
    file.write_bytes(pair.key + pair.certificate)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server, client


async def closed(reader, within=10.0):
    """Wait until the server has closed a connection. Returns what it sent before."""
    async with asyncio.timeout(within):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
