"""Asking: asks questions about a source, each only once, in a worker thread, so that the server stays responsive.

It owns an Insight, whose World only the worker thread uses. Equal questions about the same version of the cluster share
one answer. A question ends after a time limit, or when all that asked it are gone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.snapshots import Snapshot
from bayplan.faces.asking.sources import Source
from bayplan.faces.asking.worker import LONGEST, Worker

T = TypeVar("T")
Question = Callable[[Insight, Progress], T]
"""Asks an Insight. It passes the progress on, which raises Stopped when the question must end."""

CACHED = 16
"""The number of latest answers to keep; of a cluster that changes, only those about its newest version.

That of a large what-if takes 15 MB.
"""
FRESH = 2.0
"""Seconds after which an answer that ages is given anew: that is how often leases are renewed."""
PATIENCE = 5.0
"""Seconds to wait for the first snapshot."""
SHOWN = 5
"""The most objects that can't be read to report."""


class UnreadError(QuestionError):
    """A cluster that has not been read yet."""


class Asking:
    """Answers questions about a source with one Insight, whose World only the single worker thread uses.

    Equal questions about the same version of the cluster are answered once. A question ends after `longest` seconds, or
    when its request is gone.
    """

    def __init__(self, source: Source, insight: Insight, longest: float = LONGEST) -> None:
        self.source = source
        self._insight = insight
        self._worker = Worker("insight", longest)
        self._asked: dict[tuple[int, Hashable], _Asked] = {}

    async def ask(
        self,
        key: Hashable,
        question: Question[T],
        tell: Progress = silent,
        *,
        source: Source | None = None,
        ages: bool = False,
    ) -> T:
        """Ask about the cluster as it is now. `key` identifies the question.

        `tell` is called with its progress, in the worker thread. `source`: another one than usual, whose version
        differs from those of all others. `ages`: whether it is about leases, so that its answer holds for FRESH seconds
        only. Raises what the question raises, and TooLongError.
        """
        source = self.source if source is None else source
        await source.ready()
        version = source.version
        asked = self._asked.pop((version, key), None)
        if asked is None or (ages and source.followed and asked.old):
            asked = _Asked()
            if ages:
                asked.answer = asyncio.ensure_future(self._ask_with_leases(source, question, asked))
            else:
                asked.answer = self._start(source.snapshot(), question, asked)
            asked.answer.add_done_callback(_retrieve)
        self._asked[version, key] = asked
        outdated = [each for each in self._asked if source.live and each[0] != version]
        for old in outdated or list(self._asked)[:-CACHED]:
            del self._asked[old]
        asked.waiting += 1
        asked.told = (*asked.told, tell)
        try:
            answer: T = await asyncio.shield(asked.answer)
            return answer
        finally:
            asked.waiting -= 1
            if not asked.waiting and not asked.answer.done():
                asked.stop.set()
                if self._asked.get((version, key)) is asked:
                    del self._asked[version, key]

    async def read(self, source: Source | None = None) -> Snapshot:
        """Return the cluster as it is now; wait for the first snapshot. Raises UnreadError after PATIENCE.

        `source`: another one than usual. Raises QuestionError if that can't be read.
        """
        source = self.source if source is None else source
        try:
            async with asyncio.timeout(PATIENCE):
                await source.ready()
        except TimeoutError:
            reasons = "; ".join(self.problems_of(source)) or "large clusters take up to half a minute"
            raise UnreadError(f"the cluster has not been read yet: {reasons}") from None
        return source.snapshot()

    @property
    def problems(self) -> list[str]:
        """What is missing or wrong: kinds that can't be read, with the effect, and objects that are left out."""
        return self.problems_of(self.source)

    def problems_of(self, source: Source) -> list[str]:
        """What is missing or wrong in a source."""
        gaps = source.snapshot().gaps
        reasons = {gap.reason for gap in gaps}
        others = [problem for problem in source.problems if problem not in reasons]
        left_out = dict.fromkeys(self._insight.problems)
        return [*map(str, gaps), *others, *list(left_out)[-SHOWN:]]

    async def _ask_with_leases(self, source: Source, question: Question[T], asked: _Asked) -> T:
        return await self._start(await source.with_leases(), question, asked)

    def _start(self, snapshot: Snapshot, question: Question[T], asked: _Asked) -> asyncio.Future[T]:
        """Let the worker answer a question about a snapshot."""

        def answer(progress: Progress) -> T:
            insight = self._insight
            insight.move(snapshot)
            insight.world.reset()
            return question(insight, progress)

        def renew() -> None:
            self._insight = self._insight.renewed()

        late = (
            f"the question took longer than {self._worker.longest:g} s, which is the server's limit of time; "
            "the commands of bayplan have none"
        )
        return self._worker.start(answer, stop=asked.stop, late=late, tell=asked.tell, renew=renew)

    def close(self) -> None:
        """End the question in progress, and drop those that wait."""
        self._worker.close()


@dataclass(slots=True)
class _Asked:
    """A question, how many requests wait for its answer, and how to end it."""

    answer: asyncio.Future[Any] = field(init=False)
    since: float = field(default_factory=time.monotonic)
    waiting: int = 0
    told: tuple[Progress, ...] = ()
    """What to call with its progress."""
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def old(self) -> bool:
        """Whether an answer that ages has to be given anew."""
        return self.answer.done() and time.monotonic() - self.since > FRESH

    def tell(self, text: str) -> None:
        """Tell all that wait the progress."""
        for tell in self.told:
            tell(text)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    """Don't let asyncio log the error of a question whose request is gone."""
    if not answer.cancelled():
        answer.exception()
