"""All ports that Bayplan serves, each with a path that is always answered and one that needs a body."""

import asyncio
import logging
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.certificates import Authority

from bayplan import Plugin
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.ui.server import serving
from bayplan.foundations.http_server import Limits
from bayplan.insight import Insight, Snapshot
from bayplan.running.extender.plugins import profile_of_plugins
from bayplan.running.extender.running import running_extender
from bayplan.running.extender.server import ServerSettings
from bayplan.running.service.serving.health import HealthChecks
from bayplan.running.service.serving.options import SecureServing, ServingOptions
from bayplan.running.service.serving.server import EndpointServer
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.http import listener

TOKEN = "secret"


@dataclass
class Port:
    """A port that is served. `alive` is the head of a request that it always answers with 200.

    `bodied` is the head of a request whose body it reads, without the length; "" if it reads none. `stranger` is the
    same from a client that is not allowed to send it.
    """

    port: int
    alive: str
    bodied: str = ""
    stranger: str = ""
    tls: ssl.SSLContext | None = None

    async def open(self, *pieces):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
        for piece in pieces:
            writer.write(piece)
        return reader, writer

    async def send(self, *pieces, within=10.0):
        """Send bytes over a new connection. Returns the status of the response, 0 if there is none, and its text."""
        reader, writer = await self.open(*pieces)
        try:
            async with asyncio.timeout(within):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, ConnectionError):
                    return 0, ""
                text = (head + await reader.read(1 << 16)).decode(errors="replace") if b"HEAD" not in pieces[0] else ""
                return int(head.split(b" ", 2)[1]), text
        finally:
            writer.transport.abort()

    async def is_alive(self, within=10.0):
        return (await self.send(head(self.alive), within=within))[0] == 200


def head(request, *headers):
    """The bytes of a request's head: its first line with the headers that are given."""
    lines = [*request.split("\n"), *headers]
    return "\r\n".join([lines[0], "Host: 127.0.0.1", "Connection: close", *lines[1:], "", ""]).encode(
        "utf-8", "surrogateescape"
    )


class AllNodes(Plugin):
    name = "AllNodes"

    def filter(self, cycle, pod, node):
        return None


@asynccontextmanager
async def endpoints(limits, tmp_path):
    options = ServingOptions(secure=SecureServing(port=0, bind_address="127.0.0.1"), limits=limits)
    server = EndpointServer(options, {}, HealthChecks())
    await asyncio.to_thread(server.start)
    try:
        yield Port(server.port, "GET /livez HTTP/1.1", stranger="POST /metrics HTTP/1.1", tls=trusting())
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def extender(limits, tmp_path):
    settings = ServerSettings(limits=limits)
    async with running_extender(lambda handle: profile_of_plugins([AllNodes()], handle), settings=settings) as running:
        yield Port(port_of(running.server.url), "GET /healthz HTTP/1.1", "POST /prioritize HTTP/1.1")


@asynccontextmanager
async def extender_with_certificates(limits, tmp_path):
    authority = Authority()
    pair = authority.server("127.0.0.1")
    (tmp_path / "server.pem").write_bytes(pair.key + pair.certificate)
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    tls.load_verify_locations(tmp_path / "ca.pem")
    tls.verify_mode = ssl.CERT_OPTIONAL
    settings = ServerSettings(limits=limits, tls=tls)
    async with running_extender(lambda handle: profile_of_plugins([AllNodes()], handle), settings=settings) as running:
        port = port_of(running.server.url)
        yield Port(port, "GET /healthz HTTP/1.1", stranger="POST /prioritize HTTP/1.1", tls=trusting())


@asynccontextmanager
async def api_server(limits, tmp_path):
    with replaced(listener, "LIMITS", limits):
        async with ApiServer(tokens={TOKEN: "admin"}) as server:
            path = "POST /api/v1/namespaces/default/configmaps HTTP/1.1"
            login = f"\nAuthorization: Bearer {TOKEN}"
            json = "\nContent-Type: application/json"
            alive = f"GET /version HTTP/1.1{login}"
            yield Port(port_of(server.url), alive, f"{path}{login}{json}", f"{path}{json}")


@asynccontextmanager
async def page(limits, tmp_path):
    async with serving(FileSource(Snapshot()), Insight(Snapshot()), token=TOKEN, limits=limits) as url:
        port = int(url.split(":")[2].partition("/")[0])
        login, own = f"\nCookie: bayplan-{port}={TOKEN}", "\nOrigin: http://127.0.0.1"
        form = "POST /what-if HTTP/1.1"
        yield Port(port, f"GET / HTTP/1.1{login}", f"{form}{login}{own}", f"{form}{own}")


PORTS = {
    "endpoints": endpoints,
    "extender": extender,
    "extender with certificates": extender_with_certificates,
    "API server": api_server,
    "page": page,
}


def port_of(url):
    return int(url.rpartition(":")[2])


def trusting():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class replaced:  # noqa: N801 - used as a function
    """A module's value is replaced in the context."""

    def __init__(self, module, name, value):
        self._module, self._name, self._value = module, name, value

    def __enter__(self):
        self._before = getattr(self._module, self._name)
        setattr(self._module, self._name, self._value)

    def __exit__(self, *_):
        setattr(self._module, self._name, self._before)


QUICK = Limits(connections=30, header=0.5, body=0.5, response=5, idle=5, rest=0.1, log_every=60)
LOG = logging.getLogger("bayplan")
