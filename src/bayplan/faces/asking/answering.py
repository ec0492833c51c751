"""How questions are answered: their statuses, answers at once or as lines, and the first snapshot.

The same question has the same JSON over serve, MCP and the command line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar, get_type_hints

from aiohttp import web

from bayplan.answers.insight.answers import Answer, Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import Question
from bayplan.answers.snapshots import Snapshot
from bayplan.faces.asking.asking import Asking, UnreadError
from bayplan.faces.asking.replies import LINES, TEXT, ServeError, encoded, reply, stream
from bayplan.faces.asking.worker import TooLongError

T = TypeVar("T")

QUESTION_STATUSES = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "The question can't be answered, as one about a pod that doesn't exist.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The cluster has not been read yet.",
    HTTPStatus.GATEWAY_TIMEOUT: "The question took too long.",
}


def answer_schema(question: type[Question]) -> Mapping[str, Any]:
    """Return the schema of a question's answer: docs/insight.md lists the fields."""
    answer_type = get_type_hints(question.ask)["return"]
    return {"type": "object", "title": answer_type.__name__, "description": (answer_type.__doc__ or "").strip()}


Ask = Callable[[Callable[[Answer], bytes], Progress], Awaitable[bytes]]
"""Asks a question, and returns its answer in a form."""


async def answer(request: web.BaseRequest, ask: Ask, patience: float) -> web.StreamResponse:
    """Reply with an answer as JSON, or as the client accepts it: as text, or as lines with its progress."""
    accepted = request.headers.get("Accept", "")
    if LINES in accepted:
        return await stream(request, lambda tell: ask(as_json, tell), patience)
    if TEXT in accepted:
        return reply(await ask(as_text, silent), headers={"Content-Type": f"{TEXT}; charset=utf-8"})
    return reply(await ask(as_json, silent))


def as_json(found: Answer) -> bytes:
    """Return an answer as one line of JSON."""
    return encoded(found.to_dict())


def as_text(found: Answer) -> bytes:
    """Return what the command prints."""
    return found.text().encode()


async def answered(asked: Awaitable[T]) -> T:
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
        return await asking.read()
    except UnreadError as error:
        raise ServeError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "1"}) from None
