"""The seam between the client and the network: requests and responses as plain values.

`HttpTransport` sends them over HTTP. `bayplan_devcluster.in_memory` hands them to an embedded API server instead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import msgspec

Params = Mapping[str, str | int]


class ApiRequest(msgspec.Struct, frozen=True):
    """One request. `path` and `params` are not percent-encoded."""

    method: str
    path: str
    params: Params = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    stream: bool = False
    """Whether a successful response is wanted as `Response.chunks`."""
    seconds: float | None = None
    """How long the server was asked to keep a stream open, if it was."""
    idle: float | None = None
    """The seconds of silence after which the connection of a stream counts as dead, if there is such a limit."""


class Response(msgspec.Struct, frozen=True):
    """The response to a request, whatever its status.

    A successful response to a stream has `chunks` in place of a body: the pieces of the body as they arrive. The caller
    must iterate them at once and close the iterator at the end. They raise TransportError if the connection breaks.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None


class Transport(Protocol):
    """Sends requests to one API server."""

    @property
    def identity(self) -> str:
        """The credentials in use and where they come from, without secrets, for the message of a 401."""
        ...

    async def send(self, request: ApiRequest) -> Response:
        """Sends a request once. Raises TransportError if no complete response arrives, or ConfigError."""
        ...

    async def close(self) -> None:
        """Closes all connections. Requests in flight and later requests fail with TransportError."""
        ...
