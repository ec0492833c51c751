"""A history at any of its moments: its events as steps, and the cluster between any two of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from bayplan.answers.history.reading import History
from bayplan.answers.history.states import Change, State, Version, apply, copy_of, state_at_begin, steps_and_changes
from bayplan.answers.moments.moments import Progress
from bayplan.answers.moments.steps import Step, StepKind
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.snapshot import Snapshot, frozen
from bayplan.core.api.kinds import Kind

MOST_CHECKPOINTS = 64
"""How many states are kept at most; between two of them, events are applied again."""
_INTERVAL = 500
"""Events between two checkpoints, while there are few."""
_OFTEN = 1000
"""Objects between two calls of a progress."""
_UNPLACED = "no scheduler has placed the pods that arrive: they wait; `bayplan simulate` places them"


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """An object is another one from a moment on; `raw` is None for one that is gone."""

    kind: Kind
    key: str
    raw: bytes | None


class HistoryMoments:
    """Implements Moments for a history. Moment n is after n steps, just before the next one.

    All events are in memory. Objects that can't be read are left out.

    Attributes:
        steps: arrivals, placements, evictions and ends of pods, and what happened to nodes, in order. The number of
            each is its position, from 1.
        notes: what isn't known or can't be read, one line each.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.source = history.source
        self.steps: list[Step] = []
        self._changes: list[Change] = []
        self._before: list[int] = []
        """How many changes there were before each step."""
        self._checkpoints: list[tuple[int, State]] = []
        self._raw: dict[Kind, dict[Version, bytes]] = {}
        """The JSON of the objects of the last snapshot: what is the same in the next one stays the same bytes."""
        self._read()
        self.notes = self._notes()

    def _read(self) -> None:
        rows = self.history.rows_with_documents
        state, interval = state_at_begin(rows(initial=True)), _INTERVAL
        self._checkpoints.append((0, copy_of(state)))
        for step, change in steps_and_changes(rows(initial=False), self.history.begin, state):
            if step is not None:
                self.steps.append(step)
                self._before.append(len(self._changes))
            self._changes.append(change)
            if len(self._changes) >= self._checkpoints[-1][0] + interval:
                self._checkpoints.append((len(self._changes), copy_of(state)))
                if len(self._checkpoints) > MOST_CHECKPOINTS:
                    del self._checkpoints[1::2]
                    interval *= 2

    def _notes(self) -> tuple[str, ...]:
        history = self.history
        placed = not history.synthetic or any(step.what is StepKind.PLACED for step in self.steps)
        return (*map(str, history.gaps), *history.notes, *(() if placed else (_UNPLACED,)), *history.problems)

    def __len__(self) -> int:
        """The number of the last moment."""
        return len(self.steps)

    def time(self, number: int) -> datetime:
        """When a moment began: the time of the step before it."""
        return self.steps[number - 1].time if number else self.history.begin

    def at(self, time: datetime) -> int:
        """The moment of a time: the one after all steps until then. A step at the start comes after moment 0."""
        return 0 if time <= self.history.begin else bisect_right(self.steps, time, key=attrgetter("time"))

    def snapshot(self, number: int, progress: Progress = lambda _: None) -> Snapshot:
        """The cluster at a moment."""
        documents: dict[Kind, dict[str, bytes]] = {}
        problems: list[str] = []
        made, kept = 0, self._raw
        self._raw = {}
        for kind, known in self._state(number).items():
            before, raws, found = kept.get(kind, {}), dict[Version, bytes](), dict[str, bytes]()
            for key, version in known.items():
                raw = before.get(version)
                if raw is None:
                    made += 1
                    if made % _OFTEN == 0:
                        progress(f"{made:,} objects")
                    try:
                        raw = version.raw()
                    except SnapshotError as error:
                        problems.append(str(error))
                        continue
                raws[version] = found[key] = raw
            self._raw[kind] = raws
            documents[kind] = found
        return Snapshot(frozen(documents), self.history.source, self.time(number), (), tuple(problems))

    def changes(self, number: int) -> Iterator[RecordedChange | Step]:
        """What happened from a moment on, in order: each step, and then what it changed."""
        first = self._until(number)
        steps = iter(zip(self._before[number:], self.steps[number:], strict=True))
        coming = next(steps, None)
        for position in range(first, len(self._changes)):
            if coming is not None and coming[0] == position:
                yield coming[1]
                coming = next(steps, None)
            yield from _readable(self._changes[position])

    def close(self) -> None:
        """Do nothing: no thread and no file is open."""

    def _until(self, number: int) -> int:
        return self._before[number] if number < len(self._before) else len(self._changes)

    def _state(self, number: int) -> State:
        until = self._until(number)
        begin, kept = self._checkpoints[bisect_right(self._checkpoints, until, key=lambda each: each[0]) - 1]
        state = copy_of(kept)
        for change in self._changes[begin:until]:
            apply(state, change)
        return state


def changes_of(history: History) -> Iterator[RecordedChange | Step]:
    """What happened after the start of a history, as `HistoryMoments.changes` has it, without keeping it."""
    state = state_at_begin(history.rows_with_documents(initial=True))
    for step, change in steps_and_changes(history.rows_with_documents(initial=False), history.begin, state):
        if step is not None:
            yield step
        yield from _readable(change)


def _readable(change: Change) -> Iterator[RecordedChange]:
    """A change as it is told; none for an object that can't be read, which the snapshot names."""
    kind, key, version = change
    with suppress(SnapshotError):
        yield RecordedChange(kind, key, None if version is None else version.raw())
