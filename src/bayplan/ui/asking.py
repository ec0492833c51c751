"""Asks questions in a worker thread, so that the page stays responsive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from bayplan.insight import Insight
from bayplan.insight.snapshot import Snapshot
from bayplan.ui.sources import Source

T = TypeVar("T")

CACHED = 64
"""The number of latest answers to keep."""
SHOWN = 5
"""The most objects that can't be read to report."""


class Asking:
    """Answers questions about a source with one Insight, whose World only the single worker thread uses.

    Equal questions about the same version of the cluster are answered once.
    """

    def __init__(self, source: Source, insight: Insight) -> None:
        self.source = source
        self._insight = insight
        self._thread = ThreadPoolExecutor(1, "insight")
        self._answers: dict[Hashable, asyncio.Future[Any]] = {}

    async def ask(self, key: Hashable, question: Callable[[Insight], T]) -> T:
        """Ask about the cluster as it is now. `key` identifies the question. Raises what the question raises."""
        await self.source.ready()
        key = (self.source.version, key)
        answer: asyncio.Future[T] | None = self._answers.pop(key, None)
        if answer is None:
            snapshot = self.source.snapshot()
            loop = asyncio.get_running_loop()
            answer = loop.run_in_executor(self._thread, self._answer, snapshot, question)
        self._answers[key] = answer
        while len(self._answers) > CACHED:
            del self._answers[next(iter(self._answers))]
        return await asyncio.shield(answer)

    @property
    def problems(self) -> list[str]:
        """What is missing or wrong: kinds that can't be read, with the effect, and objects that are left out."""
        gaps = self.source.snapshot().gaps
        reasons = {gap.reason for gap in gaps}
        others = [problem for problem in self.source.problems if problem not in reasons]
        left_out = dict.fromkeys(self._insight.world.problems)
        return [*map(str, gaps), *others, *list(left_out)[-SHOWN:]]

    def _answer(self, snapshot: Snapshot, question: Callable[[Insight], T]) -> T:
        insight = self._insight
        if insight.snapshot is not snapshot:
            insight.snapshot = snapshot
            insight.world.move(snapshot.documents, snapshot.taken or datetime.now(UTC))
        insight.world.reset()
        return question(insight)

    def close(self) -> None:
        """Drop the questions that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)
