"""The moments of a history or a recording as sources of the page: each has its own address, so tabs are independent."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from functools import cached_property, partial

from bayplan.answers.backtest.differences import next_difference
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.insight.answers import Progress, QuestionError
from bayplan.answers.insight.insight import Insight
from bayplan.answers.moments.moments import Moments
from bayplan.answers.moments.steps import NextDifference, StepKind
from bayplan.answers.replay.policies import Policy
from bayplan.answers.replay.recorded_moments import RecordingMoments
from bayplan.answers.snapshots import Snapshot, SnapshotError
from bayplan.core.api.kinds import Kind
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.events import Events, snapshot_events
from bayplan.faces.asking.worker import LONGEST, Worker
from bayplan.foundations.latest import LruDict
from bayplan.running.recording.files import RecordingError

SEARCHED = 15.0
"""Seconds after which a search for the next difference says how far it has come."""
_KEPT = 16
"""How many moments are kept. What is the same in two of them is there once."""
_DIFFERENCES = 1000
"""How many differences are remembered."""

Enough = Callable[[], bool]


Compare = Callable[[Insight, int, Enough, Progress], NextDifference]
"""Looks for the next decision after a moment that would be another one. The insight has the cluster at that moment."""


def compare_history(
    moments: HistoryMoments, insight: Insight, number: int, enough: Enough, progress: Progress
) -> NextDifference:
    """Look for the next decision of a history that the insight would make otherwise."""

    def asked() -> bool:
        progress("looking for a difference")
        return enough()

    return next_difference(insight.world, moments, number, asked)


def compare_recording(
    moments: RecordingMoments, other: Policy, _: Insight, number: int, enough: Enough, progress: Progress
) -> NextDifference:
    """Look for the next decision of a recording that another policy would make otherwise.

    The recorded scheduler's own state is asked, not the insight. Raises QuestionError.
    """
    try:
        return moments.next_difference(other, number, enough, progress)
    except RecordingError as error:
        raise QuestionError(str(error)) from None


class MomentSource:
    """The cluster at a moment. It never changes."""

    live = followed = False
    lost = ""

    def __init__(self, sources: MomentSources, number: int) -> None:
        self.number = number
        self.version = number + 1
        self.now = sources.moments.time(number)
        self.problems: list[str] = []
        self._sources = sources
        self._snapshot: Snapshot | None = None
        self._reading: asyncio.Future[Snapshot] | None = None

    def snapshot(self) -> Snapshot:
        """See Source: it is there once the source is ready."""
        return Snapshot(source=self._sources.moments.source) if self._snapshot is None else self._snapshot

    async def with_leases(self) -> Snapshot:
        """See Source: what happened is kept without leases."""
        return self.snapshot()

    async def events(self, kind: Kind, key: str, uid: str) -> Events:
        """See Source."""
        return snapshot_events(self.snapshot(), kind, key)

    async def ready(self) -> None:
        """See Source. Raises QuestionError if the moment can't be reached."""
        if self._snapshot is None:
            if self._reading is None:
                self._reading = self._sources.read(self.number)
            try:
                self._snapshot = await asyncio.shield(self._reading)
            except QuestionError:
                self._reading = None
                raise
            self.problems = list(self._snapshot.problems)

    async def run(self) -> None:
        """See Source."""


class MomentSources:
    """The sources of all moments. What they need is read in a thread, and ends after `longest` seconds.

    `compare`: None if there is nothing that may decide otherwise.

    Attributes:
        first_shown: the number of the moment that an address without one leads to.
        differences: what is decided otherwise, by the number of the step, as far as it was looked for.
    """

    def __init__(
        self,
        moments: Moments,
        first_shown: int | None = None,
        longest: float = LONGEST,
        *,
        compare: Compare | None = None,
    ) -> None:
        self.moments = moments
        self.compare = compare
        self.first_shown = len(moments) if first_shown is None else first_shown
        self.differences: LruDict[int, str] = LruDict(_DIFFERENCES)
        self._sources: LruDict[int, MomentSource] = LruDict(_KEPT)
        self._worker = Worker("moments", longest)

    def missing(self, number: int) -> str:
        """Why there is no moment of a number; "" if there is one."""
        return "" if number <= self.last else f"there is no moment {number:,}: the last one is {self.last:,}"

    def of(self, number: int) -> MomentSource:
        """The source of a moment, which must exist."""
        source = self._sources.use(number)
        if source is None:
            source = self._sources[number] = MomentSource(self, number)
        return source

    @property
    def last(self) -> int:
        """The number of the last moment."""
        return len(self.moments)

    def covers(self, time: datetime) -> bool:
        """Whether a time is among the moments."""
        return self.moments.time(0) <= time <= self.moments.time(self.last)

    def before(self, pod: str, time: datetime) -> int:
        """The moment before the last placement of a pod until a time; the moment of that time if there is none."""
        number, placements = self.moments.at(time), self._placements.get(pod, ())
        position = bisect_right(placements, number)
        return placements[position - 1] - 1 if position else number

    @cached_property
    def _placements(self) -> dict[str, list[int]]:
        """The numbers of the steps that placed each pod."""
        found: dict[str, list[int]] = {}
        for step in self.moments.steps:
            if step.what is StepKind.PLACED:
                found.setdefault(step.subject, []).append(step.number)
        return found

    def read(self, number: int) -> asyncio.Future[Snapshot]:
        """Read the cluster at a moment, in the thread."""
        late = f"moment {number:,} can't be reached within {self._worker.longest:g} s"
        reading = self._worker.start(partial(self._read, number), stop=threading.Event(), late=late)
        reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return reading

    def _read(self, number: int, progress: Progress) -> Snapshot:
        try:
            return self.moments.snapshot(number, progress)
        except SnapshotError as error:
            raise QuestionError(str(error)) from None

    async def next_difference(self, asking: Asking, number: int) -> NextDifference:
        """Look for the next difference after a moment, for some time, and remember it. Raises QuestionError."""
        compare = self.compare
        if compare is None:
            raise QuestionError("there is nothing to compare with: start bayplan ui with --config, --plugin or --set")

        def ask(insight: Insight, progress: Progress) -> NextDifference:
            end = time.monotonic() + SEARCHED
            return compare(insight, number, lambda: time.monotonic() > end, progress)

        found = await asking.ask(("difference", number), ask, source=self.of(number))
        if found.step is not None:
            self.differences[found.step] = found.other
        return found

    def close(self) -> None:
        """End what is being read."""
        self._worker.close(self.moments.close)
