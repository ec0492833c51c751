"""Connections: requests and their whole responses over HTTP/1.1 connections, which are reused.

A scheduler sends two small requests for each pod, and these took half of its CPU time. What aiohttp supports besides
(cookies, redirects, forms, streams, middleware) makes a request three times as expensive as here. A request without a
sign of life for 15 s fails, and unused connections are kept for 10 s, so the next request takes a new one.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import httptools
from multidict import CIMultiDict

from bayplan.running.client.proxies import address_of

KEEP_ALIVE = 10.0
"""Seconds for which an unused connection is kept."""

_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
"""The headers that say where a response ends."""
_LONGEST_HEADER = 2**16
"""Bytes of a response before its body."""


class NotConnectedError(Exception):
    """There is no connection, so the request was not sent. The cause is an OSError or a TimeoutError."""


class NoReplyError(Exception):
    """The request was sent, and no complete response has arrived. `began`: whether a part of it has.

    The cause is the OSError that broke the connection, if any.
    """

    def __init__(self, why: str, *, began: bool) -> None:
        super().__init__(why)
        self.began = began


class NoReplyInTimeError(NoReplyError):
    """The server was silent for too long, or did not complete its response in time."""


class Reply(NamedTuple):
    """A complete response. Few headers are ever read, so they are decoded when they are."""

    status: int
    fields: list[tuple[bytes, bytes]]
    """The headers as received."""
    body: bytes

    @property
    def headers(self) -> CIMultiDict[str]:
        """The headers, decoded."""
        return CIMultiDict(
            (name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in self.fields
        )


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits in seconds: for a request, for connecting, and for silence of the server while it handles a request."""

    request: float
    connect: float
    idle: float


