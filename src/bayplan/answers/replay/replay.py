"""Replay: makes recorded decisions again, one after the other, and finds the first that differs.

The entries of a recording are given to the same code in the same order. What an attempt decides then has to be what is
recorded, bit for bit; if it isn't, something that decisions rest on is not in the recording.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from bayplan.answers.replay.scheduler import AreAsked, BuildProfiles, ReplayedScheduler
from bayplan.core.framework.profile import Profile
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan
from bayplan.running.recording import entries
from bayplan.running.recording.entries import AnyEntry, PlanMade, PodDecided, Popped
from bayplan.running.recording.files import Recording, RecordingError
from bayplan.running.recording.summaries import Summary, summary_of, without_texts


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """The first decision that isn't made again. `recorded` and `replayed` say what was decided, in one line each.

    `number`: that of the decision, from 1.
    """

    number: int
    time: datetime
    pod: str
    recorded: str
    replayed: str
    causes: tuple[str, ...] = ()


@dataclass(slots=True)
class Moment:
    """A moment of a replay: an attempt is about to be made.

    `number`: that of its decision, from 1. `scheduler` has the state that the attempt sees; it must not be changed.
    """

    number: int
    time: datetime
    queued: QueuedPod
    scheduler: ReplayedScheduler
    recorded: tuple[PodDecided, ...] = ()
    """What was decided; empty if nothing was, because the pod was gone, or the recording ends."""
    preemptions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(slots=True)
class Replayed:
    """What a replay has found.

    `stopped`: whether a visitor ended it. `problem`: why the recording could not be read on.
    """

    decisions: int = 0
    """The number of the last decision that was made again."""
    before: int = 0
    """How many decisions were made before the first segment that was read."""
    entries: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    difference: ReplayDifference | None = None
    problem: str = ""
    stopped: bool = False
    complete: bool = False
    """Whether the recording ends with the scheduler's end. If not, the scheduler was killed, or still runs."""
    nodes: int = 0
    pods: int = 0
    notes: list[str] = field(default_factory=list)
    """What the checkpoint that it began with lacks, one line each."""
    source: str = ""
    """The recording, for messages."""

    @property
    def why(self) -> str:
        """Why the replay didn't get where it was to go."""
        other = f"{self.source}: a decision can't be made again; `bayplan replay {self.source}` says why"
        return self.problem or other


Visit = Callable[[Moment], bool]
"""Called before each attempt. Returns True to stop there."""


