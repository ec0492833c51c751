"""Asks questions in a worker thread, so that the page stays responsive, and ends those that take too long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bayplan.insight import Insight, QuestionError, Stopped
from bayplan.insight.answers import Progress, silent
from bayplan.insight.snapshot import Snapshot
from bayplan.ui.ending import EndedError, Ending
from bayplan.ui.sources import Source

T = TypeVar("T")
Question = Callable[[Insight, Progress], T]
"""Asks an Insight. It passes the progress on, which raises Stopped when the question must end."""

CACHED = 16
"""The number of latest answers to keep; of a cluster that changes, only those about its newest version.

That of a large what-if takes 15 MB.
"""
LONGEST = 30.0
"""The most seconds of a question. The next one waits meanwhile."""
SHOWN = 5
"""The most objects that can't be read to report."""


class TooLongError(QuestionError):
    """A question that took longer than it may."""


class Asking:
    """Answers questions about a source with one Insight, whose World only the single worker thread uses.

    Equal questions about the same version of the cluster are answered once. A question ends after `longest` seconds, or
    when its request is gone.
    """

    def __init__(self, source: Source, insight: Insight, longest: float = LONGEST) -> None:
        self.source = source
        self._insight = insight
        self._longest = longest
        self._thread = ThreadPoolExecutor(1, "insight")
        self._closed = threading.Event()
        self._asked: dict[tuple[int, Hashable], _Asked] = {}

    async def ask(
        self, key: Hashable, question: Question[T], tell: Progress = silent, *, source: Source | None = None
    ) -> T:
        """Ask about the cluster as it is now. `key` identifies the question.

        `tell` is called with its progress, in the worker thread. `source`: another one than usual, whose version
        differs from those of all others. Raises what the question raises, and TooLongError.
        """
        source = self.source if source is None else source
        await source.ready()
        version = source.version
        asked = self._asked.pop((version, key), None)
        if asked is None:
            asked, loop = _Asked(), asyncio.get_running_loop()
            snapshot = source.snapshot()
            asked.answer = loop.run_in_executor(self._thread, self._answer, snapshot, question, asked)
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

    def _answer(self, snapshot: Snapshot, question: Question[T], asked: _Asked) -> T:
        if asked.stop.is_set() or self._closed.is_set():
            raise QuestionError("the request is gone")
        insight = self._insight
        insight.move(snapshot)
        insight.world.reset()
        end = time.monotonic() + self._longest
        stopped = False

        def over() -> bool:
            return asked.stop.is_set() or self._closed.is_set() or time.monotonic() > end

        def progress(text: str) -> None:
            nonlocal stopped
            if over():
                stopped = True
                raise Stopped
            for tell in asked.told:
                tell(text)

        try:
            with Ending(over):
                answer = question(insight, progress)
        except Stopped:
            stopped = True
        except EndedError:
            stopped = True
            self._insight = insight.renewed()  # its world is in an unknown state
        if stopped:  # also if the question has an answer with what was known by then
            raise TooLongError(
                f"the question took longer than {self._longest:g} s, which is the server's limit of time; "
                "the commands of bayplan have none"
            ) from None
        return answer

    def close(self) -> None:
        """End the question in progress, and drop those that wait."""
        self._closed.set()
        self._thread.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Asked:
    """A question, how many requests wait for its answer, and how to end it."""

    answer: asyncio.Future[Any] = field(init=False)
    waiting: int = 0
    told: tuple[Progress, ...] = ()
    """They are told of its progress."""
    stop: threading.Event = field(default_factory=threading.Event)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    """Don't let asyncio log the error of a question whose request is gone."""
    if not answer.cancelled():
        answer.exception()
