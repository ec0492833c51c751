"""HTTP: requests over `connections`, streams over aiohttp, with every failure raised as TransportError.

A scheduler sends two small requests a pod. `connections.py` only sends a request and waits for its whole response, at a
third of aiohttp's CPU. Watches are streams, and proxies are left to aiohttp.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol, Self
from urllib.parse import quote

import aiohttp
from yarl import URL

from bayplan.foundations.tls import client_context
from bayplan.running.client.access import ClusterAccess
from bayplan.running.client.backoff import Backoff
from bayplan.running.client.client import BACKOFF, Client
from bayplan.running.client.connections import (
    KEEP_ALIVE,
    ConnectionPool,
    NoReplyError,
    NotConnectedError,
    Reply,
    TimeLimits,
    detect_dead_peer,
)
from bayplan.running.client.errors import ConfigError, TransportError
from bayplan.running.client.rate_limit import RateLimit
from bayplan.running.client.transport import ApiRequest, Params, Response
from bayplan.running.client.transport_errors import transport_error

STREAM_SLACK = 30.0
"""Seconds that a stream may stay open beyond the requested time before the server counts as hung."""

NO_ANSWER = "<error>"
"""What stands for the status of a request without a response."""


class RequestObserver(Protocol):
    """Is notified of every request and every retry. `host` is the server's, with the port."""

    def requested(self, method: str, host: str, code: str, seconds: float, sent: int, received: int) -> None:
        """A request has ended. `code`: the status, or NO_ANSWER. `seconds`: until the response began or failed.

        `sent` and `received`: bytes, where they are known.
        """

    def waited(self, method: str, host: str, seconds: float) -> None:
        """A request has passed the client's own rate limit, after `seconds`."""


class HttpClient(Client):
    """A client over HTTP or HTTPS. `access` is a `ClusterAccess` (see `load_kubeconfig`) or the URL of a server.

    `retries`, `backoff` and `rng` are as in `Client`, all other options as in `HttpTransport`.
    """

    def __init__(
        self,
        access: ClusterAccess | str,
        *,
        retries: int = 3,
        backoff: Backoff = BACKOFF,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        **options: Any,
    ) -> None:
        self.access = ClusterAccess(server=access) if isinstance(access, str) else access
        transport = HttpTransport(self.access, sleep=sleep, **options)
        super().__init__(
            transport, namespace=self.access.namespace, retries=retries, backoff=backoff, sleep=sleep, rng=rng
        )
        self.longest_wait = transport.longest_wait
        """See HttpTransport."""