@dataclass(slots=True)
class Replay:
    """A replay of a recording. `build_profiles` makes the profiles of the recorded scheduler again."""

    recording: Recording
    build_profiles: BuildProfiles
    are_asked: AreAsked | None = None
    _made: deque[Summary] = field(default_factory=deque)
    _ahead: deque[AnyEntry] = field(default_factory=deque)
    _entries: Iterator[AnyEntry] = field(default_factory=lambda: iter(()))
    _scheduler: ReplayedScheduler | None = None
    _compared: int = 0
    """How many outcomes of the following entry were used."""

    @property
    def scheduler(self) -> ReplayedScheduler | None:
        """The replayed scheduler, as the last run left it; None before one."""
        return self._scheduler

    @property
    def profiles(self) -> dict[str, Profile]:
        """The profiles of the replayed scheduler, once it runs."""
        return {} if self._scheduler is None else dict(self._scheduler.profiles)

    def run(self, visit: Visit | None = None, *, segment: int = 0) -> Replayed:
        """Replay up to the first difference, the end, or where `visit` says. `segment`: the first one that is read."""
        try:
            within = asyncio.get_running_loop()
        except RuntimeError:
            within = None
        if within is None:
            return asyncio.run(self._run(visit, segment))  # plugins may make futures, for which a loop has to be there
        with ThreadPoolExecutor(1, "replay") as pool:
            return pool.submit(asyncio.run, self._run(visit, segment)).result()

    async def _run(self, visit: Visit | None, segment: int) -> Replayed:
        self._made.clear()
        self._ahead.clear()
        self._compared = 0
        self._entries = self.recording.entries(segment)
        scheduler = ReplayedScheduler(
            self.recording.manifest.setting, self.build_profiles, self._planned, self.are_asked
        )
        self._scheduler = scheduler
        if self.recording.manifest.redacted:
            scheduler.handle.outcomes = self._outcome_of_comparison
        found = Replayed(began=self.recording.manifest.began, source=self.recording.source)
        try:
            self._replay(scheduler, found, visit)
        except RecordingError as error:
            found.problem = str(error)
        finally:
            found.nodes, found.pods = scheduler.state.table.live_count, scheduler.state.pod_count
            scheduler.close()
        return found

    def _replay(self, scheduler: ReplayedScheduler, found: Replayed, visit: Visit | None) -> None:
        popped: QueuedPod | None = None
        while (entry := self._next()) is not None:
            found.entries += 1
            self._compared = 0
            if isinstance(entry, Popped):
                found.ended = self.recording.date_of(entry.at)
                popped = scheduler.pop(entry)
                if (popped.uid if popped else "") != entry.uid:
                    found.difference = self._other_turn(found, entry, popped)
                    return
                if popped is not None and self._attempt(scheduler, found, entry, popped, visit):
                    return
            elif isinstance(entry, entries.GaveWay):
                scheduler.clock.entry(entry.times)
                if popped is not None:
                    scheduler.give_way(popped)
            elif isinstance(entry, PlanMade):
                if (difference := self._compare(found, entry)) is not None:
                    found.difference = difference
                    return
            elif isinstance(entry, entries.Checkpoint):
                if found.entries == 1:
                    found.notes = scheduler.restore(entry)
                    found.decisions = found.before = entry.decisions
            elif isinstance(entry, entries.RecordingEnded):
                found.complete = True
            elif not isinstance(entry, entries.Compared):
                scheduler.take(entry)

    def _attempt(
        self, scheduler: ReplayedScheduler, found: Replayed, entry: Popped, queued: QueuedPod, visit: Visit | None
    ) -> bool:
        """Make an attempt, unless it gave way. Returns whether the replay ends before it."""
        outcome = self._outcome()
        if isinstance(outcome, entries.GaveWay):
            return False
        if visit is not None:
            moment = Moment(found.decisions + 1, self.recording.date_of(entry.at), queued, scheduler)
            if outcome is not None:
                moment.recorded, moment.preemptions = outcome.decisions, outcome.preemptions
            if visit(moment):
                found.stopped = True
                return True
        scheduler.attempt(queued)
        return False

    def _planned(self, plan: Plan) -> None:
        """A plan was made. What follows reads the clocks that were read after it."""
        self._made.append(summary_of(plan))
        following = self._peek(0)
        if isinstance(following, PlanMade) and self._scheduler is not None:
            self._scheduler.clock.entry(following.times)

    def _outcome_of_comparison(self) -> bool | None:
        """What the next comparison of names said in the recording."""
        following = self._peek(0)
        if isinstance(following, entries.Compared) and self._compared < len(following.outcomes):
            self._compared += 1
            return following.outcomes[self._compared - 1]
        return None

    def _compare(self, found: Replayed, entry: PlanMade) -> ReplayDifference | None:
        found.decisions += 1
        recorded = (entry.decisions, entry.placed, entry.preemptions)
        replayed = self._made.popleft() if self._made else ((), (), ())
        if self.recording.manifest.redacted:
            replayed = without_texts(replayed)
        if recorded == replayed:
            return None
        pairs = zip(entry.decisions, replayed[0], strict=False)
        one, other = next(((a, b) for a, b in pairs if a != b), (_first(entry.decisions), _first(replayed[0])))
        return ReplayDifference(
            found.decisions,
            found.ended or self.recording.date_of(0.0),
            (one or other or PodDecided("", "?", "", "", "")).key,
            describe_decision(one, entry.preemptions),
            describe_decision(other, replayed[2]),
        )

    def _other_turn(self, found: Replayed, entry: Popped, popped: QueuedPod | None) -> ReplayDifference:
        scheduler = self._scheduler
        known = None if scheduler is None or not entry.uid else scheduler.queue.get(entry.uid)
        recorded = known.pod.key if known is not None else entry.uid
        return ReplayDifference(
            found.decisions + 1,
            self.recording.date_of(entry.at),
            recorded or (popped.pod.key if popped else ""),
            f"it was the turn of pod {recorded}" if recorded else "it was no pod's turn",
            f"it is the turn of pod {popped.pod.key}" if popped else "it is no pod's turn",
        )

    # Entries ahead

    def _next(self) -> AnyEntry | None:
        return self._ahead.popleft() if self._ahead else next(self._entries, None)

    def _peek(self, index: int) -> AnyEntry | None:
        while len(self._ahead) <= index:
            entry = next(self._entries, None)
            if entry is None:
                return None
            self._ahead.append(entry)
        return self._ahead[index]

    def _outcome(self) -> PlanMade | entries.GaveWay | None:
        """How the attempt that begins now ended; None if nothing is recorded about that."""
        index = 0
        try:
            while (entry := self._peek(index)) is not None and not isinstance(entry, Popped):
                if isinstance(entry, PlanMade | entries.GaveWay):
                    return entry
                index += 1
        except RecordingError:
            return None  # it is raised again when that entry has its turn
        return None


def _first(decisions: tuple[PodDecided, ...]) -> PodDecided | None:
    return decisions[0] if decisions else None


def describe_decision(
    decision: PodDecided | None, preemptions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
) -> str:
    """What was decided, in one line."""
    if decision is None:
        return "nothing was decided"
    if decision.node:
        return f"node {decision.node}"
    text = f"{decision.outcome}: {decision.message}"
    for uid, node, victims in preemptions:
        if uid == decision.uid:
            text += f"; it preempts {len(victims)} pod{'s' if len(victims) != 1 else ''} on node {node}"
    return text
