"""The operations of the server that open transactions, use them, and end them.

A transaction is a what-if that stays open between requests (`transactions.py`). All of them share one worker thread.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta, Struct

from bayplan.answers.insight.answers import Answer, Progress
from bayplan.answers.insight.asked.what_if import CommonChanges
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.question_parameters import ObjectList
from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.faces.asking.answering import QUESTION_STATUSES, answer, answer_schema, answered, ready
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.replies import ServeError, encoded, reply
from bayplan.faces.asking.worker import Worker
from bayplan.faces.serve.operations import Call, HttpOperation
from bayplan.faces.serve.transactions import Transaction, Transactions

MOST = 16
"""The most open transactions."""
PATH = "/v1/transactions"
_STATUS = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "expires": {"type": "string", "format": "date-time", "description": "When it is rolled back by itself."},
        "committed": {"type": "array", "items": {"type": "string"}, "description": "What was done and committed."},
        "steps": {"type": "array", "items": {"type": "string"}, "description": "What was done since then."},
    },
    "required": ["id", "expires", "committed", "steps"],
    "additionalProperties": False,
}
_UNKNOWN = {HTTPStatus.NOT_FOUND: "There is no such transaction, or its time is over."}


class Begin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a transaction is open."""

    seconds: Annotated[float, Meta(gt=0, le=3600, description="After these, it is rolled back.")] = 300


