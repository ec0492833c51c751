"""An extender on loopback with scripted responses, for tests of the client."""

import asyncio
import json
import ssl
from typing import Any, Self

from aiohttp import web

HANG_UP = object()
"""A response: close the connection."""
NEVER = object()
"""A response: none, until the extender ends."""


class StubExtender:
    """Records its requests. `answers` are responses by verb: a value for JSON, bytes for a body, a number for a status.

    A tuple has one response per request; the last one is repeated. A function is called with the request, awaited if it
    is asynchronous, and returns one of these. Without `keep_alive`, connections are closed after each response. `users`
    are the names in the client certificates.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, *, keep_alive: bool = True, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.requests: list[web.Request] = []
        self.connections: set[Any] = set()
        self.users: list[str] = []
        self._keep_alive = keep_alive
        self._tls = tls
        self._over = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._runner.cleanup()

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]

    def questions(self, verb: str) -> list[Any]:
        return [question for asked, question in self.asked if asked == verb]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        verb, body = request.match_info["path"].rpartition("/")[2], await request.read()
        self.requests.append(request)
        self.connections.add(request.transport)
        if certificate := request.get_extra_info("peercert"):
            self.users.append(dict(part[0] for part in certificate["subject"])["commonName"])
        question = json.loads(body) if body else None
        self.asked.append((verb, question))
        answer = self.answers.get(verb, 404)
        if isinstance(answer, tuple):
            answer = answer[min(self.verbs().count(verb), len(answer)) - 1]
        if callable(answer):
            answer = answer(question)
            if asyncio.iscoroutine(answer):
                answer = await answer
        if answer is NEVER:
            await self._over.wait()
            answer = HANG_UP
        if answer is HANG_UP:
            request.transport.abort()
            return web.Response()
        if isinstance(answer, int):
            return web.Response(status=answer)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        response = web.Response(body=body, content_type="application/json")
        if not self._keep_alive:
            response.force_close()
        return response