class ConnectionPool:
    """Sends requests to a server. Each has a connection for itself, and as many are opened as there are requests.

    `name` is what the server's certificate must be for.
    """

    def __init__(self, host: str, port: int, name: str, limits: TimeLimits) -> None:
        self.limits = limits
        self._host, self._port, self._name = host, port, name
        self._closed = False
        self.open: set[_Connection] = set()
        self.unused: list[_Connection] = []
        """The connections without a request, the last used one last."""

    async def exchange(
        self, method: str, message: bytes, tls: ssl.SSLContext | None, begins: Callable[[], None]
    ) -> Reply:
        """Send `message`, a whole request, and return its response. `begins` is called with its header.

        Only connections with the same `tls` are used. An idempotent request is sent again on a new connection if a
        reused one breaks before the response. Raises NotConnectedError and NoReplyError.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.request
        connection = self._take(tls)
        if connection is not None:
            try:
                return await connection.exchange(message, deadline, begins)
            except NoReplyError as error:
                late = isinstance(error, NoReplyInTimeError)
                if method not in _IDEMPOTENT or error.began or late or self._closed:
                    raise
        connection = await self._connect(tls, deadline)
        return await connection.exchange(message, deadline, begins)

    async def close(self) -> None:
        """Close all connections. Requests in flight fail."""
        self._closed = True
        for connection in list(self.open):
            connection.abort()
        while self.open:  # noqa: ASYNC110 - the event loop closes a socket in one of its next steps
            await asyncio.sleep(0)

    def close_unused(self) -> None:
        """Close all connections without a request: they may be dead, too, if the server does not reply on one."""
        for connection in list(self.unused):
            connection.abort()

    def _take(self, tls: ssl.SSLContext | None) -> _Connection | None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE
        while self.unused:
            connection = self.unused.pop()
            if connection.tls is tls and connection.active_at > oldest and connection.is_open:
                return connection
            connection.abort()
        return None

    async def _connect(self, tls: ssl.SSLContext | None, deadline: float) -> _Connection:
        loop = asyncio.get_running_loop()
        seconds = min(self.limits.connect, deadline - loop.time())
        # Only a name can have several addresses. Cancelling the race between them can leave a socket open until later.
        race = None if address_of(self._host) else 0.25
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, tls),
                    self._host,
                    self._port,
                    ssl=tls,
                    server_hostname=None if tls is None else self._name,
                    happy_eyeballs_delay=race,
                )
        except OSError as error:  # TimeoutError is one, too
            raise NotConnectedError from error
        if self._closed:
            connection.abort()
            raise NotConnectedError from ConnectionAbortedError("the client is closed")
        return connection


class _Connection(asyncio.Protocol):
    """A connection, with one request at a time."""

    def __init__(self, connections: ConnectionPool, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.active_at = 0.0
        """The time at which it last sent or received something."""
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reply: asyncio.Future[Reply] | None = None
        """The response that is awaited."""
        self._deadline = 0.0
        self._begins: Callable[[], None] = _nothing
        self._timer: asyncio.TimerHandle | None = None
        self._reset()

    def _reset(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._received = 0
        """Bytes of the response, until its header is complete."""
        self._header_complete = self._complete = self._keep = False

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, message: bytes, deadline: float, begins: Callable[[], None]) -> Reply:
        """Send a request and return its response. Raises NoReplyError."""
        assert self._transport is not None
        self._reply, self._deadline, self._begins = self._loop.create_future(), deadline, begins
        self.active_at = self._loop.time()
        self._watch()
        self._transport.write(message)
        try:
            return await self._reply
        except asyncio.CancelledError:
            self.abort()
            raise

    def abort(self) -> None:
        """Close the connection at once: a TLS shutdown may take long."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        detect_dead_peer(transport.get_extra_info("socket"))
        self._connections.open.add(self)

    def data_received(self, data: bytes) -> None:
        self.active_at = self._loop.time()
        if self._reply is None:  # no request is in flight, so it can only confuse
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(NoReplyError(f"the response is not valid HTTP: {error}", began=True))
            return
        if self._complete:
            self._finish()
        elif not self._header_complete and self._received > _LONGEST_HEADER:
            self._fail(NoReplyError("the header of the response is too long", began=True))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._connections.open.discard(self)
        if self in self._connections.unused:
            self._connections.unused.remove(self)
        if self._reply is None:
            return
        if self._header_complete and not any(name.lower() in _LENGTHS for name, _ in self._fields):
            self._finish()  # such a response ends with its connection
        elif self._received:
            self._fail(NoReplyError("the connection broke in the middle of the response", began=True))
        else:
            self._fail(NoReplyError("the server closed the connection", began=False), exc)

    def _watch(self) -> None:
        """Close the connection when the server has been silent, or the connection unused, for too long."""
        if self._reply is None:
            due = self.active_at + KEEP_ALIVE
        else:
            due = min(self.active_at + self._connections.limits.idle, self._deadline)
        if self._timer is not None:
            if self._timer.when() <= due:  # looks again then: that is cheaper than a timer for each request
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look, due)

    def _look(self, due: float) -> None:
        self._timer = None
        active = self._reply is not None
        latest = self.active_at + (self._connections.limits.idle if active else KEEP_ALIVE)
        if latest > due and not (active and self._deadline <= due):
            self._watch()
        elif active:
            self._fail(NoReplyInTimeError("the request timed out", began=self._received > 0))
            self._connections.close_unused()
        else:
            self.abort()

    def _finish(self) -> None:
        """Return the response, and keep the connection if it can be used again."""
        reply, self._reply = self._reply, None
        assert reply is not None
        if not reply.done():
            reply.set_result(Reply(self._parser.get_status_code(), self._fields, b"".join(self._body)))
        keep = self._keep and self.is_open
        self._reset()
        if keep:
            self._connections.unused.append(self)
        else:
            self.abort()

    def _fail(self, error: NoReplyError, cause: BaseException | None = None) -> None:
        reply, self._reply = self._reply, None
        error.__cause__ = cause
        if reply is not None and not reply.done():
            reply.set_exception(error)
        self.abort()

    # Called by the parser

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._header_complete, self._keep = True, self._parser.should_keep_alive()
            self._begins()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._header_complete:
            self._complete = True
        else:  # an interim response, such as 103
            self._reset()


def detect_dead_peer(connection: socket.socket) -> None:
    """Make a connection fail within 25 seconds if its peer is unreachable, whether or not it has data to send."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 20_000),  # milliseconds
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _nothing() -> None:
    pass
