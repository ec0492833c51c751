"""The operations of the server: a table from which requests are routed and the OpenAPI document is made.

To add one: an `HttpOperation` in `app.py` or `transaction_operations.py`. Questions are operations without a line here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any

from aiohttp import web
from msgspec import Struct

from bayplan.faces.asking.replies import ServeError
from bayplan.faces.asking.routing import Routes, UnknownRoute
from bayplan.foundations.http_server import quoted


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


async def find(operations: Routes[HttpOperation], request: web.BaseRequest) -> tuple[HttpOperation, Mapping[str, str]]:
    """Return the operation of a request, and the variable parts of its path. Raises ServeError."""
    try:
        return await operations.find(request.method, request.rel_url.raw_path)
    except UnknownRoute as error:
        if error.allowed:
            allowed = ", ".join(error.allowed)
            message = f"{quoted(request.path)} requires {allowed}"
            raise ServeError(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": allowed}) from None
        message = f"there is no {quoted(request.path)}; /openapi.json tells what there is"
        raise ServeError(HTTPStatus.NOT_FOUND, message) from None
