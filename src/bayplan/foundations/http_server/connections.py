"""The connections of a server: those that serve a request, and those that wait for one.

Their number is limited. When it is reached, the connection that has waited longest is closed; a client that is slow
with a header or body is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from bayplan.foundations.http_server.limits import Limits
from bayplan.foundations.http_server.refusals import Refusals

SERVER = "bayplan"
"""The Server header. aiohttp's own has the versions of Python and aiohttp."""

_BUFFER = 64 * 1024
"""Bytes of a body that are received before a handler reads it. aiohttp receives up to twice as many."""
_SMALL = 256 * 1024
"""An unread body of at most so many bytes is received, so that the connection can be used again; as in Go."""

_DROPPED = 256 * 2**20
"""Bytes of an unread body that are received and dropped, so that the client reads why it is refused."""


class Connections(web.Server):
    """All connections. Those in `waiting` serve no request; the one that has waited longest is first."""

    def __init__(self, handle: Any, limits: Limits, refusals: Refusals, *, log: logging.Logger, cancels: bool) -> None:
        super().__init__(handle, request_factory=self._begin, handler_cancellation=cancels)
        self.limits = limits
        self.refusals = refusals
        self.waiting: dict[Connection, None] = {}
        self.serving: set[Connection] = set()
        self._log = log

    def __len__(self) -> int:
        """The number of connections, including those in their TLS handshake."""
        return len(self.waiting) + len(self.serving)

    def add(self, accepted: socket.socket) -> Connection:
        """Add a connection, which waits until it has sent a request."""
        connection = Connection(
            self,
            accepted,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self.limits.idle,
            lingering_time=self.limits.rest,
            read_bufsize=_BUFFER,
            auto_decompress=False,  # else aiohttp inflates every body, also those that no handler reads
            access_log=None,
            logger=self._log,
        )
        self.waiting[connection] = None
        return connection

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.waiting.pop(connection, None)
        self.serving.discard(connection)

    def _begin(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        protocol.begin()
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


class Connection(web.RequestHandler):
    """A connection that is dropped if it does not send a request in time."""

    __slots__ = ("_accepted", "_server", "_timer", "wire")

    def __init__(self, server: Connections, accepted: socket.socket, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._accepted = accepted
        self._timer: asyncio.TimerHandle | None = None
        self.wire: asyncio.Transport | None = None
        """The transport, from when the connection is made to when it is lost. aiohttp's own is None while it closes."""

    def drop(self) -> None:
        """Close the connection, without waiting for the client."""
        self._stop_timer()
        if self.wire is not None:
            self.wire.abort()
        else:
            with suppress(OSError):  # the client may have closed it
                self._accepted.shutdown(socket.SHUT_RDWR)  # ends the TLS handshake
        self._server.forget(self)

    def begin(self) -> None:
        """A request has arrived."""
        self._stop_timer()
        self._server.waiting.pop(self, None)
        self._server.serving.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        assert isinstance(transport, asyncio.Transport)
        self.wire = transport
        super().connection_made(transport)
        self._expect_header()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        self.wire = None  # before Python 3.11.3, `abort` fails on a closed TLS transport
        self._server.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Expect the rest of a header that has begun."""
        super().data_received(data)
        if self._timer is None and self in self._server.waiting:
            self._expect_header()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write a response, then wait for the next request."""
        unread = not request.content.is_eof() and not 0 <= _length(request) <= _SMALL
        if not resp.prepared:
            resp.headers[hdrs.SERVER] = SERVER
            if unread:
                resp.force_close()
        try:
            async with asyncio.timeout(self._server.limits.response):
                resp, lost = await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self._server.refusals.record("a client did not read its response", str(request.remote))
            self.drop()
            return resp, True
        finally:
            if self in self._server.serving:
                self._server.serving.discard(self)
                self._server.waiting[self] = None
        if unread and not lost and self.wire is not None:
            await self._turn_away(request, self.wire)
        elif self._messages:
            await asyncio.sleep(0)  # pipelined requests leave room for other connections
        return resp, lost or unread

    async def _turn_away(self, request: web.BaseRequest, wire: asyncio.Transport) -> None:
        """Let the client read its response. A socket that closes before it has received everything resets that.

        Most clients read nothing before they have sent all of a body. So it is received, and dropped, as long as it
        goes on arriving: all of it if its length is known and at most `_DROPPED`, else the first part of `_SMALL`.
        """
        if wire.can_write_eof():
            with suppress(OSError):  # the client has gone
                wire.write_eof()
        rest = self._server.limits.rest
        left = _DROPPED if 0 <= _length(request) <= _DROPPED else _SMALL
        with suppress(TimeoutError, ConnectionError, web.PayloadAccessError):
            async with asyncio.timeout(self._server.limits.body):
                while left > 0 and not request.content.at_eof():
                    async with asyncio.timeout(rest):
                        left -= len(await request.content.readany())
        if self.wire is not None:
            self.wire.pause_reading()
            await asyncio.sleep(rest)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Record invalid HTTP, which is not an error of the server."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._server.refusals.record("invalid HTTP", f"{' '.join(exc.message.split())} (from {request.remote})")
        response = web.Response(status=status, text=message)
        response.force_close()
        return response

    def _expect_header(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(self._server.limits.header, self._header_is_late)

    def _header_is_late(self) -> None:
        seconds = self._server.limits.header
        peer = self.wire.get_extra_info("peername") if self.wire is not None else None
        self._server.refusals.record(f"no complete request within {seconds:g} s", f"from {peer[0]}" if peer else "")
        self.drop()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _length(request: web.BaseRequest) -> int:
    """The length of a body as its header says; -1 if it doesn't."""
    return -1 if request.content_length is None else request.content_length