class HttpTransport:
    """Sends requests over HTTP: over `ConnectionPool`, but streams and requests through a proxy over aiohttp.

    A request may take `request_timeout` seconds, and connecting for it `connect_timeout`. A server that sends
    nothing for `idle_timeout` seconds counts as unreachable. At most `max_connections` requests run at once, not
    counting streams. `qps` limits the requests per second (0: no limit);
    `burst` requests may go at once before the limit applies. `observer` is notified of every request.

    After a 401, a request is sent once more if the credentials have something else to try. A PUT or DELETE may be
    repeated once when a reused connection breaks, which is safe as both are idempotent.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        request_timeout: float = 30.0,
        connect_timeout: float = 10.0,
        idle_timeout: float = 15.0,
        max_connections: int = 100,
        qps: float = 0.0,
        burst: int = 1,
        observer: RequestObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.access = access
        self._base = URL(access.server.rstrip("/"))
        self.host = self._base.authority
        self._prefix = self._base.raw_path.rstrip("/")
        self._tls = access.tls or (client_context() if self._base.scheme == "https" else None)
        self._limits = TimeLimits(request_timeout, connect_timeout, idle_timeout)
        self._headers = (
            ("Accept-Encoding", "identity"),
            ("User-Agent", f"bayplan/{version('bayplan')}"),
            *access.headers,
        )
        fields = (("Host", self._base.host_port_subcomponent), *self._headers)
        self._fields = "".join([f"{name}: {value}\r\n" for name, value in fields])
        """The headers of every request over `ConnectionPool`, as they are sent."""
        host = self._base.raw_host or ""
        self._connections = ConnectionPool(host, self._base.port or 0, access.server_hostname or host, self._limits)
        self._slots = asyncio.Semaphore(max_connections)
        self._limit = RateLimit(qps, burst, sleep=sleep) if qps else None
        self.observer = observer
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self.waiting: dict[_Sending, tuple[float, ApiRequest]] = {}
        """The requests without a response, the oldest first, and when each was sent."""

    def longest_wait(self) -> tuple[str, float] | None:
        """The request that has waited longest for a response, and its seconds so far. None if none waits."""
        for began, request in self.waiting.values():
            return f"{request.method} {request.path}", _now() - began
        return None

    @property
    def identity(self) -> str:
        """The credentials in use and where they come from, without secrets."""
        return f"sent: {self.access.credentials}; {self.access.source}"

    async def send(self, request: ApiRequest) -> Response:
        """Send a request once, or again after a 401 with other credentials. Raises TransportError or ConfigError."""
        await self._wait_for_turn(request.method)
        if request.stream:
            return await self._stream(request)
        async with self._slots:
            if self.access.proxy is not None:
                async with self._answer(request, self._limits.request, self._limits.idle) as answer:
                    return Response(answer.status, answer.headers, await answer.read())
            return await self._exchange(request)

    async def close(self) -> None:
        """Close all connections, those of streams included."""
        self._closed = True
        await self._connections.close()
        if self._session is not None:
            await self._session.close()

    async def _wait_for_turn(self, method: str) -> None:
        if self._limit is None:
            return
        began = _now()
        await self._limit.acquire()
        if self.observer is not None:
            self.observer.waited(method, self.host, _now() - began)

    async def _exchange(self, request: ApiRequest) -> Response:
        """Send a request over `ConnectionPool`."""
        with _Sending(self, request) as sending:
            reply, headers = await self._exchange_once(request, sending)
            if reply.status == 401 and await self.access.credentials.refresh(headers):
                reply, _ = await self._exchange_once(request, sending)
            sending.status, sending.received = str(reply.status), len(reply.body)
        return Response(reply.status, reply.headers, reply.body)

    async def _exchange_once(self, request: ApiRequest, sending: _Sending) -> tuple[Reply, Mapping[str, str]]:
        """Send a request, and return the response and the headers that authenticated the request."""
        self._check_open()
        credentials = self.access.credentials
        authentication = await credentials.headers()
        message = self._message(request, authentication)
        tls = credentials.tls or self._tls
        sending.begin()
        return await self._connections.exchange(request.method, message, tls, sending.responded), authentication

    def _message(self, request: ApiRequest, authentication: Mapping[str, str]) -> bytes:
        """A request in HTTP. Raises ConfigError for a header with a line break, which would end it."""
        headers = [*request.headers.items(), *authentication.items()]
        if request.body is not None:
            headers.append(("Content-Length", str(len(request.body))))
        text = f"{request.method} {self._prefix}{_target(request.path, request.params)} HTTP/1.1\r\n{self._fields}"
        text += "".join([f"{name}: {value}\r\n" for name, value in headers])
        lines = 2 + len(self._headers) + len(headers)
        if not text.count("\r") == text.count("\n") == lines:
            raise ConfigError(f"the credentials or other headers have a line break ({self.access.source})")
        return b"%b\r\n%b" % (text.encode(), request.body or b"")

    async def _stream(self, request: ApiRequest) -> Response:
        total = None if request.seconds is None else request.seconds + STREAM_SLACK
        async with AsyncExitStack() as stack:
            answer = await stack.enter_async_context(self._answer(request, total, request.idle))
            if answer.status >= 300:
                return Response(answer.status, answer.headers, await answer.read())
            return Response(answer.status, answer.headers, chunks=_chunks(answer, stack.pop_all()))

    @asynccontextmanager
    async def _answer(
        self, request: ApiRequest, total: float | None, idle: float | None
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The response to a request over aiohttp, open for reading. Raises TransportError if none arrives."""
        limits = aiohttp.ClientTimeout(total=total, connect=self._limits.connect, sock_read=idle)
        headers = dict(request.headers)
        response: aiohttp.ClientResponse | None = None
        with _Sending(self, request) as sending:
            sending.begin()
            try:
                response = await self._request(request, headers, limits)
                if response.status == 401 and await self.access.credentials.refresh(headers):
                    # A client certificate belongs to its connection, so the second attempt needs a new one.
                    response.close()
                    response = await self._request(request, headers, limits)
                sending.responded()
                sending.status, sending.received = str(response.status), response.content_length or 0
                yield response
            finally:
                if response is not None:
                    _release(response)

    async def _request(
        self, request: ApiRequest, headers: dict[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credentials = self.access.credentials
        headers.update(await credentials.headers())
        return await self._open().request(
            request.method,
            URL(f"{self._base.origin()}{self._prefix}{_target(request.path, request.params)}", encoded=True),
            data=request.body,
            headers=headers,
            ssl=credentials.tls or self._tls or True,
            server_hostname=self.access.server_hostname,
            proxy=self.access.proxy,
            timeout=limits,
            allow_redirects=False,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError(f"the client of {self._base} is closed", sent=False)

    def _open(self) -> aiohttp.ClientSession:
        self._check_open()
        if self._session is None:
            # The pool itself has no limit: streams would use it up. DummyCookieJar and fixed headers save CPU time.
            self._session = aiohttp.ClientSession(
                # A dead connection must not be picked again once a request on another one has timed out.
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket, keepalive_timeout=KEEP_ALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                read_bufsize=2**18,
                auto_decompress=False,
            )
        return self._session


class _Sending:
    """A request from when it is sent to the end of its response. Raises TransportError for the errors within."""

    def __init__(self, transport: HttpTransport, request: ApiRequest) -> None:
        self._transport = transport
        self._request = request
        self._began = _now()
        self._seconds: float | None = None
        self.status = NO_ANSWER
        self.received = 0

    def begin(self) -> None:
        """A response is awaited from now on."""
        self._transport.waiting[self] = self._began, self._request

    def responded(self) -> None:
        """The response has begun."""
        self._transport.waiting.pop(self, None)
        self._seconds = _now() - self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        transport, request = self._transport, self._request
        transport.waiting.pop(self, None)
        if transport.observer is not None:
            seconds = _now() - self._began if self._seconds is None else self._seconds
            sent = len(request.body or b"")
            transport.observer.requested(request.method, transport.host, self.status, seconds, sent, self.received)
        if isinstance(error, _FAILURES):
            url = transport.access.server.rstrip("/") + request.path
            raise transport_error(error, request.method, url, transport.access) from error


_FAILURES = (aiohttp.ClientError, NotConnectedError, NoReplyError, OSError)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _chunks(answer: aiohttp.ClientResponse, exchange: AsyncExitStack) -> AsyncGenerator[bytes, None]:
    async with exchange:
        async for chunk in answer.content.iter_any():
            yield chunk


def _release(response: aiohttp.ClientResponse) -> None:
    """Return the connection to the pool. In the middle of a response abort it: a TLS shutdown may take long."""
    connection = response.connection
    if connection is not None and connection.transport is not None and not response.content.is_eof():
        connection.transport.abort()
    response.release()


_PLAIN = re.compile(r"[\w.~/:@!$&'()*+,;=-]*", re.ASCII)
"""Paths that need no percent-encoding: those of almost all objects."""


def _target(path: str, params: Params | None) -> str:
    if not _PLAIN.fullmatch(path):
        path = quote(path, safe="/:@!$&'()*+,;=~")
    if not params:
        return path
    return path + "?" + "&".join(f"{key}={quote(str(value), safe='')}" for key, value in params.items())


def _socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    detect_dead_peer(made)
    return made
