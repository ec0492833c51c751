"""A client of an embedded API server without sockets, so that tests can run on virtual time.

Everything but the network is real: the client's retries and decoding, and the server's validation and versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from bayplan.core.api.status import StatusError
from bayplan.running.client.client import Client
from bayplan.running.client.errors import TransportError
from bayplan.running.client.transport import ApiRequest, Response
from bayplan_devcluster.apiserver import ApiServer, ConnectionDropped, Faults, HttpRequest, HttpResponse
from bayplan_devcluster.apiserver.http.request_info import RequestInfo, read_request_info


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that the client has sent, and what it asks for in the terms of RBAC."""

    info: RequestInfo
    request: ApiRequest

    @property
    def document(self) -> Any:
        """The decoded body, None without one."""
        return msgspec.json.decode(self.request.body) if self.request.body else None


class InMemoryTransport:
    """A `Transport` that calls `server` directly, with a bearer token if one is given.

    `requests` has every request, in order. Requests fail by `faults`, which concern this transport alone, or by
    `server.faults`, which concern every client. While `reachable` is False, connections are refused.
    """

    def __init__(self, server: ApiServer, *, token: str = "") -> None:
        self.server = server
        self.requests: list[SentRequest] = []
        self.faults = Faults()
        self.reachable = True
        self._streams: set[_Stream] = set()
        self._closed = False
        self._credentials = {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def identity(self) -> str:
        """Whether requests have a token."""
        return f"sent: {'a' if self._credentials else 'no'} token; in memory"

    async def send(self, request: ApiRequest) -> Response:
        """Hand a request to the server, unless faults or `reachable` forbid it. Raises TransportError."""
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        path = quote(request.path, safe="/:@!$&'()*+,;=~")
        query = {name: str(value) for name, value in request.params.items()}
        info = read_request_info(request.method, path, query)
        self.requests.append(SentRequest(info, request))
        await asyncio.sleep(0)  # as over a socket, others get their turn before the response
        if not self.reachable:
            raise TransportError(f"{request.method} {path}: connection refused", sent=False, cause="connection refused")
        try:
            response = await self._carry_out(
                info,
                HttpRequest(request.method, path, query, {**request.headers, **self._credentials}, request.body or b""),
            )
        except ConnectionDropped:
            raise TransportError(f"{request.method} {path}: the server closed the connection", sent=True) from None
        headers = dict(response.headers())
        if response.stream is None:
            return Response(response.status, headers, response.body)
        stream = _Stream(response.stream, self._streams)
        return Response(response.status, headers, chunks=stream.chunks())

    def sent(self, verb: str, resource: str | None = None) -> list[SentRequest]:
        """The requests with a verb of RBAC (`create`, `patch`, ...), for one resource (`pods`) or any."""
        return [each for each in self.requests if each.info.verb == verb and resource in {None, each.info.resource}]

    def end_streams(self, *, broken: bool = False) -> None:
        """Ends all watches: as a server does in its own time, or as a `broken` connection does."""
        for stream in tuple(self._streams):
            stream.end(broken=broken)

    async def close(self) -> None:
        """End all watches. Later requests fail."""
        self._closed = True
        self.faults.clear()
        self.end_streams(broken=True)

    async def _carry_out(self, info: RequestInfo, request: HttpRequest) -> HttpResponse:
        fault = None
        try:
            if self.faults.active:
                fault = await self.faults.before(info)
        except StatusError as error:
            return HttpResponse.of_error(error)
        response = await self.server.handle(request)
        if fault is not None and fault.drop == "after":
            raise ConnectionDropped
        return response


class _Stream:
    """The response to a watch, which can be ended from outside."""

    def __init__(self, source: AsyncGenerator[bytes, None], running: set[_Stream]) -> None:
        self._source = source
        self._running = running
        self._wait: asyncio.Timeout | None = None
        self._ended = self._broken = False

    def end(self, *, broken: bool) -> None:
        self._ended, self._broken = True, broken
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(0)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        self._running.add(self)
        try:
            async with aclosing(self._source) as source:
                while (chunk := await self._next(source)) is not None:
                    yield chunk
        finally:
            self._running.discard(self)
        if self._broken:
            raise TransportError("the connection broke in the middle of the response", sent=True)

    async def _next(self, source: AsyncGenerator[bytes, None]) -> bytes | None:
        """The next chunk, None at the end."""
        if self._ended:
            return None
        try:
            async with asyncio.timeout(None) as self._wait:
                return await anext(source, None)
        except TimeoutError:
            return None
        finally:
            self._wait = None


class InMemoryClient(Client):
    """A client of `server`, with a bearer token if one is given. The `options` are those of `Client`."""

    def __init__(self, server: ApiServer, *, token: str = "", **options: Any) -> None:
        self.server = server
        self.transport = InMemoryTransport(server, token=token)
        super().__init__(self.transport, **options)
