"""The transport: requests and streams over pooled aiohttp connections, with every failure told as one of ours."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
from yarl import URL

from bayplan.client.access import ClusterAccess
from bayplan.client.backoff import Backoff
from bayplan.client.client import JSON, Client, Params
from bayplan.client.errors import ApiError, TransportError
from bayplan.client.rate_limit import RateLimit

STREAM_SLACK = 30.0
"""Seconds that a server may take beyond the announced end of a stream before it counts as hung."""

LONGEST_SERVER_WAIT = 5.0
"""Seconds: a longer Retry-After is the caller's to wait for, who may have something better to do."""

NO_ANSWER = "<error>"
"""What stands for the status of a request that was not answered."""

_BACKOFF = Backoff(initial=0.1)


class RequestObserver(Protocol):
    """Is told of requests, repeated ones too; `host` is the server's, with its port."""

    def requested(self, method: str, host: str, code: str, seconds: float, sent: int, received: int) -> None:
        """A request is over. `code`: the status, or NO_ANSWER. `seconds`: until the answer began, or did not come.

        `sent` and `received`: bytes, where they are known.
        """

    def waited(self, method: str, host: str, seconds: float) -> None:
        """A request had its turn in the client's own rate limit."""


class HttpClient(Client):
    """A client over HTTP or HTTPS. `access` is a `ClusterAccess` (see `load_kubeconfig`) or the URL of a server.

    A request may take `request_timeout` seconds, connecting `connect_timeout` of them; at most `max_connections`
    requests run at once, streams not counted. `qps` limits the requests a second (0: no limit), `burst` how many may
    go at once before that.

    A request is repeated, up to `retries` times, if it surely has not been carried out (no connection, 429 with
    Retry-After), and a GET after any failure in between too (and on 503 with Retry-After).
    PUT and DELETE may be repeated once by aiohttp when a pooled connection breaks: they say the same thing twice.
    `observer` is told of every request. `sleep` and `rng` are there for tests.
    """

    def __init__(
        self,
        access: ClusterAccess | str,
        *,
        request_timeout: float = 30.0,
        connect_timeout: float = 10.0,
        max_connections: int = 100,
        retries: int = 3,
        backoff: Backoff = _BACKOFF,
        qps: float = 0.0,
        burst: int = 1,
        observer: RequestObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.access = ClusterAccess(server=access) if isinstance(access, str) else access
        self.namespace = self.access.namespace
        self._base = self.access.server.rstrip("/")
        self._limits = aiohttp.ClientTimeout(total=request_timeout, connect=connect_timeout)
        self._slots = asyncio.Semaphore(max_connections)
        self._retries = retries
        self._backoff = backoff
        self._limit = RateLimit(qps, burst, sleep=sleep) if qps else None
        self._observer = observer
        self._host = URL(self._base).authority
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """The body of a successful answer; see the class for what is repeated."""
        waits = self._backoff.waits(self._rng)
        for attempts_left in range(self._retries, -1, -1):
            await self._wait_for_turn(method)
            try:
                async with self._slots, self._send(method, path, params, body, content_type, self._limits) as response:
                    return await response.read()
            except TransportError as error:
                if not attempts_left or (error.sent and method != "GET"):
                    raise
                await self._sleep(next(waits))
            except ApiError as error:
                wait = _server_wait(error, method)
                if not attempts_left or wait is None:
                    raise
                await self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def stream(
        self, path: str, *, params: Params | None = None, seconds: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body of a GET as it comes; never repeated. Leaving it early closes its connection."""
        await self._wait_for_turn("GET")
        total = None if seconds is None else seconds + STREAM_SLACK
        limits = aiohttp.ClientTimeout(total=total, connect=self._limits.connect)
        async with self._send("GET", path, params, None, JSON, limits) as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def close(self) -> None:
        """Closes all connections. Requests under way and later ones fail with TransportError."""
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
    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The successful response to one request, open for reading; whatever else it ends in is raised."""
        url = URL(self._base + _target(path, params), encoded=True)
        headers = {"Content-Type": content_type} if body is not None else {}
        response: aiohttp.ClientResponse | None = None
        began, seconds, status = _now(), None, NO_ANSWER
        try:
            response = await self._exchange(method, url, headers, body, limits)
            seconds, status = _now() - began, str(response.status)
            if response.status == 401 and await self.access.credentials.refresh(headers):
                # Another connection for the second try: a client certificate belongs to its connection.
                response.close()
                response = await self._exchange(method, url, headers, body, limits)
            if response.status >= 300:
                raise self._api_error(response, await response.read())
            yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _transport_error(error, method, self._base + path, self.access) from error
        finally:
            if self._observer is not None:
                size = (response.content_length or 0) if response is not None else 0
                seconds = _now() - began if seconds is None else seconds
                self._observer.requested(method, self._host, status, seconds, len(body or b""), size)
            if response is not None:
                _let_go(response)

    async def _exchange(
        self, method: str, url: URL, headers: dict[str, str], body: bytes | None, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credentials = self.access.credentials
        headers.update(await credentials.headers())
        return await self._open().request(
            method,
            url,
            data=body,
            headers=headers,
            ssl=credentials.tls or self.access.tls or True,
            server_hostname=self.access.server_hostname,
            proxy=self.access.proxy,
            timeout=limits,
            allow_redirects=False,
        )

    def _api_error(self, response: aiohttp.ClientResponse, body: bytes) -> ApiError:
        header = response.headers.get("Retry-After", "")
        error = ApiError.from_status(body, status=response.status, retry_after=_seconds(header))
        error.status = response.status
        if error.status == 401:
            error.message = f"{error.message} (sent: {self.access.credentials}; {self.access.source})"
        return error

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError(f"the client of {self._base} is closed", sent=False)
        if self._session is None:
            # The pool itself has no limit: streams would use it up. DummyCookieJar and fixed headers save CPU time.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=[
                    ("Accept", JSON),
                    ("Accept-Encoding", "identity"),
                    ("User-Agent", f"bayplan/{version('bayplan')}"),
                    *self.access.headers,
                ],
                read_bufsize=2**18,
                auto_decompress=False,
            )
        return self._session


def _now() -> float:
    return asyncio.get_running_loop().time()


def _let_go(response: aiohttp.ClientResponse) -> None:
    """Give the connection back to the pool. In the middle of an answer it is cut: a farewell over TLS may take long."""
    connection = response.connection
    if connection is not None and connection.transport is not None and not response.content.is_eof():
        connection.transport.abort()
    response.release()


def _server_wait(error: ApiError, method: str) -> float | None:
    """How long to wait before a request that a server declined is sent again; None: not at all."""
    if error.retry_after is None or error.retry_after > LONGEST_SERVER_WAIT:
        return None
    return error.retry_after if error.status == 429 or (error.status == 503 and method == "GET") else None


def _target(path: str, params: Params | None) -> str:
    path = quote(path, safe="/:@!$&'()*+,;=~")
    if not params:
        return path
    return path + "?" + "&".join(f"{key}={quote(str(value), safe='')}" for key, value in params.items())


def _seconds(retry_after: str) -> float | None:
    return float(retry_after) if retry_after.isdecimal() else None


def _transport_error(error: Exception, method: str, url: str, access: ClusterAccess) -> TransportError:
    sent = True
    match error:
        case aiohttp.ClientConnectorCertificateError():
            sent = False
            why = f"the server's certificate is not trusted: {_certificate_trouble(error)} ({access.source})"
        case aiohttp.ConnectionTimeoutError():
            sent, why = False, "connecting took too long"
        case aiohttp.ClientConnectorDNSError():
            sent, why = False, f"the host is not known: {error.os_error}"
        case aiohttp.ClientConnectorError():
            sent, why = False, _connection_trouble(error.os_error)
        case aiohttp.ClientHttpProxyError():
            sent, why = False, f"the proxy {access.proxy} answered {error.status} {error.message}"
        case aiohttp.InvalidURL():
            sent, why = False, f"not a URL that can be requested ({access.source})"
        case TimeoutError():
            why = "no answer in time"
        case aiohttp.ServerDisconnectedError():
            why = "the server closed the connection"
        case aiohttp.ClientPayloadError():
            why = "the connection broke in the middle of the answer"
        case OSError():
            why = _connection_trouble(error)
        case _:
            why = str(error) or type(error).__name__
    return TransportError(f"{method} {url}: {why}", sent=sent)


def _connection_trouble(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection can be made: {error.reason or error}"
    if error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or "the server closed the connection"


def _certificate_trouble(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    return cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices within a minute that its peer is gone, since a watch may be silent for long."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
