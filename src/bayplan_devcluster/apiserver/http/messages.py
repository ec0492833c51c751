"""A request and its response as plain values, whether they travel over a socket or stay in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from bayplan.core.api.status import StatusError
from bayplan_devcluster.apiserver.encoding import encode

JSON_TYPE, YAML_TYPE = "application/json", "application/yaml"


class ConnectionDropped(Exception):
    """Raised instead of returning a response: the connection closes without one."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request for `ApiServer.handle`.

    `path` is percent-encoded, as in the request line. `query` has the decoded query parameters. `headers` is a plain
    dict with the usual names (`Accept`, `Authorization`, `Content-Type`), or a case-insensitive multidict. The body is
    `body`, or what `receive` returns, which raises StatusError.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    receive: Callable[[], Awaitable[bytes]] | None = None


@dataclass(slots=True)
class HttpResponse:
    """The response to a request: a complete body, or for a watch a `stream` of newline-delimited JSON events.

    A caller that stops reading a stream before its end closes it with `aclose`.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON_TYPE
    warnings: list[str] = field(default_factory=list)
    retry_after: int = 0
    """Seconds; 0 for no Retry-After header."""
    stream: AsyncGenerator[bytes, None] | None = None

    @classmethod
    def of_error(cls, error: StatusError) -> HttpResponse:
        """The response that carries the error's Status object."""
        retry_after = (error.details or {}).get("retryAfterSeconds", 0)
        return cls(error.code, encode(error.body()), retry_after=retry_after)

    def headers(self) -> list[tuple[str, str]]:
        """The header fields, except those that describe the connection and the body's length."""
        fields = [("Content-Type", self.content_type), ("Cache-Control", "no-cache, private")]
        if self.retry_after:
            fields.append(("Retry-After", str(self.retry_after)))
        return fields + [("Warning", warning) for warning in self.warnings]
