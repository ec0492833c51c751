"""HTTP: requests and streams over pooled aiohttp connections, with every failure raised as TransportError."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
from yarl import URL

from bayplan.client.access import ClusterAccess
from bayplan.client.backoff import Backoff
from bayplan.client.client import BACKOFF, Client
from bayplan.client.errors import RequestTimeoutError, TransportError
from bayplan.client.rate_limit import RateLimit
from bayplan.client.transport import Params, Request, Response
from bayplan.tls import client_context

STREAM_SLACK = 30.0
"""Seconds that a stream may stay open beyond the requested time before the server counts as hung."""

KEEP_ALIVE = 10.0
"""Seconds for which the pool keeps an unused connection."""

NO_ANSWER = "<error>"
"""In place of the status of a request without a response."""


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
    """A transport over pooled aiohttp connections.

    A request may take `request_timeout` seconds, of which connecting may take `connect_timeout`. A server that sends
    nothing for `idle_timeout` seconds counts as unreachable. At most `max_connections` requests run at once, not
    counting streams. `qps` limits the requests per second (0: no limit);
    `burst` requests may go at once before the limit applies. `observer` is notified of every request.

    After a 401, a request is sent once more if the credentials have something else to try. aiohttp may repeat a PUT or
    DELETE once when a pooled connection breaks, which is safe as both are idempotent.
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
        self._access = access
        self._base = access.server.rstrip("/")
        self._tls = access.tls or (client_context() if self._base.startswith("https:") else True)
        self._limits = aiohttp.ClientTimeout(total=request_timeout, connect=connect_timeout, sock_read=idle_timeout)
        self._slots = asyncio.Semaphore(max_connections)
        self._limit = RateLimit(qps, burst, sleep=sleep) if qps else None
        self._observer = observer
        self._host = URL(self._base).authority
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._waiting: dict[object, tuple[float, str]] = {}
        """The requests without a response, the oldest first: when each was sent, and its method and path."""

    def longest_wait(self) -> tuple[str, float] | None:
        """The request that has waited longest for a response, and its seconds so far. None if none waits."""
        began, request = next(iter(self._waiting.values()), (0.0, ""))
        return (request, _now() - began) if request else None

    @property
    def identity(self) -> str:
        """See Transport."""
        return f"sent: {self._access.credentials}; {self._access.source}"

    async def send(self, request: Request) -> Response:
        """See Transport."""
        await self._wait_for_turn(request.method)
        if not request.stream:
            async with self._slots, self._answer(request, self._limits) as answer:
                return Response(answer.status, answer.headers, await answer.read())
        total = None if request.seconds is None else request.seconds + STREAM_SLACK
        limits = aiohttp.ClientTimeout(total=total, connect=self._limits.connect, sock_read=request.idle)
        async with AsyncExitStack() as stack:
            answer = await stack.enter_async_context(self._answer(request, limits))
            if answer.status >= 300:
                return Response(answer.status, answer.headers, await answer.read())
            return Response(answer.status, answer.headers, chunks=_chunks(answer, stack.pop_all()))

    async def close(self) -> None:
        """See Transport."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _wait_for_turn(self, method: str) -> None:
        if self._limit is None:
            return
        began = _now()
        await self._limit.acquire()
        if self._observer is not None:
            self._observer.waited(method, self._host, _now() - began)

    @asynccontextmanager
    async def _answer(
        self, request: Request, limits: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The response to a request, open for reading. Raises TransportError if none arrives."""
        method, body = request.method, request.body
        url = URL(self._base + _target(request.path, request.params), encoded=True)
        headers = dict(request.headers)
        response: aiohttp.ClientResponse | None = None
        began, seconds, status = _now(), None, NO_ANSWER
        waiting = object()
        self._waiting[waiting] = began, f"{method} {request.path}"
        try:
            response = await self._exchange(method, url, headers, body, limits)
            seconds, status = _now() - began, str(response.status)
            if response.status == 401 and await self._access.credentials.refresh(headers):
                # A client certificate belongs to its connection, so the second attempt needs a new one.
                response.close()
                response = await self._exchange(method, url, headers, body, limits)
            del self._waiting[waiting]
            yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _transport_error(error, method, self._base + request.path, self._access) from error
        finally:
            self._waiting.pop(waiting, None)
            if self._observer is not None:
                size = (response.content_length or 0) if response is not None else 0
                seconds = _now() - began if seconds is None else seconds
                self._observer.requested(method, self._host, status, seconds, len(body or b""), size)
            if response is not None:
                _release(response)

    async def _exchange(
        self, method: str, url: URL, headers: dict[str, str], body: bytes | None, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credentials = self._access.credentials
        headers.update(await credentials.headers())
        return await self._open().request(
            method,
            url,
            data=body,
            headers=headers,
            ssl=credentials.tls or self._tls,
            server_hostname=self._access.server_hostname,
            proxy=self._access.proxy,
            timeout=limits,
            allow_redirects=False,
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError(f"the client of {self._base} is closed", sent=False)
        if self._session is None:
            # The pool itself has no limit: streams would use it up. DummyCookieJar and fixed headers save CPU time.
            self._session = aiohttp.ClientSession(
                # A dead connection must not be picked again once a request on another one has timed out.
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket, keepalive_timeout=KEEP_ALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=[
                    ("Accept-Encoding", "identity"),
                    ("User-Agent", f"bayplan/{version('bayplan')}"),
                    *self._access.headers,
                ],
                read_bufsize=2**18,
                auto_decompress=False,
            )
        return self._session


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


def _target(path: str, params: Params | None) -> str:
    path = quote(path, safe="/:@!$&'()*+,;=~")
    if not params:
        return path
    return path + "?" + "&".join(f"{key}={quote(str(value), safe='')}" for key, value in params.items())


def _transport_error(error: Exception, method: str, url: str, access: ClusterAccess) -> TransportError:
    sent = True
    match error:
        case aiohttp.ClientConnectorCertificateError():
            sent = False
            why = f"the server's certificate is not trusted: {_certificate_problem(error)} ({access.source})"
        case aiohttp.ConnectionTimeoutError():
            sent, why = False, "connecting took too long"
        case aiohttp.ClientConnectorDNSError():
            sent, why = False, f"unknown host: {error.os_error}"
        case aiohttp.ClientConnectorError():
            sent, why = False, _connection_problem(error.os_error)
        case aiohttp.ClientHttpProxyError():
            sent, why = False, f"the proxy {access.proxy} responded with {error.status} {error.message}"
        case aiohttp.InvalidURL():
            sent, why = False, f"not a valid URL ({access.source})"
        case TimeoutError():
            return RequestTimeoutError(f"{method} {url}")
        case aiohttp.ServerDisconnectedError():
            why = "the server closed the connection"
        case aiohttp.ClientPayloadError():
            why = "the connection broke in the middle of the response"
        case OSError():
            why = _connection_problem(error)
        case _:
            why = str(error) or type(error).__name__
    return TransportError(f"{method} {url}: {why}", sent=sent, cause=why)


def _connection_problem(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"the TLS connection failed: {error.reason or error}"
    if error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or "the server closed the connection"


def _certificate_problem(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    return cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that detects within 25 seconds that its peer is unreachable, whether or not it has data to send."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 20_000),  # milliseconds
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
