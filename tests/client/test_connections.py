"""Responses in all forms that HTTP/1.1 allows, and broken ones, over real connections."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from tests.support.tables import cases
from tests.support.waiting import PATIENCE, turns, until

from bayplan.client import ClusterAccess, ConfigError, HttpClient, TransportError
from bayplan.foundations.tls import client_context
from bayplan.running.client import connections as module

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Sends the next of `replies` (the last one repeats) for each request, as raw bytes.

    At `<pause>` it waits a moment, and at `<close>` it closes the connection.
    """

    def __init__(self, *replies: bytes) -> None:
        self.replies = list(replies)
        self.requests: list[bytes] = []
        self.opened: list[asyncio.StreamWriter] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.append(writer)
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            reply, closes, _ = reply.partition(b"<close>")
            for part in reply.split(b"<pause>"):
                writer.write(part)
                await turns()
            if closes:
                break
        writer.close()


@asynccontextmanager
async def served(*replies: bytes, tls: ssl.SSLContext | None = None):
    one = Server(*replies)
    serving = set()

    def serve(reader, writer):
        serving.add(asyncio.create_task(one.serve(reader, writer)))

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    one.url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        listener.close()
        for writer in one.opened:
            writer.transport.abort()
        await asyncio.gather(*serving)


@cases(
    "reply, body",
    {
        "with a length": (OK, b"{}"),
        "in pieces": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<pause>{<pause>}", b"{}"),
        "in chunks, with a trailer": (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n<pause>1;x=y\r\n}\r\n0\r\nT: x\r\n\r\n",
            b"{}",
        ),
        "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        "after an interim response": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n<pause>" + OK, b"{}"),
        "an empty header": (b"HTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 2\r\n\r\n{}", b"{}"),
        "no reason, no blanks": (b"HTTP/1.1 200 \r\ncontent-length:2\r\n\r\n{}", b"{}"),
    },
)
async def test_response_is_read_and_its_connection_used_again(reply, body):
    async with served(reply) as server, HttpClient(server.url, retries=0) as client:
        for _ in range(3):
            assert await client.request("GET", "/") == body
    assert (len(server.opened), len(server.requests)) == (1, 3)


@cases(
    "reply",
    {
        "ends with the connection": b"HTTP/1.1 200 OK\r\n\r\n{<pause>}<close>",
        "says so": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    },
)
async def test_connection_that_the_server_closes_is_not_used_again(reply):
    async with served(reply) as server, HttpClient(server.url) as client:
        for _ in range(2):
            assert await client.request("GET", "/") == b"{}"
    assert len(server.opened) == 2


@cases(
    "reply, message",
    {
        "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", "the response is not valid HTTP"),
        "an invalid length": (b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}", "is not valid HTTP"),
        "an upgrade": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "HTTP"),
        "two responses": (OK + OK, "is not valid HTTP"),
        "long": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**17 + b"\r\n\r\n", "the header of the response is too long"),
        "half a header": (b"HTTP/1.1 200 OK\r\nContent-Le<close>", "broke in the middle"),
        "half a body": (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}<close>",
            "broke in the middle of the response",
        ),
        "half a chunk": (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}<close>",
            "broke in the middle of the response",
        ),
        "nothing": (b"<close>", "the server closed the connection"),
    },
)
async def test_broken_response_is_an_error_after_which_the_server_may_have_acted(reply, message):
    async with served(reply) as server, HttpClient(server.url, retries=0) as client:
        with pytest.raises(TransportError, match=message) as caught:
            await client.request("POST", "/", body=b"{}")
        assert caught.value.sent
        assert len(server.requests) == 1


@pytest.mark.parametrize(("method", "sent"), [("PUT", 3), ("DELETE", 3), ("GET", 3), ("POST", 2), ("PATCH", 2)])
async def test_only_idempotent_request_is_repeated_when_a_reused_connection_breaks(method, sent):
    async with served(OK, b"<close>", OK) as server, HttpClient(server.url, retries=0) as client:
        await client.request("GET", "/")
        if sent == 3:
            assert await client.request(method, "/", body=b"{}") == b"{}"
        else:
            with pytest.raises(TransportError, match="the server closed the connection"):
                await client.request(method, "/", body=b"{}")
    assert len(server.requests) == sent


async def test_data_without_a_request_closes_the_connection():
    async with served(OK + b"<pause>" + OK, OK) as server, HttpClient(server.url) as client:
        assert await client.request("GET", "/") == b"{}"
        await until(server.opened[0].is_closing)
        assert await client.request("GET", "/") == b"{}"
    assert len(server.opened) == 2


async def test_unused_connection_is_closed(monkeypatch):
    monkeypatch.setattr(module, "KEEP_ALIVE", 0.05)
    async with served(OK) as server, HttpClient(server.url, idle_timeout=0.1) as client:
        await client.request("GET", "/")
        [writer] = server.opened
        async with asyncio.timeout(PATIENCE):
            await writer.wait_closed()


async def test_cancelled_request_closes_its_connection():
    async with served(b"<pause>") as server, HttpClient(server.url) as client:
        request = asyncio.create_task(client.request("GET", "/"))
        await until(lambda: server.requests)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            await server.opened[0].wait_closed()


async def test_silence_in_the_middle_of_a_response_times_out():
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}"
    async with served(reply) as server, HttpClient(server.url, retries=0, idle_timeout=0.1) as client:
        with pytest.raises(TransportError, match="the request timed out"):
            await client.request("GET", "/")


async def test_other_connections_are_not_used_again_after_one_has_timed_out():
    silent = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    async with served(OK, OK, OK, silent, OK) as server, HttpClient(server.url, retries=0, idle_timeout=0.2) as client:
        await asyncio.gather(*[client.request("GET", "/") for _ in range(3)])
        with pytest.raises(TransportError, match="the request timed out"):
            await client.request("GET", "/")
        await client.request("GET", "/")
    assert len(server.opened) == 4


async def test_line_break_in_a_header_is_rejected():
    access = ClusterAccess(server="http://127.0.0.1:1", headers=(("Impersonate-User", "joe\r\nX-Remote-User: root"),))
    async with HttpClient(access) as client:
        with pytest.raises(ConfigError, match="have a line break"):
            await client.request("GET", "/")


def contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server whose certificate has this name, and of a client that trusts it."""
    authority, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(server)
    return server, client_context(authority.cert_pem.bytes().decode())


async def test_tls_connection_is_used_again_and_the_name_of_the_certificate_checked():
    tls, trusting = contexts("api.internal")
    async with served(OK, tls=tls) as server:
        access = ClusterAccess(server=server.url, tls=trusting, server_hostname="api.internal")
        async with HttpClient(access) as client:
            for _ in range(3):
                assert await client.request("GET", "/") == b"{}"
        assert len(server.opened) == 1
        async with HttpClient(ClusterAccess(server=server.url, tls=trusting), retries=0) as client:
            with pytest.raises(TransportError, match="certificate is not trusted: IP address mismatch") as caught:
                await client.request("POST", "/", body=b"{}")
            assert not caught.value.sent
