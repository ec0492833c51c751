"""The application: finds the operation of a request, reads its body, and replies with JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, get_type_hints

import msgspec
from aiohttp import web

from bayplan.http_server import BodyError, HttpServer, Limits
from bayplan.insight import QuestionError, Snapshot
from bayplan.insight.answers import Progress
from bayplan.insight.question_parameters import Question
from bayplan.insight.question_types import QUESTIONS
from bayplan.serve.guard import BearerGuard
from bayplan.serve.openapi import document
from bayplan.serve.operations import Call, Operation, find
from bayplan.serve.replies import FAILED, JSON, LINES, ServeError, encoded, error_reply, reply, stream
from bayplan.ui.asking import Asking, TooLongError

PATIENCE = 5.0
"""Seconds to wait for the first snapshot."""
BODY_LIMIT = 16 * 2**20
"""Bytes of a body."""
QUESTION_STATUSES = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "The question can't be answered, as one about a pod that doesn't exist.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The cluster has not been read yet.",
    HTTPStatus.GATEWAY_TIMEOUT: "The question took too long.",
}
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


class Application:
    """Answers requests. `http` serves it. `more`: operations besides the questions."""

    def __init__(
        self,
        asking: Asking,
        guard: BearerGuard,
        more: Iterable[Operation] = (),
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        self.http = HttpServer(self.handle, log=log, limits=limits, body_limit=BODY_LIMIT, inflate=True, cancels=True)
        self._asking = asking
        self._guard = guard
        self._limits = limits
        self.operations = [
            Operation("GET", "/openapi.json", "openapi", "Return this document.", self._openapi, reply={}),
            Operation(
                "GET",
                "/v1/cluster",
                "cluster",
                "Return what is known of the cluster.",
                self._cluster,
                reply=_CLUSTER,
                title="The cluster.",
                statuses={HTTPStatus.SERVICE_UNAVAILABLE: QUESTION_STATUSES[HTTPStatus.SERVICE_UNAVAILABLE]},
            ),
            *(_question(name, body, self._question) for name, body in QUESTIONS.items()),
            *more,
        ]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        try:
            refusal = self._guard.refusal(request.headers)
            if refusal is not None:
                raise ServeError(refusal.status, refusal.message, refusal.headers)
            operation, parts = find(self.operations, request)
            body = None if operation.body is None else await self._body(request, operation.body)
            return await operation.handle(Call(request, parts, body))
        except ServeError as error:
            return error_reply(error)
        except BodyError as error:
            return error_reply(ServeError(HTTPStatus(error.status), str(error), {"Connection": "close"}))
        except ConnectionError:
            raise  # the client has gone
        except Exception:
            log.exception("%s failed", request.path)
            return error_reply(ServeError(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED))

    async def _body(self, request: web.BaseRequest, body: type[msgspec.Struct]) -> Any:
        """The body of a request as a value. Raises ServeError or BodyError."""
        if request.headers.get("Content-Type") and request.content_type != JSON:
            message = f"Content-Type {request.content_type[:80]}: expected {JSON}"
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
        question: Question = call.body
        key = question.name, msgspec.json.encode(question)

        async def ask(tell: Progress) -> bytes:
            return await answered(
                self._asking.ask(key, lambda insight, told: encoded(question.ask(insight, told).to_dict()), tell)
            )

        await ready(self._asking)
        return await answer(call.request, ask, self._limits.response)


def _question(name: str, body: type[Question], handle: Callable[[Call], Any]) -> Operation:
    summary = (body.__doc__ or "").strip()
    return Operation(
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


def answer_schema(question: type[Question]) -> Mapping[str, Any]:
    """Return the schema of a question's answer: docs/insight.md lists the fields."""
    answer_type = get_type_hints(question.ask)["return"]
    return {"type": "object", "title": answer_type.__name__, "description": (answer_type.__doc__ or "").strip()}


async def answer(request: web.BaseRequest, ask: Callable[[Progress], Any], patience: float) -> web.StreamResponse:
    """Reply with an answer, or, for a client that accepts lines, with its progress and the answer."""
    if LINES in request.headers.get("Accept", ""):
        return await stream(request, ask, patience)
    return reply(await ask(lambda _: None))


async def answered(asked: Awaitable[bytes]) -> bytes:
    """Return an answer. Raises ServeError in place of other errors of questions."""
    try:
        return await asked
    except TooLongError as error:
        raise ServeError(HTTPStatus.GATEWAY_TIMEOUT, str(error)) from None
    except QuestionError as error:
        raise ServeError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None


async def ready(asking: Asking) -> Snapshot:
    """Wait for the first snapshot. Raises ServeError."""
    try:
        async with asyncio.timeout(PATIENCE):
            await asking.source.ready()
    except TimeoutError:
        reasons = "; ".join(asking.source.problems) or "large clusters take up to half a minute"
        message = f"the cluster has not been read yet: {reasons}"
        raise ServeError(HTTPStatus.SERVICE_UNAVAILABLE, message, {"Retry-After": "1"}) from None
    return asking.source.snapshot()
