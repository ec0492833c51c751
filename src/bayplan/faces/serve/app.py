"""The application: finds the operation of a request, reads its body, and replies with JSON.

It only reads the cluster. The guard lets in requests with the token; the limits of all ports are
`bayplan.foundations.http_server`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from bayplan.answers.insight.question_parameters import Question
from bayplan.faces.asking.answering import QUESTION_STATUSES, answer, answer_schema, ready
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.guard import BearerGuard
from bayplan.faces.asking.replies import BODY_LIMIT, JSON, ServeError, encoded, guarded, reply
from bayplan.faces.asking.routing import Routes
from bayplan.faces.asking.served_questions import ServedQuestions
from bayplan.faces.serve.openapi import document
from bayplan.faces.serve.operations import Call, HttpOperation, find
from bayplan.foundations.http_server import HttpServer, Limits, quoted

_CLUSTER = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "description": "Where the cluster is read."},
        "live": {"type": "boolean", "description": "Whether the cluster is followed."},
        "version": {"type": "integer", "description": "It increases with every change."},
        "taken": {"type": ["string", "null"], "description": "When the cluster was read."},
        "lost": {"type": "string", "description": "Why the cluster can't be followed any longer."},
        "problems": {"type": "array", "items": {"type": "string"}},
        "nodes": {"type": "integer"},
        "pods": {"type": "integer"},
    },
    "required": ["source", "live", "version", "taken", "lost", "problems", "nodes", "pods"],
}

log = logging.getLogger(__name__)


class ServeApplication:
    """Answers requests. `http` serves it. `more`: operations besides the questions."""

    def __init__(
        self,
        asking: Asking,
        questions: ServedQuestions,
        guard: BearerGuard,
        more: Iterable[HttpOperation] = (),
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        self.http = HttpServer(self.handle, log=log, limits=limits, body_limit=BODY_LIMIT, inflate=True, cancels=True)
        self._asking = asking
        self._questions = questions
        self._guard = guard
        self._limits = limits
        self.operations = [
            HttpOperation("GET", "/openapi.json", "openapi", "Return this document.", self._openapi, reply={}),
            HttpOperation(
                "GET",
                "/v1/cluster",
                "cluster",
                "Return what is known of the cluster.",
                self._cluster,
                reply=_CLUSTER,
                title="The cluster.",
                statuses={HTTPStatus.SERVICE_UNAVAILABLE: QUESTION_STATUSES[HTTPStatus.SERVICE_UNAVAILABLE]},
            ),
            *(_question(name, body, self._question) for name, body in questions.types.items()),
            *more,
        ]
        self._routes = Routes((each.method, each.path, each) for each in self.operations)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        return await guarded(request, self._guard, self._handle)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        operation, parts = await find(self._routes, request)
        body = None if operation.body is None else await self._body(request, operation.body)
        return await operation.handle(Call(request, parts, body))

    async def _body(self, request: web.BaseRequest, body: type[msgspec.Struct]) -> Any:
        """The body of a request as a value. Raises ServeError or BodyError."""
        if request.body_exists and request.headers.get("Content-Type") and request.content_type != JSON:
            message = f"Content-Type {quoted(request.content_type[:80])}: expected {JSON}"
            raise ServeError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
        data = await self.http.body(request)
        try:
            return msgspec.json.decode(data or b"{}", type=body)
        except (msgspec.MsgspecError, ValueError) as error:  # of invalid UTF-8, too
            raise ServeError(HTTPStatus.BAD_REQUEST, f"the body: {error}") from None
        except RecursionError:
            raise ServeError(HTTPStatus.BAD_REQUEST, "the body: it is nested too deeply") from None

    async def _openapi(self, _: Call) -> web.Response:
        return reply(encoded(document(self.operations)))

    async def _cluster(self, _: Call) -> web.Response:
        await ready(self._asking)
        source = self._asking.source
        snapshot = source.snapshot()
        counts = {kind.resource: len(known) for kind, known in snapshot.documents.items()}
        found = {
            "source": snapshot.source,
            "live": source.live,
            "version": source.version,
            "taken": None if snapshot.taken is None else snapshot.taken.isoformat(),
            "lost": source.lost,
            "problems": self._asking.problems,
            "nodes": counts.get("nodes", 0),
            "pods": counts.get("pods", 0),
        }
        return reply(encoded(found))

    async def _question(self, call: Call) -> web.StreamResponse:
        await self._questions.ready()
        return await answer(
            call.request, lambda form, tell: self._questions.ask(call.body, form, tell), self._limits.response
        )


def _question(name: str, body: type[Question], handle: Callable[[Call], Any]) -> HttpOperation:
    summary = (body.__doc__ or "").strip()
    return HttpOperation(
        "POST",
        f"/v1/questions/{name}",
        name,
        summary,
        handle,
        body=body,
        reply=answer_schema(body),
        statuses=QUESTION_STATUSES,
        streams=True,
    )
