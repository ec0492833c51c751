"""History: reads the folder of a history.

    history = History.open("last-week")
    history.start()                      # the cluster at the start, as a Snapshot
    for event in history.events(): ...   # what happened then, in the order of time

Rows are read from the files a batch at a time, so memory doesn't grow with the length. What can't be read is one of the
`problems`, and the rest is used. `format.py` has the columns, `writing.py` the other direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import identified
from bayplan.answers.history.events import (
    Event,
    Json,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    ObjectAdded,
    ObjectChanged,
    ObjectRemoved,
    Owner,
    PodArrived,
    PodBound,
    PodChanged,
    PodEnded,
)
from bayplan.answers.history.following import kind_of
from bayplan.answers.history.format import (
    EVENTS,
    FORMAT,
    MANIFEST,
    VERSION,
    HistoryError,
    HistoryManifest,
    MissingEvents,
    Row,
)
from bayplan.answers.history.gaps import LostKind, joined
from bayplan.answers.history.segments import Segment, segments_in
from bayplan.answers.history.states import key_of_row, state_at_begin
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.snapshot import Snapshot, frozen
from bayplan.core.api.kinds import Kind

_WITHOUT_DOCUMENT = frozenset({columns.POD_BOUND, columns.POD_ENDED, columns.NODE_REMOVED, columns.OBJECT_REMOVED})
_CHECKED = ("time_utc", "event", "api_version", "kind", "reason", "document")
_FAR = timedelta(days=366)
"""How long there may be no events between the start of a history and the first one, or the last one and its end."""
_GAPS = frozenset({columns.GAP_BEGAN, columns.GAP_ENDED})


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """What happened in a cluster, from `begin` to `end`. All times are in UTC.

    Opening checks all files once. The events are read from the files each time that they are asked for, a batch at a
    time, so that memory doesn't grow with the length of the history.
    """

    folder: Path
    begin: datetime
    end: datetime
    source: str
    """Where it comes from, for messages."""
    synthetic: bool
    """Whether arrivals are made up: every answer says so."""
    redacted: bool
    gaps: tuple[MissingEvents, ...]
    """The times whose events are missing."""
    notes: tuple[str, ...]
    """What the source doesn't know, one line each. Every answer repeats them."""
    problems: tuple[str, ...]
    """What of the folder can't be used, one line each. The rest is used."""
    pods: int
    """How many pods there were, with those at the start."""
    segments: tuple[Segment, ...] = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> History:
        """The history in a folder. Raises HistoryError, also for a history without any event."""
        folder = Path(folder)
        problems: list[str] = []
        manifest = _manifest(folder, problems)
        segments = tuple(segments_in(folder, problems))
        checked = _Check(problems)
        for segment in segments:
            checked.read(segment)
        if checked.first is None or checked.last is None:
            why = f": {problems[0]}" if problems else ""
            raise HistoryError(f"{folder} is an empty history: it has no events{why}")
        problems += checked.found()
        begin, end = manifest.begin or checked.first, manifest.end or checked.last
        if max(checked.first - begin, end - checked.last) > _FAR:
            problems.append(f"{MANIFEST} has a begin or an end that is far from all events: they count instead")
            begin, end = checked.first, checked.last
        return cls(
            folder,
            min(begin, checked.first),
            max(end, checked.last),
            manifest.source or f"the history {folder}",
            manifest.synthetic,
            manifest.redacted,
            tuple(checked.gaps()),
            tuple(manifest.notes),
            tuple(problems),
            checked.events[columns.POD_ARRIVED],
            segments,
        )

    @property
    def length(self) -> timedelta:
        """The time that it covers."""
        return self.end - self.begin

    def start(self) -> Snapshot:
        """The cluster at the start: nodes, pods with their nodes, claims, budgets, priority classes and all others."""
        found: dict[Kind, dict[str, bytes]] = {}
        problems = []
        for kind, known in state_at_begin(self.rows_with_documents(initial=True)).items():
            for each in known.values():
                try:
                    key, raw = each.stored()
                except SnapshotError as error:
                    problems.append(str(error))
                else:
                    found.setdefault(kind, {})[key] = raw
        return Snapshot(frozen(found), self.source, self.begin, (), tuple(problems))

    def events(self) -> Iterator[Event]:
        """What happened after the start, in the order of time.

        After a gap, or if a segment is missing, events may be about pods and nodes that have not arrived, and objects
        may arrive again: skip what isn't known, and take the newer one. An event whose time is earlier than that of the
        event before it, because a clock was set, gets the time of the event before it.
        """
        last = self.begin
        for row, documents in self.rows_with_documents(initial=False):
            if row.event in _GAPS:
                continue
            last = max(last, row.time_utc)
            row.time_utc = last
            event = _event(row, documents)
            if event is not None:
                yield event

    def rows(self) -> Iterator[Row]:
        """The rows as they are stored."""
        for row, _ in self.rows_with_documents():
            yield row

    def rows_with_documents(self, *, initial: bool | None = None) -> Iterator[tuple[Row, dict[str, str]]]:
        """The rows as they are stored, each with all documents of its segment. `initial`: only rows with this value."""
        for segment in self.segments:
            documents: dict[str, str] | None = None
            for row in segment.rows(initial=initial):
                if documents is None:
                    documents = segment.documents()
                yield row, documents

    def __repr__(self) -> str:
        return f"<History of {self.source}: {self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M}, {self.pods} pods>"


