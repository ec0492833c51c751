"""The server's socket: reads requests, hands them to a handler, and writes the responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from bayplan.core.api.status import StatusError, too_large
from bayplan.foundations.http_server import SERVER, BodyError, HostNames, HttpServer, Limits, bind
from bayplan_devcluster.apiserver.http.address import Address
from bayplan_devcluster.apiserver.http.direct_response import DirectResponse
from bayplan_devcluster.apiserver.http.messages import JSON_TYPE, ConnectionDropped, HttpRequest, HttpResponse

BODY_LIMIT = 3 * 1024 * 1024
LIMITS = Limits(connections=1024)
"""Each watch has a connection, and a cluster in which much runs has many watches."""

_log = logging.getLogger(__name__)
_FINISH = 0.2
"""Seconds in which requests may finish when the server stops."""

Handle = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Carries out a request. Raises ConnectionDropped to close the connection without a response."""


class HttpListener:
    """Serves HTTP, or HTTPS, on one address between `start` and `stop`. Raises ValueError if its hosts are invalid."""

    def __init__(self, handle: Handle, address: Address) -> None:
        tls = address.tls
        self.host = address.host
        self.port = address.port
        self._handle = handle
        self._scheme = "http" if tls is None else "https"
        self._server = HttpServer(
            self._serve,
            log=_log,
            limits=LIMITS,
            tls=tls.server_context() if tls is not None else None,
            hosts=HostNames(address.host, address.accept_hosts),
            body_limit=BODY_LIMIT,
        )
        self._streams: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """The server's URL; valid once it has started."""
        return f"{self._scheme}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Starts listening. Raises OSError if the address is in use."""
        listeners = await bind(self.host, self.port)
        self.port = listeners[0].getsockname()[1]
        self._server.start(listeners)

    async def stop(self) -> None:
        """Ends all streams, waits for other requests to finish, and closes the socket."""
        for task in self._streams:
            task.cancel()
        await self._server.stop(_FINISH)

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._handle(_request(http, partial(self._body, http)))
        except ConnectionDropped:
            if http.transport is not None:
                http.transport.abort()
            return web.Response(status=500)
        if response.stream is not None:
            return await self._stream(http, response.stream)
        return DirectResponse(http, response)

    async def _body(self, http: web.BaseRequest) -> bytes:
        """Reads a body. Raises StatusError."""
        try:
            return await self._server.body(http)
        except BodyError as error:
            if error.status == 413:
                raise too_large() from None
            self._server.refusals.record("refused a body", f"{error} (from {http.remote})")
            reason = {408: "Timeout", 503: "ServiceUnavailable"}.get(error.status, "BadRequest")
            raise StatusError(error.status, reason, str(error)) from None

    async def _stream(self, http: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON_TYPE, "Server": SERVER})
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None  # aiohttp runs every request in a task
        self._streams.add(task)
        try:
            await response.prepare(http)
            async for piece in pieces:
                await response.write(piece)
        except (ConnectionResetError, asyncio.CancelledError):
            if http.transport is not None:
                http.transport.abort()
        finally:
            self._streams.discard(task)
        return response


def _request(http: web.BaseRequest, receive: Callable[[], Awaitable[bytes]]) -> HttpRequest:
    path, _, text = http.raw_path.partition("?")
    query: dict[str, str] = {}
    if text:
        for name, value in parse_qsl(text, keep_blank_values=True):
            query.setdefault(name, value)  # of a repeated parameter, the first value counts
    return HttpRequest(http.method, path, query, http.headers, receive=receive)