class PlaceObjects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Objects to create in a transaction. Their pods are placed in their order."""

    objects: ObjectList


@dataclass(slots=True, eq=False)
class _Open:
    """An open transaction."""

    transaction: Transaction
    expires: datetime
    timer: asyncio.TimerHandle | None = None


class TransactionOperations:
    """The open transactions, and what can be asked of them.

    `make`: makes an Insight for them, when the first one begins. `patience`: the most seconds that a client may take to
    read a line.
    """

    def __init__(self, asking: Asking, make: Callable[[], Insight], longest: float, patience: float) -> None:
        self._asking = asking
        self._make = make
        self._patience = patience
        self._worker = Worker("transactions", longest)
        self._transactions: Transactions | None = None
        self._open: dict[str, _Open] = {}

    def operations(self) -> Iterator[HttpOperation]:
        """Yield the operations."""
        one = f"{PATH}/{{id}}"
        full = {HTTPStatus.TOO_MANY_REQUESTS: f"{MOST} transactions are open."}
        unread = HTTPStatus.SERVICE_UNAVAILABLE
        statuses = {**full, unread: QUESTION_STATUSES[unread]}
        begin = "Begin a transaction: a what-if of the cluster as it is now, which stays open."
        yield self._operation("POST", PATH, "begin", begin, self._begin, Begin, HTTPStatus.CREATED, statuses)
        yield self._operation("GET", one, "transaction", "Return what was done in a transaction.", self._status)
        yield self._operation("POST", f"{one}/commit", "commit", "Keep what was done for what follows.", self._commit)
        rollback = "Undo what was done since the last commit, or since the beginning."
        yield self._operation("POST", f"{one}/rollback", "rollback", rollback, self._rollback)
        yield self._operation("DELETE", one, "end", "End a transaction. The cluster stays as it is.", self._end)
        change = "Change nodes, pods, workloads and other objects, as what-if does. Evict pods with deletePods."
        yield self._operation("POST", f"{one}/change", "change", change, self._change, CommonChanges)
        placed = answer_schema(QUESTIONS["fit"])
        place = "Create objects and place their pods, in their order. Pods that don't fit are pending."
        yield self._question(f"{one}/place", "place", place, self._place, PlaceObjects, placed)
        pending = "Place the pending pods, in the order of the queue."
        yield self._question(f"{one}/schedule", "schedule", pending, self._schedule, None, placed)
        for name, body in QUESTIONS.items():
            summary = f"Ask in a transaction: {(body.__doc__ or '').strip()}"
            path = f"{one}/questions/{name}"
            yield self._question(path, f"transaction-{name}", summary, self._ask, body, answer_schema(body))

    def _operation(
        self,
        method: str,
        path: str,
        name: str,
        summary: str,
        handle: Any,
        body: type[Struct] | None = None,
        status: HTTPStatus = HTTPStatus.OK,
        statuses: dict[HTTPStatus, str] | None = None,
    ) -> HttpOperation:
        found = {**_UNKNOWN, **(QUESTION_STATUSES if body is not None else {})} if statuses is None else statuses
        title = "The transaction."
        return HttpOperation(method, path, name, summary, handle, body, _STATUS, title, status, found)

    def _question(
        self, path: str, name: str, summary: str, handle: Any, body: type[Struct] | None, schema: Any
    ) -> HttpOperation:
        statuses = {**_UNKNOWN, **QUESTION_STATUSES}
        return HttpOperation("POST", path, name, summary, handle, body, schema, statuses=statuses, streams=True)

    def close(self) -> None:
        """End all transactions."""
        for each in self._open.values():
            if each.timer is not None:
                each.timer.cancel()
        self._open.clear()
        self._worker.close()

    # Beginning and ending

    async def _begin(self, call: Call) -> web.Response:
        await ready(self._asking)
        snapshot = await self._asking.source.with_leases()  # which are then as old as all else in the transaction
        if len(self._open) >= MOST:
            message = f"{MOST} transactions are open: end one of them, or wait until the time of one is over"
            raise ServeError(HTTPStatus.TOO_MANY_REQUESTS, message)
        name, seconds = secrets.token_urlsafe(12), call.body.seconds
        opened = _Open(self._all().begin(snapshot), datetime.now(UTC) + timedelta(seconds=seconds))
        opened.timer = asyncio.get_running_loop().call_later(seconds, self._forget, name)
        self._open[name] = opened
        return _reply(name, opened, HTTPStatus.CREATED)

    async def _status(self, call: Call) -> web.Response:
        return _reply(call.parts["id"], self._find(call))

    async def _commit(self, call: Call) -> web.Response:
        return await self._done(call, lambda transaction, _: self._all().commit(transaction))

    async def _rollback(self, call: Call) -> web.Response:
        return await self._done(call, lambda transaction, _: self._all().rollback(transaction))

    async def _end(self, call: Call) -> web.Response:
        opened = self._find(call)
        self._forget(call.parts["id"])
        return _reply(call.parts["id"], opened)

    def _forget(self, name: str) -> None:
        opened = self._open.pop(name)
        if opened.timer is not None:
            opened.timer.cancel()
        ended = asyncio.ensure_future(self._worker.run(lambda _: self._all().end(opened.transaction)))
        ended.add_done_callback(lambda done: done.cancelled() or done.exception())

    # Using

    async def _change(self, call: Call) -> web.Response:
        return await self._done(call, lambda transaction, told: self._all().change(transaction, call.body, told))

    async def _place(self, call: Call) -> web.StreamResponse:
        return await self._answer(call, lambda each, told: self._all().place(each, call.body.objects, told))

    async def _schedule(self, call: Call) -> web.StreamResponse:
        return await self._answer(call, lambda each, told: self._all().schedule(each, told))

    async def _ask(self, call: Call) -> web.StreamResponse:
        return await self._answer(call, lambda each, told: self._all().ask(each, call.body, told))

    async def _done(self, call: Call, step: Callable[[Transaction, Progress], object]) -> web.Response:
        """Take a step of a transaction, and return its status."""
        opened = self._find(call)
        await answered(self._worker.run(lambda told: step(opened.transaction, told), renew=self._renew))
        return _reply(call.parts["id"], opened)

    async def _answer(self, call: Call, step: Callable[[Transaction, Progress], Any]) -> web.StreamResponse:
        """Take a step of a transaction that has an answer, and return that."""
        opened = self._find(call)

        async def ask(form: Callable[[Answer], bytes], tell: Progress) -> bytes:
            run = self._worker.run(lambda told: form(step(opened.transaction, told)), tell, self._renew)
            return await answered(run)

        return await answer(call.request, ask, self._patience)

    def _find(self, call: Call) -> _Open:
        opened = self._open.get(call.parts["id"])
        if opened is None:
            message = "there is no such transaction: it was ended, or its time is over"
            raise ServeError(HTTPStatus.NOT_FOUND, message)
        return opened

    def _renew(self) -> None:
        self._all().renew()

    def _all(self) -> Transactions:
        if self._transactions is None:
            self._transactions = Transactions(self._make())
        return self._transactions


def _reply(name: str, opened: _Open, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    committed, now = opened.transaction.committed.steps, opened.transaction.now.steps
    found = {
        "id": name,
        "expires": opened.expires.isoformat(),
        "committed": committed,
        "steps": now[len(committed) :],
    }
    return reply(encoded(found), status)