def _manifest(folder: Path, problems: list[str]) -> HistoryManifest:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise HistoryError(
            f"{folder}: there is no such folder; `bayplan record` and `bayplan history import` write histories"
        )
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        problems.append(f"there is no {MANIFEST}: the source is unknown")
        return HistoryManifest()
    except OSError as error:
        problems.append(f"{MANIFEST}: {error.strerror or error}: the source is unknown")
        return HistoryManifest()
    try:
        head = msgspec.json.decode(raw, type=_Head)
        if head.format != FORMAT:
            raise HistoryError(
                f"{path} is not the manifest of a history: its format is {head.format!r}, not {FORMAT!r}"
            )
        if head.version > VERSION:
            raise HistoryError(
                f"{folder} is a history of version {head.version}, written by bayplan {head.bayplan}; this is bayplan "
                f"{version('bayplan')}, which reads histories up to version {VERSION}: upgrade it"
            )
        return msgspec.json.decode(raw, type=HistoryManifest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problems.append(f"{MANIFEST} is damaged ({error}): the source is unknown")
        return HistoryManifest()


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0
    bayplan: str = "?"


class _Check:
    """Reads all rows once: counts, gaps, and what is odd about them."""

    def __init__(self, problems: list[str]) -> None:
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.events: Counter[str] = Counter()
        self._problems = problems
        self._open: dict[str, Row] = {}
        self._odd_times = 0
        self._gaps: list[LostKind] = []
        self._without_document: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._back = timedelta()
        self._back_at: datetime | None = None
        self._now: datetime | None = None

    def read(self, segment: Segment) -> None:
        documents = segment.documents().keys()
        self._odd_times += segment.odd_times()
        for row in segment.rows(columns=_CHECKED):
            self.events[row.event] += 1
            if row.event in _GAPS:
                self._gap(row)
                continue
            time = row.time_utc
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)
            if self._now is not None and self.last - time > self._back:
                self._back, self._back_at = self.last - time, self.last
            self._now = time
            if row.event not in EVENTS:
                self._unknown[f"events {row.event!r}"] += 1
            elif row.event not in _WITHOUT_DOCUMENT and row.document not in documents:
                if row.document in segment.damaged:  # its line has been written
                    continue
                self._without_document[f"segment {segment.number}"] += 1
            elif kind_of(row.api_version, row.kind) is None:
                self._unknown[f"events about {row.api_version} {row.kind}"] += 1

    def _gap(self, row: Row) -> None:
        ended = [row.kind] if row.event == columns.GAP_BEGAN or row.kind else list(self._open)
        for kind in ended:  # the end of a gap of all kinds is the end of those of single kinds
            began = self._open.pop(kind, None)
            if began is not None:
                self._gaps.append(LostKind(began, max(row.time_utc, began.time_utc)))
        if row.event == columns.GAP_BEGAN:
            self._open[row.kind] = row

    def gaps(self) -> list[MissingEvents]:
        return joined([*self._gaps, *(LostKind(row, None) for row in self._open.values())])

    def found(self) -> Iterator[str]:
        if self._odd_times:
            yield f"{self._odd_times:,} events have times that no cluster has had: they are left out"
        for where, number in self._without_document.items():
            yield f"{where}: the documents of {number:,} events are missing: these events are left out"
        for what, number in self._unknown.items():
            yield f"{number:,} {what} are unknown to this version of Bayplan and are left out"
        if self._back_at is not None:
            yield (
                f"the clock went back by {self._back.total_seconds():,.1f} s after "
                f"{self._back_at:%Y-%m-%d %H:%M:%S} UTC: later events count as if it had stood still"
            )


def _document(row: Row, documents: dict[str, str]) -> Json:
    return identified(documents[row.document], row.namespace, row.name, row.uid, row.created_utc or row.time_utc)


def _event(row: Row, documents: dict[str, str]) -> Event | None:
    """The typed event of a row; None for a gap, and for a row that is one of the problems."""
    time, key, uid, kind = row.time_utc, key_of_row(row), row.uid, kind_of(row.api_version, row.kind)
    match row.event:
        case columns.POD_BOUND:
            return PodBound(time, key, uid, row.node)
        case columns.POD_ENDED:
            return PodEnded(time, key, uid, row.reason)
        case columns.NODE_REMOVED:
            return NodeRemoved(time, row.name)
    if kind is None:
        return None
    if row.event == columns.OBJECT_REMOVED:
        return ObjectRemoved(time, kind, key)
    if row.document not in documents:
        return None
    document = _document(row, documents)
    match row.event:
        case columns.POD_ARRIVED:
            owner = Owner(row.owner_kind, row.owner_name) if row.owner_kind else None
            return PodArrived(time, key, uid, document, owner, row.runs_seconds)
        case columns.POD_CHANGED:
            return PodChanged(time, key, uid, document)
        case columns.NODE_ADDED:
            return NodeAdded(time, row.name, document)
        case columns.NODE_CHANGED:
            return NodeChanged(time, row.name, document)
        case columns.OBJECT_ADDED:
            return ObjectAdded(time, kind, key, document)
        case columns.OBJECT_CHANGED:
            return ObjectChanged(time, kind, key, document)
    return None
