"""Serves assistants over HTTP (the streamable HTTP transport), until the caller stops it.

The SDK's application has the interface of ASGI. It runs on the project's own server, so that the limits on connections,
times and bodies hold, and behind the guard of `bayplan serve`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from aiohttp import web
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from multidict import CIMultiDict

from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.guard import BearerGuard
from bayplan.faces.asking.replies import BODY_LIMIT, HEADERS, LIMITS, ServeError, encoded, guarded, reply
from bayplan.faces.asking.running import host_of, running
from bayplan.faces.assistants.malformed import refused
from bayplan.faces.assistants.server import AssistantServer
from bayplan.foundations.http_server import HttpServer, Limits, bind, quoted

PATH = "/mcp"

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(
    server: AssistantServer,
    asking: Asking,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    limits: Limits = LIMITS,
) -> AsyncIterator[tuple[str, str]]:
    """Serve assistants in the context, and follow the source of `asking`. Yields the URL and the token.

    `port`: 0 for a free one. `token`: by default a new one. Raises OSError if the address can't be used.
    """
    token = token or secrets.token_urlsafe(24)
    listeners = await bind(address, port)
    port = listeners[0].getsockname()[1]
    manager = StreamableHTTPSessionManager(server.sdk, stateless=True, max_request_body_size=BODY_LIMIT)
    application = _Application(manager, BearerGuard(token, address), limits)
    async with manager.run(), running(asking, application.http, listeners):
        yield f"http://{host_of(address)}:{port}{PATH}", token


class _Application:
    """Passes requests with the token on to the SDK. Each is complete in itself: there are no sessions."""

    def __init__(self, manager: StreamableHTTPSessionManager, guard: BearerGuard, limits: Limits) -> None:
        self.http = HttpServer(self.handle, log=log, limits=limits, body_limit=BODY_LIMIT, inflate=True, cancels=True)
        self._manager = manager
        self._guard = guard
        self._limits = limits

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await guarded(request, self._guard, self._handle)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != PATH:
            raise ServeError(HTTPStatus.NOT_FOUND, f"there is no {quoted(request.path)}; assistants use {PATH}")
        if request.method != "POST":
            raise ServeError(HTTPStatus.METHOD_NOT_ALLOWED, f"{PATH} requires POST", {"Allow": "POST"})
        body = await self.http.body(request)
        error = refused(body)
        if error is not None:
            return reply(encoded(error), HTTPStatus.BAD_REQUEST)
        exchange = _Exchange(request, body, self._limits.response)
        await self._manager.handle_request(exchange.scope(), exchange.receive, exchange.send)
        return exchange.response


class _Exchange:
    """A request and its response, as an ASGI application sees them.

    `patience`: the most seconds that the client may take to read a part. See https://asgi.readthedocs.io.
    """

    def __init__(self, request: web.BaseRequest, body: bytes, patience: float) -> None:
        self.response = web.StreamResponse(status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self._request = request
        self._body: bytes | None = body
        self._patience = patience

    def scope(self) -> dict[str, Any]:
        """Return what is known of the request."""
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.rel_url.raw_path.encode(),
            "query_string": request.rel_url.raw_query_string.encode(),
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
        }

    async def receive(self) -> dict[str, Any]:
        """Return the body, then wait: the handler is cancelled when the client goes."""
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the head of the response, or a part of its body. Raises ConnectionError."""
        if message["type"] == "http.response.start":
            headers = CIMultiDict(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]
            )
            headers.update(HEADERS)
            self.response = web.StreamResponse(status=message["status"], headers=headers)
            return
        try:
            async with asyncio.timeout(self._patience):
                if not self.response.prepared:
                    await self.response.prepare(self._request)
                await self.response.write(message.get("body", b""))
                if not message.get("more_body"):
                    await self.response.write_eof()
        except TimeoutError:
            raise ConnectionError("a client did not read its reply") from None
