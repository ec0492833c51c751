"""A recording at any of its moments: its decisions as steps, and the cluster as the scheduler knew it between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

import msgspec

from bayplan.answers.moments.moments import Progress
from bayplan.answers.moments.steps import NextDifference, Step, StepKind
from bayplan.answers.replay.candidates import OtherPolicy
from bayplan.answers.replay.cursor import ReplayCursor
from bayplan.answers.replay.moments import RecordedDecision, decisions_and_reports, uid_of
from bayplan.answers.replay.policies import Policy, recorded_policy
from bayplan.answers.replay.recorded_plugins import NamedPlugins
from bayplan.answers.replay.replay import Moment
from bayplan.answers.snapshots import Snapshot, SnapshotError
from bayplan.core.api.kinds import NODE, POD, kind_of
from bayplan.running.recording import entries
from bayplan.running.recording.files import Recording, RecordingError


class RecordingMoments:
    """Implements Moments for a recording: one before each decision and one at the end: moment n is after n decisions.

    `named`: the plugins that the user names, as for `recorded_policy`.
    Raises RecordingError for a recording without decisions, and what `recorded_policy` raises.

    Attributes:
        steps: what was decided about pods, evictions, and nodes that came and went, in order. Steps of one decision
            have the same number; nodes came and went at the moment of their number.
        notes: what can't be read, and why policies may not be what was recorded, one line each.
    """

    def __init__(self, runs: Sequence[Recording], named: NamedPlugins | None = None) -> None:
        self.steps: list[Step] = []
        self.source = runs[-1].source if len(runs) == 1 else f"{runs[0].source} and {len(runs) - 1} more runs"
        self._decisions: list[RecordedDecision] = []
        self._policies = {id(run): recorded_policy(run, named) for run in runs}
        self._runs = runs
        self._cursor: tuple[Recording, ReplayCursor] | None = None
        problems = []
        for run in runs:
            reader = _Reader(self._decisions)
            self.steps += reader.steps(run)
            problems += [reader.problem] if reader.problem else []
        if not self._decisions:
            raise RecordingError(f"{runs[0].source} has no decisions{f': {problems[0]}' if problems else ''}")
        self.notes = (*problems, *dict.fromkeys(line for each in self._policies.values() for line in each.changed))

    @property
    def policy(self) -> Policy:
        """The policy of the last run."""
        return self._policies[id(self._runs[-1])]

    def __len__(self) -> int:
        """The number of the last moment."""
        return len(self._decisions)

    def time(self, number: int) -> datetime:
        """When a moment began: the time of the decision before it."""
        first = self._runs[0]
        return self._decisions[number - 1].time if number else first.date_of(first.manifest.monotonic)

    def at(self, time: datetime) -> int:
        """The moment of a time: the one after all decisions until then."""
        return bisect_right(self._decisions, time, key=attrgetter("time"))

    def snapshot(self, number: int, progress: Progress = lambda _: None) -> Snapshot:
        """The cluster as the scheduler knew it at a moment. Raises SnapshotError, and what `progress` raises."""
        decided = self._decisions[min(number, len(self) - 1)]
        if self._cursor is None or self._cursor[0] is not decided.run:
            self.close()
            self._cursor = decided.run, ReplayCursor(decided.run, self._policies[id(decided.run)])
        before = decided.number + (number == len(self))
        try:
            return self._cursor[1].before(before, decided.segment, progress)
        except RecordingError as error:
            raise SnapshotError(str(error)) from None

    def next_difference(
        self,
        other: Policy,
        number: int,
        enough: Callable[[], bool] = lambda: False,
        progress: Progress = lambda _: None,
    ) -> NextDifference:
        """Look for the first decision after a moment that another policy would make differently.

        `enough`: asked before each of them; True ends the search there. Raises RecordingError if one can't be made
        again, and what `progress` raises.
        """
        skipped = 0
        while number < len(self):
            found, ended = self._ask(other, number, enough, progress)
            skipped += found.skipped
            if ended:
                return replace(found, skipped=skipped)
            number = found.reached
        return NextDifference(None, len(self), skipped=skipped)

    def _ask(
        self, other: Policy, number: int, enough: Callable[[], bool], progress: Progress
    ) -> tuple[NextDifference, bool]:
        """Ask another policy from a moment on, to the end of the run. Returns also whether the search ended before."""
        first = self._decisions[number]
        run, offset = first.run, number + 1 - first.number
        asked, reached = OtherPolicy(other), number

        def visit(moment: Moment) -> bool:
            nonlocal reached
            progress("replaying")
            if moment.number < first.number or not moment.recorded:
                return False
            if enough():
                return True
            asked.visit(moment)
            reached = moment.number + offset
            return bool(asked.found.differences)

        found = self._policies[id(run)].replay(run).run(visit, segment=first.segment)
        differences, skipped = asked.found.differences, asked.found.no_profile
        if differences:
            return NextDifference(reached, reached - 1, differences[0].other, skipped), True
        ends = next((n for n in range(reached, len(self)) if self._decisions[n].run is not run), len(self))
        if not found.stopped and reached < ends:
            raise RecordingError(found.why)
        return NextDifference(None, reached, skipped=skipped), found.stopped

    def close(self) -> None:
        """End the replay that waits."""
        if self._cursor is not None:
            self._cursor[1].close()
            self._cursor = None


class _Reader:
    """Reads the steps of a run, and adds its decisions to those of the runs before."""

    def __init__(self, decisions: list[RecordedDecision]) -> None:
        self.problem = ""
        self._decisions = decisions
        self._keys: dict[str, str] = {}
        """The keys of pods by uid."""
        self._nodes: set[str] = set()
        self._decided = False

    def steps(self, recording: Recording) -> Iterator[Step]:
        try:
            for each in decisions_and_reports(recording):
                if isinstance(each, RecordedDecision):
                    self._decisions.append(each)
                    self._decided = True
                    yield from self._decision(each)
                elif isinstance(each[1], entries.Checkpoint):
                    self._checkpoint(each[1])
                elif isinstance(each[1], entries.Changed):
                    yield from self._reported(each[0], each[1])
        except (RecordingError, msgspec.MsgspecError) as error:
            self.problem = str(error)

    def _decision(self, decided: RecordedDecision) -> Iterator[Step]:
        number, keys = len(self._decisions), self._keys
        keys |= {pod.uid: pod.key for pod in decided.pods}
        for pod in decided.pods:
            if decided.places(pod):
                yield Step(number, decided.time, StepKind.PLACED, pod.key, pod.node)
            else:
                yield Step(number, decided.time, StepKind.NOT_PLACED, pod.key, "", decided.describe(pod))
        for uid, node, victims in decided.preemptions:
            for victim in victims:
                key = keys.get(victim, victim)
                yield Step(number, decided.time, StepKind.EVICTED, key, node, f"by {keys.get(uid, uid)}")

    def _checkpoint(self, checkpoint: entries.Checkpoint) -> None:
        self._keys |= {each.uid: each.key for each in checkpoint.placed}
        self._nodes |= {each.key for each in checkpoint.objects if kind_of(each.kind) is NODE}

    def _reported(self, time: datetime, change: entries.Changed) -> Iterator[Step]:
        """What a report changes. The first ones, before any decision, are about what was there already."""
        kind = kind_of(change.kind)
        if kind is POD and change.raw is not None:
            self._keys[uid_of(change.raw)] = change.key
        elif kind is NODE and (change.key in self._nodes) is (change.raw is None):
            self._nodes ^= {change.key}
            if self._decided:
                what = StepKind.NODE_WENT if change.raw is None else StepKind.NODE_CAME
                yield Step(len(self._decisions), time, what, change.key)
