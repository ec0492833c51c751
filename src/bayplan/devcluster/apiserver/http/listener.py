"""The server's socket: reads requests, hands them to a handler, and writes the responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from bayplan.devcluster.apiserver.http.direct_response import DirectResponse
from bayplan.devcluster.apiserver.http.messages import JSON_TYPE, ConnectionDropped, HttpRequest, HttpResponse
from bayplan.devcluster.apiserver.http.tls import Tls
from bayplan.devcluster.apiserver.status import too_large

BODY_LIMIT = 3 * 1024 * 1024

Handle = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Carries out a request. Raises ConnectionDropped to close the connection without a response."""


class HttpListener:
    """Serves HTTP, or HTTPS with `tls`, on one address between `start` and `stop`. `port` 0 takes a free port."""

    def __init__(self, handle: Handle, host: str, port: int, tls: Tls | None) -> None:
        self.host = host
        self.port = port
        self._handle = handle
        self._tls = tls
        self._runner: web.ServerRunner | None = None
        self._streams: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """The server's URL; valid once it has started."""
        return f"{'http' if self._tls is None else 'https'}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Starts listening. Raises OSError if the address is in use."""
        server = web.Server(self._serve, request_factory=_request, access_log=None, handler_cancellation=False)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await self._runner.setup()
        context = self._tls.server_context() if self._tls is not None else None
        await web.TCPSite(self._runner, self.host, self.port, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Ends all streams, waits for other requests to finish, and closes the socket."""
        for task in self._streams:
            task.cancel()
        if self._runner is None:
            return
        server = self._runner.server
        for site in list(self._runner.sites):
            await site.stop()
        for _ in range(3):  # asyncio needs three turns before a connection that it is accepting can be closed
            await asyncio.sleep(0)
        transports = [connection.transport for connection in server.connections] if server is not None else []
        await self._runner.cleanup()
        self._runner = None
        for transport in transports:
            if transport is not None:
                transport.abort()  # a TLS client that sends no close_notify would keep it open
        await asyncio.sleep(0)  # the loop closes the transports

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._handle(await _read(http))
        except web.HTTPRequestEntityTooLarge:
            response = HttpResponse.of_error(too_large())
        except ConnectionDropped:
            if http.transport is not None:
                http.transport.abort()
            return web.Response(status=500)
        if response.stream is not None:
            return await self._stream(http, response.stream)
        return DirectResponse(http, response)

    async def _stream(self, http: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON_TYPE})
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


async def _read(http: web.BaseRequest) -> HttpRequest:
    """Reads a request. Raises HTTPRequestEntityTooLarge."""
    path, _, text = http.raw_path.partition("?")
    query: dict[str, str] = {}
    if text:
        for name, value in parse_qsl(text, keep_blank_values=True):
            query.setdefault(name, value)  # of a repeated parameter, the first value counts
    return HttpRequest(http.method, path, query, http.headers, await http.read())


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)
