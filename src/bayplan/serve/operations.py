"""The operations of the server: a table from which requests are routed and the OpenAPI document is made."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from msgspec import Struct

from bayplan.http_server import quoted
from bayplan.serve.replies import ServeError


@dataclass(frozen=True, slots=True)
class Call:
    """A request for an operation. `body`: what was sent, as the operation's type. `parts`: of the path, by name."""

    request: web.BaseRequest
    parts: Mapping[str, str]
    body: Any = None


Handle = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class HttpOperation:
    """What a method of a path does. Variable parts of the path are in braces.

    `reply`: the JSON Schema of the reply's body, None if it has none. `title`: what the reply is. `statuses`: those of
    errors that only some operations have, with what they mean. `streams`: whether progress can be asked for.
    """

    method: str
    path: str
    name: str
    summary: str
    handle: Handle
    body: type[Struct] | None = None
    reply: Mapping[str, Any] | None = None
    title: str = "The answer."
    status: HTTPStatus = HTTPStatus.OK
    statuses: Mapping[HTTPStatus, str] = field(default_factory=dict)
    streams: bool = False

    @cached_property
    def variables(self) -> list[str]:
        """The names of the variable parts of the path."""
        return re.findall(r"\{(\w+)\}", self.path)

    def match(self, parts: Sequence[str]) -> dict[str, str] | None:
        """Return the variable parts of a path; None for another path."""
        wanted = self.path.split("/")[1:]
        if len(wanted) != len(parts):
            return None
        found = {}
        for want, part in zip(wanted, parts, strict=True):
            if want.startswith("{"):
                found[want.strip("{}")] = part
            elif want != part:
                return None
        return found


def find(operations: Iterable[HttpOperation], request: web.BaseRequest) -> tuple[HttpOperation, dict[str, str]]:
    """Return the operation of a request, and the variable parts of its path. Raises ServeError."""
    parts = [unquote(part) for part in request.rel_url.raw_path.split("/")[1:]]
    methods = []
    for operation in operations:
        found = operation.match(parts)
        if found is not None:
            if operation.method == request.method:
                return operation, found
            methods.append(operation.method)
    if methods:
        allowed = ", ".join(methods)
        message = f"{quoted(request.path)} requires {allowed}"
        raise ServeError(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": allowed})
    raise ServeError(HTTPStatus.NOT_FOUND, f"there is no {quoted(request.path)}; /openapi.json tells what there is")
