"""A proxy between a client and an API server that does to their requests what networks and servers do on bad days."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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
    connection cut instead of answering (`drop_answer`) or after so many bytes of the body (`truncate_after`); or texts
    of the answer are replaced by others (`replace`), as if the server held what no server would accept.
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
    replace: Mapping[bytes, bytes] = field(default_factory=dict)
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
    """Listens on loopback for plain HTTP and forwards to `target`, until told otherwise. `tls` is for an HTTPS target.

        async with FaultProxy("http://127.0.0.1:8001") as proxy:
            client = HttpClient(proxy.url)
            proxy.inject("POST", "/binding$", times=3, status=500)
            proxy.cut_every(1.0)
            await proxy.down()
            await proxy.up()

    `requests` are all that arrived, in their order, faulty or not.
    """

    def __init__(self, target: str, *, tls: ssl.SSLContext | None = None) -> None:
        self.url = ""
        """Where it listens; the port stays the same through `down` and `up`."""
        self.requests: list[Seen] = []
        self.faults: list[Fault] = []
        self._target = target.rstrip("/")
        self._tls = tls
        self._server = web.Server(self._handle, handler_cancellation=True)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        self._site: web.TCPSite | None = None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._arrived = asyncio.Condition()
        self._open: dict[asyncio.BaseTransport | None, Seen] = {}
        self._frozen: set[asyncio.BaseTransport | None] = set()
        self._cutter: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await self._listen(0)
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_cutting()
        await self.down()
        await self._runner.cleanup()
        await self._session.close()

    def inject(self, method: str, path: str, **what: Any) -> Fault:
        """Adds a fault; of several that match a request, the one added first happens. See `Fault` for `what`."""
        fault = Fault(method=method, path=path, **what)
        self.faults.append(fault)
        return fault

    def count(self, method: str, path: str) -> int:
        """How many requests of `method` ("" for any) had a match of `path` in their path and query."""
        return sum(seen.method.startswith(method) and re.search(path, seen.path) is not None for seen in self.requests)

    async def arrival(self, method: str, path: str, count: int = 1) -> None:
        """Returns once `count` such requests have arrived since the beginning."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.count(method, path) >= count)

    async def down(self) -> None:
        """An outage: all connections break, and new ones are refused."""
        if self._site is not None:
            site, self._site = self._site, None
            await site.stop()
            for _ in range(3):  # asyncio takes so many turns to bring up what it was accepting
                await asyncio.sleep(0)
        for connection in self._server.connections:
            _abort(connection.transport)
        self._frozen.clear()

    async def up(self) -> None:
        """The end of the outage."""
        if self._site is None:
            await self._listen(URL(self.url).port or 0)

    def cut(self, *, watches_only: bool = True) -> int:
        """Breaks the connections of open requests (of watches only, or of all) and returns how many."""
        cut = [transport for transport, seen in self._open.items() if seen.is_watch or not watches_only]
        for transport in cut:
            _abort(transport)
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

    def freeze(self) -> int:
        """Lets nothing pass on the connections that exist, while new ones work: a lost NAT entry, a dead load balancer.

        No connection is closed. Returns how many are frozen.
        """
        for connection in self._server.connections:
            if isinstance(connection.transport, asyncio.Transport):
                connection.transport.pause_reading()
                self._frozen.add(connection.transport)
        return len(self._frozen)

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
        transport = request.transport
        self._open[transport] = seen
        try:
            async with self._arrived:
                self._arrived.notify_all()
            fault = next((fault for fault in self.faults if fault.takes(seen)), _NO_FAULT)
            await asyncio.sleep(fault.delay)
            if fault.hang:
                await asyncio.get_running_loop().create_future()
            await self._pass(transport)
            if fault.status is not None:
                return _answer(fault)
            return await self._forward(request, fault)
        finally:
            del self._open[transport]

    async def _pass(self, transport: asyncio.BaseTransport | None) -> None:
        """Returns at once, or never if the connection is frozen."""
        if transport in self._frozen:
            await asyncio.get_running_loop().create_future()

    async def _forward(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
        body = await request.read()
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        url = URL(self._target + request.raw_path, encoded=True)
        response = web.StreamResponse()
        left = fault.truncate_after
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body or None, allow_redirects=False, ssl=self._tls or True
            ) as answer:
                if fault.drop_answer:
                    await answer.read()
                    raise ConnectionResetError("the answer is dropped")
                response.set_status(answer.status, answer.reason)
                response.headers.extend(
                    (key, value) for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP
                )
                chunks: AsyncIterator[bytes] = answer.content.iter_any()
                if fault.replace:
                    response.headers.popall("Content-Length", None)
                    chunks = _replaced(chunks, fault.replace)
                await self._pass(request.transport)
                await response.prepare(request)
                async for chunk in chunks:
                    await self._pass(request.transport)
                    await response.write(chunk if left is None else chunk[:left])
                    if left is not None and (left := left - len(chunk)) <= 0:
                        raise ConnectionResetError("the answer is cut")
                await self._pass(request.transport)
                await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            _abort(request.transport)
        return response


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


async def _replaced(chunks: AsyncIterator[bytes], replacements: Mapping[bytes, bytes]) -> AsyncIterator[bytes]:
    """The body line by line, which is event by event in a watch, so that no text is torn by the end of a chunk."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield _replace(line, replacements) + b"\n"
    if rest:
        yield _replace(rest, replacements)


def _replace(text: bytes, replacements: Mapping[bytes, bytes]) -> bytes:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


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
