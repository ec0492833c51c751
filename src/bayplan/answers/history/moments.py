"""A history at any of its moments: its events as steps, and the cluster between any two of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from bayplan.answers.history.steps import Step, What

from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import identified, on_node
from bayplan.answers.history.ends import DISRUPTIONS
from bayplan.answers.history.following import kind_of
from bayplan.answers.history.format import Row
from bayplan.answers.history.reading import History, key_of_row
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import stored
from bayplan.answers.snapshots.snapshot import Snapshot, frozen
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import encode

MOST_CHECKPOINTS = 64
"""How many states are kept at most; between two of them, events are applied again."""
_INTERVAL = 500
"""Events between two checkpoints, while there are few."""
_OFTEN = 1000
"""Objects between two calls of a progress."""


@dataclass(slots=True, eq=False)
class _Version:
    """A version of an object, whose JSON is made when it is needed."""

    kind: Kind
    row: Row
    text: str
    node: str = ""
    started: datetime | None = None

    @property
    def uid(self) -> str:
        return self.row.uid

    def raw(self) -> bytes:
        """The JSON, as a snapshot has it. Raises SnapshotError."""
        row = self.row
        document = identified(self.text, row.namespace, row.name, row.uid, row.created_utc or row.time_utc)
        if self.node:
            document = on_node(document, self.node, self.started)
        return stored(self.kind, encode(document))[1]


_State = dict[Kind, dict[str, _Version]]
_Change = tuple[Kind, str, _Version | None]


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """An object is another one from a moment on; `raw` is None for one that is gone."""

    kind: Kind
    key: str
    raw: bytes | None


class HistoryMoments:
    """The moments of a history. Moment 0 is the begin; moment n is after n steps, just before the next one.

    All events are in memory. Objects that can't be read are left out. `snapshot` is not for several threads at once.

    Attributes:
        steps: arrivals, placements, evictions and ends of pods, and what happened to nodes, in order. The number of
            each is its position, from 1.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.steps: list[Step] = []
        self._changes: list[_Change] = []
        self._before: list[int] = []
        """How many changes there were before each step."""
        self._checkpoints: list[tuple[int, _State]] = []
        self._raw: dict[Kind, dict[_Version, bytes]] = {}
        """The JSON of the objects of the last snapshot: what is the same in the next one stays the same bytes."""
        self._read()

    def _read(self) -> None:
        state: _State = {}
        for row, documents in self.history.rows_with_documents(initial=True):
            for change in _changes(row, documents, state):
                _apply(state, change)
        interval, last = _INTERVAL, self.history.begin
        self._checkpoints.append((0, _copy(state)))
        for row, documents in self.history.rows_with_documents(initial=False):
            last = row.time_utc = max(last, row.time_utc)
            for change in _changes(row, documents, state):
                step = _step(len(self.steps) + 1, row, change, state)
                if step is not None:
                    self.steps.append(step)
                    self._before.append(len(self._changes))
                self._changes.append(change)
                _apply(state, change)
            if len(self._changes) >= self._checkpoints[-1][0] + interval:
                self._checkpoints.append((len(self._changes), _copy(state)))
                if len(self._checkpoints) > MOST_CHECKPOINTS:
                    del self._checkpoints[1::2]
                    interval *= 2

    def __len__(self) -> int:
        """The number of the last moment."""
        return len(self.steps)

    def time(self, number: int) -> datetime:
        """When a moment began: the time of the step before it."""
        return self.steps[number - 1].time if number else self.history.begin

    def at(self, time: datetime) -> int:
        """The moment of a time: the one after all steps until then. A step at the begin comes after moment 0."""
        return 0 if time <= self.history.begin else bisect_right(self.steps, time, key=attrgetter("time"))

    def snapshot(self, number: int, progress: Callable[[str], None] = lambda _: None) -> Snapshot:
        """The cluster at a moment. Objects that are the same in the snapshot before are the same bytes."""
        documents: dict[Kind, dict[str, bytes]] = {}
        problems: list[str] = []
        made, kept = 0, self._raw
        self._raw = {}
        for kind, known in self._state(number).items():
            before, raws, found = kept.get(kind, {}), dict[_Version, bytes](), dict[str, bytes]()
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
            kind, key, version = self._changes[position]
            try:
                yield RecordedChange(kind, key, None if version is None else version.raw())
            except SnapshotError:  # the snapshot names such objects
                continue

    def _until(self, number: int) -> int:
        return self._before[number] if number < len(self._before) else len(self._changes)

    def _state(self, number: int) -> _State:
        until = self._until(number)
        begin, kept = self._checkpoints[bisect_right(self._checkpoints, until, key=lambda each: each[0]) - 1]
        state = _copy(kept)
        for change in self._changes[begin:until]:
            _apply(state, change)
        return state


def _copy(state: _State) -> _State:
    return {kind: dict(known) for kind, known in state.items()}


def _apply(state: _State, change: _Change) -> None:
    kind, key, version = change
    if version is None:
        state.get(kind, {}).pop(key, None)
    else:
        state.setdefault(kind, {})[key] = version


def _changes(row: Row, documents: Mapping[str, str], state: _State) -> Iterator[_Change]:
    """What a row changes. Rows about pods that aren't known, and rows without their document, change nothing."""
    kind, key = kind_of(row.api_version, row.kind), key_of_row(row)
    if kind is None:
        return
    known = state.get(kind, {}).get(key)
    match row.event:
        case columns.POD_BOUND:
            if known is not None and known.uid == row.uid and not known.node:
                yield kind, key, replace(known, node=row.node, started=row.started_utc)
        case columns.POD_ENDED:
            if known is not None and known.uid == row.uid:
                yield kind, key, None
        case columns.NODE_REMOVED | columns.OBJECT_REMOVED:
            if known is not None:
                yield kind, key, None
        case columns.GAP_BEGAN | columns.GAP_ENDED:
            return
        case _ if row.document in documents:
            version = _Version(kind, row, documents[row.document])
            if row.event == columns.POD_CHANGED:
                if known is None or known.uid != row.uid:
                    return
                row.created_utc = row.created_utc or known.row.created_utc or known.row.time_utc
                version.node, version.started = known.node, known.started
            yield kind, key, version


def _step(number: int, row: Row, change: _Change, state: _State) -> Step | None:
    """The step that a change is; None for one that is none: changes of pods, and other objects."""
    kind, key, version = change
    known = state.get(kind, {}).get(key)
    if kind is POD:
        if version is None:
            evicted = row.reason in DISRUPTIONS
            node = "" if known is None else known.node
            what = What.EVICTED if evicted else What.ENDED
            return Step(number, row.time_utc, what, key, node, row.reason)
        if row.event == columns.POD_BOUND:
            return Step(number, row.time_utc, What.PLACED, key, row.node, uid=row.uid)
        return Step(number, row.time_utc, What.ARRIVED, key, uid=row.uid) if row.event == columns.POD_ARRIVED else None
    if kind is NODE:
        what = What.NODE_WENT if version is None else What.NODE_CAME if known is None else What.NODE_CHANGED
        return Step(number, row.time_utc, what, key)
    return None
