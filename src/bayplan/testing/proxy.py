"""A proxy between a client and an API server that does to their requests what networks and servers do on bad days."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came through: its method, and its path with the query."""

    method: str
    path: str

    @property
    def is_watch(self) -> bool:
        """Whether it asks for a watch."""
        return re.search(r"[?&]watch=(true|1)\b", self.path) is not None


@dataclass(slots=True, kw_only=True)
class Fault:
    """What is done to requests of `method` ("" for any) whose path and query contain a match of `path`.

    It happens to `times` of them (None: to all); `hits` counts those that it has happened to. First comes the `delay`
    (seconds), then: an answer with `status`; or no answer for ever (`hang`); or the request is forwarded and the
    connection cut instead of answering (`drop_answer`) or after so many bytes of the body (`truncate_after`).
    """

    method: str
    path: str
    times: int | None = 1
    delay: float = 0.0
    status: int | None = None
    message: str = "injected by the fault proxy"
    reason: str = ""
    retry_after: int | None = None
    hang: bool = False
    drop_answer: bool = False
    truncate_after: int | None = None
    hits: int = 0

    def takes(self, request: Seen) -> bool:
        """Whether it happens to this request. If so it counts as a hit."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in {"", request.method} or re.search(self.path, request.path) is None:
            return False
        self.hits += 1
        return True


class FaultProxy:
    """Listens on loopback and forwards plain HTTP to `target`, until told otherwise.

        async with FaultProxy("http://127.0.0.1:8001") as proxy:
            client = HttpClient(proxy.url)
            proxy.inject("POST", "/binding$", times=3, status=500)
            proxy.cut_every(1.0)
            await proxy.down()
            await proxy.up()

    `requests` are all that arrived, in their order, faulty or not.
    """

    def __init__(self, target: str) -> None:
        self.url = ""
        """Where it listens; the port stays the same through `down` and `up`."""
        self.requests: list[Seen] = []
        self.faults: list[Fault] = []
        self._target = target.rstrip("/")
        self._runner = web.ServerRunner(web.Server(self._handle), handler_cancellation=True)
        self._site: web.TCPSite | None = None
        self._session: aiohttp.ClientSession | None = None
        self._open: dict[web.BaseRequest, Seen] = {}
        self._cutter: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        await self._runner.setup()
        await self._listen(0)
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_cutting()
        await self.down()
        await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def inject(self, method: str, path: str, **what: Any) -> Fault:
        """Adds a fault; of several that match a request, the one added first happens. See `Fault` for `what`."""
        fault = Fault(method=method, path=path, **what)
        self.faults.append(fault)
        return fault

    def count(self, method: str, path: str) -> int:
        """How many requests of `method` ("" for any) had a match of `path` in their path and query."""
        return sum(seen.method.startswith(method) and re.search(path, seen.path) is not None for seen in self.requests)

    async def down(self) -> None:
        """An outage: all connections break, and new ones are refused."""
        if self._site is not None:
            site, self._site = self._site, None
            await site.stop()
        for connection in self._server.connections:
            _abort(connection.transport)

    async def up(self) -> None:
        """The end of the outage."""
        if self._site is None:
            await self._listen(URL(self.url).port or 0)

    def cut(self, *, watches_only: bool = True) -> int:
        """Breaks the connections of open requests (of watches only, or of all) and returns how many."""
        cut = [request for request, seen in self._open.items() if seen.is_watch or not watches_only]
        for request in cut:
            _abort(request.transport)
        return len(cut)

    def cut_every(self, seconds: float, *, watches_only: bool = True) -> None:
        """Does so again and again, until the proxy ends."""

        async def cut() -> None:
            while True:
                await asyncio.sleep(seconds)
                self.cut(watches_only=watches_only)

        if self._cutter is not None:
            self._cutter.cancel()
        self._cutter = asyncio.create_task(cut(), name="fault proxy: cut connections")

    @property
    def _server(self) -> web.Server:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the proxy is not running; use it in `async with`")
        return server

    async def _listen(self, port: int) -> None:
        self._site = web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True)
        await self._site.start()

    async def _stop_cutting(self) -> None:
        if self._cutter is not None:
            self._cutter.cancel()
            with suppress(asyncio.CancelledError):
                await self._cutter

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(request.method, request.path_qs)
        self.requests.append(seen)
        self._open[request] = seen
        try:
            fault = next((fault for fault in self.faults if fault.takes(seen)), _NO_FAULT)
            await asyncio.sleep(fault.delay)
            if fault.hang:
                await asyncio.get_running_loop().create_future()
            if fault.status is not None:
                return _answer(fault)
            return await self._forward(request, fault)
        finally:
            del self._open[request]

    async def _forward(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
        body = await request.read()
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        response = web.StreamResponse()
        left = fault.truncate_after
        try:
            async with self._ask(request, headers, body) as answer:
                if fault.drop_answer:
                    await answer.read()
                    raise ConnectionResetError("the answer is dropped")
                response.set_status(answer.status, answer.reason)
                response.headers.extend(
                    (key, value) for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP
                )
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk if left is None else chunk[:left])
                    if left is not None and (left := left - len(chunk)) <= 0:
                        raise ConnectionResetError("the answer is cut")
                await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            _abort(request.transport)
        return response

    @asynccontextmanager
    async def _ask(
        self, request: web.BaseRequest, headers: dict[str, str], body: bytes
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        if self._session is None:
            raise RuntimeError("the proxy is not running; use it in `async with`")
        url = URL(self._target + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, allow_redirects=False
        ) as answer:
            yield answer


_NO_FAULT = Fault(method="", path="", times=None)
_HOP_BY_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "upgrade"}
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _answer(fault: Fault) -> web.Response:
    status = fault.status or 500
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": fault.message,
        "reason": fault.reason or _REASONS.get(status, ""),
        "code": status,
    }
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.Response(status=status, body=msgspec.json.encode(body), headers=headers, content_type="application/json")


def _abort(transport: asyncio.BaseTransport | None) -> None:
    if isinstance(transport, asyncio.Transport):
        transport.abort()
