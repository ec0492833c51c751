"""A server with scripted responses, and a sleep that takes no time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web
from tests.support.waiting import turns


@dataclass
class ScriptedServer:
    """Serves each request with the next of `answers`; the last one repeats."""

    url: str = ""
    answers: list[Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    connections: set = field(default_factory=set)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.connections.add(request.transport)
        self.requests.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    def respond(self, *documents, status=200, headers=None):
        async def answer(_):
            return web.Response(
                status=status,
                headers=headers,
                body=b"".join(msgspec.json.encode(document) for document in documents),
                content_type="application/json",
            )

        self.answers.append(answer)

    def respond_text(self, text, *, status):
        async def answer(_):
            return web.Response(status=status, text=text)

        self.answers.append(answer)

    def stream(self, *chunks, then="end"):
        """Sends the chunks; then ends, drops the connection, or stays silent."""

        async def answer(request):
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            try:
                for chunk in chunks:
                    await response.write(chunk)
                    await turns()  # the client gets each by itself
                if then == "cut":
                    request.transport.abort()
                elif then == "silence":
                    await asyncio.Event().wait()
            finally:
                self.left.set()
            return response

        self.answers.append(answer)

    def drop(self):
        async def answer(request):
            request.transport.abort()
            return web.Response()

        self.answers.append(answer)

    def hang(self):
        async def answer(_):
            await asyncio.Event().wait()

        self.answers.append(answer)


@pytest.fixture
async def server():
    scripted = ScriptedServer()
    runner = web.ServerRunner(web.Server(scripted.handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scripted.url = "http://{}:{}".format(*runner.addresses[0])
    yield scripted
    await runner.cleanup()


class Sleeps(list):
    """A sleep that takes no time, and the list of its calls in seconds."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def sleeps():
    return Sleeps()
