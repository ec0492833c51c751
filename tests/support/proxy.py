"""A proxy between a client and an API server that injects the faults of networks and servers."""

import asyncio
import math
import random
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web
from tests.support.waiting import turns
from yarl import URL


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that the proxy received: its method, and its path with the query."""

    method: str
    path: str

    @property
    def is_watch(self) -> bool:
        """Whether it asks for a watch."""
        return re.search(r"[?&]watch=(true|1)\b", self.path) is not None


@dataclass(slots=True, kw_only=True)
class Fault:
    """A fault for requests of `method` ("" for any) whose path and query contain a match of `path`.

    It applies to the first `times` of them (None: all); `hits` counts them. After `delay` seconds, the proxy responds
    with `status`, or never responds (`hang`), or forwards the request and cuts the connection before the response
    (`drop_response`) or after so many bytes of its body (`truncate_after`), or replaces texts in the response
    (`replace`), so that it contains objects that no server would accept. Or it cuts the connection at once, and
    forwards the request at a random moment within so many seconds (`late`; infinite: never). With a `share`, the fault
    applies to this part of them, at random.
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
    drop_response: bool = False
    truncate_after: int | None = None
    replace: Mapping[bytes, bytes] = field(default_factory=dict)
    late: float | None = None
    share: float = 1.0
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    hits: int = 0

    def matches(self, request: Seen) -> bool:
        """Whether the fault applies to this request. If so, count a hit."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in {"", request.method} or re.search(self.path, request.path) is None:
            return False
        if self.share < 1.0 and self.rng.random() >= self.share:
            return False
        self.hits += 1
        return True


class FaultProxy:
    """Forwards plain HTTP on loopback to `target`, except for injected faults. `tls` is for an HTTPS target.

        async with FaultProxy("http://127.0.0.1:8001") as proxy:
            client = HttpClient(proxy.url)
            proxy.inject("POST", "/binding$", times=3, status=500)
            proxy.cut_every(1.0)
            await proxy.down()
            await proxy.up()

    `requests` are all received requests in their order, faulty or not.
    """

    def __init__(self, target: str, *, tls: ssl.SSLContext | None = None) -> None:
        self.url = ""
        """The address it listens on; `down` and `up` keep the port."""
        self.requests: list[Seen] = []
        self.faults: list[Fault] = []
        self._target = target.rstrip("/")
        self._tls = tls
        self._server = web.Server(self._handle, handler_cancellation=True)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        self._listener: asyncio.Server | None = None
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
        self._under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        self.url = f"http://127.0.0.1:{await self._listen(0)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_cutting()
        for task in self._under_way:
            task.cancel()
        await self.down()
        await self._runner.cleanup()
        await self._session.close()

    def inject(self, method: str, path: str, **what: Any) -> Fault:
        """Add a fault. If several match a request, the first one applies. See `Fault` for `what`."""
        fault = Fault(method=method, path=path, **what)
        self.faults.append(fault)
        return fault

    def count(self, method: str, path: str) -> int:
        """The number of requests of `method` ("" for any) with a match of `path` in their path and query."""
        return sum(seen.method.startswith(method) and re.search(path, seen.path) is not None for seen in self.requests)

    async def arrival(self, method: str, path: str, count: int = 1) -> None:
        """Return once `count` matching requests have arrived since the start."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.count(method, path) >= count)

    async def down(self) -> None:
        """Start an outage: abort all connections and refuse new ones."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            for each in listener.sockets:
                asyncio.get_running_loop().remove_reader(each.fileno())
            await turns(3)  # a server that is closed forgets connections that it was accepting, and keeps them open
            listener.close()
        for connection in self._server.connections:
            _abort(connection.transport)
        self._frozen.clear()

    async def up(self) -> None:
        """End the outage."""
        if self._listener is None:
            await self._listen(URL(self.url).port or 0)

    def cut(self, *, watches_only: bool = True) -> int:
        """Abort the connections of open requests (watches only, or all) and return how many."""
        cut = [transport for transport, seen in self._open.items() if seen.is_watch or not watches_only]
        for transport in cut:
            _abort(transport)
        return len(cut)

    def cut_every(self, seconds: float, *, watches_only: bool = True) -> None:
        """Call `cut` at this interval until the proxy ends."""

        async def cut() -> None:
            while True:
                await asyncio.sleep(seconds)
                self.cut(watches_only=watches_only)

        if self._cutter is not None:
            self._cutter.cancel()
        self._cutter = asyncio.create_task(cut(), name="fault proxy: cut connections")

    def freeze(self) -> int:
        """Stop all traffic on existing connections, as a lost NAT entry does, while new connections work.

        No connection is closed. Returns how many are frozen.
        """
        for connection in self._server.connections:
            if isinstance(connection.transport, asyncio.Transport):
                connection.transport.pause_reading()
                self._frozen.add(connection.transport)
        return len(self._frozen)

    async def arrived(self) -> None:
        """Wait until no request is under way whose connection was cut before it was forwarded."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _listen(self, port: int) -> int:
        """Accept connections. Returns the port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._server, "127.0.0.1", port, reuse_address=True)
        found: int = self._listener.sockets[0].getsockname()[1]
        return found

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
            fault = next((fault for fault in self.faults if fault.matches(seen)), _NO_FAULT)
            await asyncio.sleep(fault.delay)
            if fault.hang:
                await asyncio.get_running_loop().create_future()
            await self._pass(transport)
            if fault.status is not None:
                return _answer(fault)
            if fault.late is not None:
                self._deliver(request, await request.read(), fault.late * fault.rng.random())
                _abort(transport)
                return web.Response()
            return await self._forward(request, fault)
        finally:
            del self._open[transport]

    async def _pass(self, transport: asyncio.BaseTransport | None) -> None:
        """Return at once, or never if the connection is frozen."""
        if transport in self._frozen:
            await asyncio.get_running_loop().create_future()

    def _deliver(self, request: web.BaseRequest, body: bytes, seconds: float) -> None:
        """Forward a request so many seconds later, if ever. Nobody waits for the response any more."""
        if seconds == math.inf:
            return

        async def deliver() -> None:
            await asyncio.sleep(seconds)
            url = URL(self._target + request.raw_path, encoded=True)
            async with self._session.request(
                request.method, url, headers=_forwarded(request), data=body or None, ssl=self._tls or True
            ) as answer:
                await answer.read()

        task = asyncio.create_task(deliver(), name="fault proxy: a late request")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _forward(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
        body = await request.read()
        headers = _forwarded(request)
        url = URL(self._target + request.raw_path, encoded=True)
        response = web.StreamResponse()
        left = fault.truncate_after
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body or None, allow_redirects=False, ssl=self._tls or True
            ) as answer:
                if fault.drop_response:
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


def _forwarded(request: web.BaseRequest) -> dict[str, str]:
    return {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}


async def _replaced(chunks: AsyncIterator[bytes], replacements: Mapping[bytes, bytes]) -> AsyncIterator[bytes]:
    """The body line by line (in a watch, event by event), so that no chunk ends within a text to replace."""
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
