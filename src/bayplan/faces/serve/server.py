"""Serves questions as JSON over HTTP, until the caller stops it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bayplan.answers.insight.insight import Insight
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.guard import BearerGuard
from bayplan.faces.asking.replies import LIMITS
from bayplan.faces.asking.running import host_of, running
from bayplan.faces.asking.served_questions import HistoryQuestions, ServedQuestions
from bayplan.faces.asking.sources import Source
from bayplan.faces.asking.worker import LONGEST
from bayplan.faces.serve.app import ServeApplication
from bayplan.faces.serve.transaction_operations import TransactionOperations
from bayplan.foundations.http_server import Limits, bind


@asynccontextmanager
async def serving(
    source: Source,
    insight: Insight,
    make: Callable[[], Insight],
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    limits: Limits = LIMITS,
    longest: float = LONGEST,
    history: str = "",
) -> AsyncIterator[tuple[str, str]]:
    """Serve questions about a source in the context, and follow the source. Yields the URL and the token.

    `insight`: has the scheduler's configuration; only the server uses it from now on. `make`: makes another one like
    it, for transactions. `port`: 0 for a free one. `token`: by default a new one. `longest`: the most seconds of a
    question. `history`: the folder of one, for questions about it. Raises OSError if the address can't be used, and
    BacktestError for a history that can't.
    """
    past = [HistoryQuestions(history, make(), longest)] if history else []
    token = token or secrets.token_urlsafe(24)
    listeners = await bind(address, port)
    port = listeners[0].getsockname()[1]
    asking = Asking(source, insight, longest)
    transactions = TransactionOperations(asking, make, longest, limits.response)
    application = ServeApplication(
        asking,
        ServedQuestions(asking, *past),
        BearerGuard(token, address),
        transactions.operations(),
        limits,
    )
    try:
        async with running(asking, application.http, listeners):
            yield f"http://{host_of(address)}:{port}", token
    finally:
        transactions.close()
        for each in past:
            each.close()
