"""The objects of a cluster over a history: which rows change which objects, and which of these changes are steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import identified, on_node
from bayplan.answers.history.ends import DISRUPTIONS
from bayplan.answers.history.following import kind_of
from bayplan.answers.history.format import Row
from bayplan.answers.moments.steps import Step, StepKind
from bayplan.answers.snapshots.documents import stored
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import encode


@dataclass(slots=True, eq=False)
class Version:
    """A version of an object, whose JSON is made when it is needed."""

    kind: Kind
    row: Row
    text: str
    node: str = ""
    started: datetime | None = None

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return self.row.uid

    def raw(self) -> bytes:
        """The JSON, as a snapshot has it. Raises SnapshotError."""
        return self.stored()[1]

    def stored(self) -> tuple[str, bytes]:
        """The key and the JSON, as a snapshot has them. Raises SnapshotError."""
        row = self.row
        document = identified(self.text, row.namespace, row.name, row.uid, row.created_utc or row.time_utc)
        if self.node:
            document = on_node(document, self.node, self.started)
        return stored(self.kind, encode(document))


State = dict[Kind, dict[str, Version]]
"""Kind -> key -> the version of the object."""
Change = tuple[Kind, str, Version | None]
"""An object is another one from now on; None for one that is gone."""


def state_at_begin(rows: Iterable[tuple[Row, Mapping[str, str]]]) -> State:
    """Return the objects that the rows of the start have, each row with the documents of its segment."""
    state: State = {}
    for row, documents in rows:
        for change in changes_of_row(row, documents, state):
            apply(state, change)
    return state


def steps_and_changes(
    rows: Iterable[tuple[Row, Mapping[str, str]]], begin: datetime, state: State
) -> Iterator[tuple[Step | None, Change]]:
    """Yield what the rows after the start change, each change with the step that it is, if it is one.

    `state` has changed by then. The time of a row that is before that of the row before it is the later one.
    """
    last, number = begin, 0
    for row, documents in rows:
        last = row.time_utc = max(last, row.time_utc)
        for change in changes_of_row(row, documents, state):
            step = _step(number + 1, row, change, state)
            number += step is not None
            apply(state, change)
            yield step, change


def copy_of(state: State) -> State:
    """Return a state that changes by itself."""
    return {kind: dict(known) for kind, known in state.items()}


def apply(state: State, change: Change) -> None:
    """Change an object of a state."""
    kind, key, version = change
    if version is None:
        state.get(kind, {}).pop(key, None)
    else:
        state.setdefault(kind, {})[key] = version


def key_of_row(row: Row) -> str:
    """The object that a row is about: `namespace/name`, or `name`."""
    return f"{row.namespace}/{row.name}" if row.namespace else row.name


def changes_of_row(row: Row, documents: Mapping[str, str], state: State) -> Iterator[Change]:
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
            version = Version(kind, row, documents[row.document])
            if row.event == columns.POD_CHANGED:
                if known is None or known.uid != row.uid:
                    return
                row.created_utc = row.created_utc or known.row.created_utc or known.row.time_utc
                version.node, version.started = known.node, known.started
            yield kind, key, version


def _step(number: int, row: Row, change: Change, state: State) -> Step | None:
    """The step that a change is; None for one that is none: changes of pods, and other objects."""
    kind, key, version = change
    known = state.get(kind, {}).get(key)
    if kind is POD:
        if version is None:
            evicted = row.reason in DISRUPTIONS
            node = "" if known is None else known.node
            what = StepKind.EVICTED if evicted else StepKind.ENDED
            return Step(number, row.time_utc, what, key, node, row.reason, row.uid)
        if row.event == columns.POD_BOUND:
            return Step(number, row.time_utc, StepKind.PLACED, key, row.node, uid=row.uid)
        return (
            Step(number, row.time_utc, StepKind.ARRIVED, key, uid=row.uid) if row.event == columns.POD_ARRIVED else None
        )
    if kind is NODE:
        what = StepKind.NODE_WENT if version is None else StepKind.NODE_CAME if known is None else StepKind.NODE_CHANGED
        return Step(number, row.time_utc, what, key)
    return None
