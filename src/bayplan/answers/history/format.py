"""The format of a history: a folder with Parquet files in segments, and a manifest.

    history.json                    the manifest: version, source, begin, end, counts
    events-000001.parquet           what happened in the first segment, one row each, in time order
    documents-000001.parquet        the specs that these rows refer to, each once
    events-000002.parquet ...
    journal-000003.jsonl            the segment that is being recorded, as JSON lines

A segment stands for itself: its rows refer only to its own documents, so that a damaged file costs one segment. A file
is complete or it isn't there, except for the journal, whose last line may be cut. `Row` and `HistoryDocument` are the
columns.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from bayplan.foundations.lazy import library

FORMAT = "bayplan-history"
VERSION = 1
MANIFEST = "history.json"
_NAMED = 4
"""How many kinds the line of a gap names."""
LOCK = ".lock"
"""The file that a recorder holds while it writes to the folder."""

POD_ARRIVED, POD_CHANGED, POD_BOUND, POD_ENDED = "pod_arrived", "pod_changed", "pod_bound", "pod_ended"
NODE_ADDED, NODE_CHANGED, NODE_REMOVED = "node_added", "node_changed", "node_removed"
OBJECT_ADDED, OBJECT_CHANGED, OBJECT_REMOVED = "object_added", "object_changed", "object_removed"
GAP_BEGAN, GAP_ENDED = "gap_began", "gap_ended"

EVENTS = (
    POD_ARRIVED,
    POD_CHANGED,
    POD_BOUND,
    POD_ENDED,
    NODE_ADDED,
    NODE_CHANGED,
    NODE_REMOVED,
    OBJECT_ADDED,
    OBJECT_CHANGED,
    OBJECT_REMOVED,
    GAP_BEGAN,
    GAP_ENDED,
)
"""The values of `Row.event`."""

FIRST_TIME, LAST_TIME = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Times before and after these are damaged: no cluster has had them."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a zone."""


class HistoryError(Exception):
    """A history, or a source of one, that can't be used. The message is one line for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # names in files may have line breaks


class Row(msgspec.Struct, omit_defaults=True):
    """Something that happened. The fields are the columns of `events-*.parquet`; "" and None are null there."""

    time_utc: Time
    """When it happened, to the microsecond. An object that existed before has the start of the history."""
    event: str
    """One of EVENTS."""
    initial: bool = False
    """Whether this describes the state at the start: the object existed already, or the pod was bound already."""
    api_version: str = ""
    kind: str = ""
    """The object's `apiVersion` and `kind`."""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    """Of `pod_bound`: the node's name."""
    reason: str = ""
    """Of `pod_ended`: `Succeeded`, `Failed`, `Deleted`, or the reason of a failed pod or of its disruption, such as
    `Evicted` and `PreemptionByScheduler`. Of `gap_began`: why events are missing."""
    created_utc: Time | None = None
    """Of `*_arrived` and `*_added`: the object's creationTimestamp, where it is known."""
    started_utc: Time | None = None
    """Of `pod_bound`: the pod's status.startTime, where it is known."""
    owner_kind: str = ""
    owner_name: str = ""
    """Of `pod_arrived`: the pod's controller."""
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    """Of pods: what they request, as the scheduler counts it. Of nodes: what is allocatable."""
    priority: int | None = None
    """Of pods."""
    runs_seconds: float | None = None
    """Of `pod_arrived`: after how many seconds on a node the pod ends by itself, where the source says that rather than
    when it ended: traces and synthesized histories."""
    document: str = ""
    """The key of the object's document; "" for events that need none."""


class HistoryDocument(msgspec.Struct, frozen=True):
    """The spec of an object. The fields are the columns of `documents-*.parquet`."""

    document: str
    """The key: 32 hexadecimal digits of a hash of the JSON."""
    json: str
    """The object's JSON with `apiVersion` and `kind`, without what differs between two replicas: see `documents.py`."""


class HistoryCounts(msgspec.Struct):
    """How much a history has, for people who look at its manifest."""

    segments: int = 0
    events: int = 0
    pods: int = 0
    nodes: int = 0


class MissingEvents(msgspec.Struct, frozen=True, omit_defaults=True):
    """A time whose events are missing, with the reason. `end` is None if the history ended with it."""

    begin: Time
    end: Time | None
    reason: str
    kinds: tuple[str, ...] = ()
    """The resources whose events are missing, such as `pods`; () for all."""

    def __str__(self) -> str:
        until = f"{self.end:%Y-%m-%d %H:%M:%S} UTC" if self.end is not None else "the end"
        more = f" and {len(self.kinds) - _NAMED} more kinds" if len(self.kinds) > _NAMED else ""
        what = f" of {', '.join(self.kinds[:_NAMED])}{more}" if self.kinds else ""
        return f"no events{what} from {self.begin:%Y-%m-%d %H:%M:%S} UTC to {until}: {self.reason}"


class HistoryManifest(msgspec.Struct):
    """The contents of `history.json`."""

    format: str = FORMAT
    version: int = VERSION
    bayplan: str = ""
    """The version of Bayplan that wrote it."""
    source: str = ""
    """Where it comes from, for people: `cluster https://…`, `audit log of 3 files`."""
    synthetic: bool = False
    """Whether arrivals are made up rather than observed."""
    redacted: bool = False
    begin: Time | None = None
    end: Time | None = None
    """When the history begins and ends. The end is None while it is being recorded, and after a kill."""
    gaps: list[MissingEvents] = []
    notes: list[str] = []
    """What the source doesn't know, one line each. Answers repeat them."""
    counts: HistoryCounts = msgspec.field(default_factory=HistoryCounts)


def events_file(folder: Path, segment: int) -> Path:
    """The rows of a segment."""
    return folder / f"events-{segment:06}.parquet"


def documents_file(folder: Path, segment: int) -> Path:
    """The documents of a segment."""
    return folder / f"documents-{segment:06}.parquet"


def journal_file(folder: Path, segment: int) -> Path:
    """A segment that is being recorded: JSON lines, each a HistoryDocument or a Row."""
    return folder / f"journal-{segment:06}.jsonl"


def segment_of(path: Path) -> int | None:
    """The number of the segment that a file belongs to; None for another file."""
    stem, _, number = path.stem.partition("-")
    if stem in {"events", "documents", "journal"} and number.isdecimal():
        return int(number)
    return None


def import_pyarrow() -> Any:
    """The library that reads and writes Parquet. Raises HistoryError with the command that installs it."""
    try:
        return library("pyarrow", "pyarrow.compute", "pyarrow.parquet")
    except ImportError as error:
        raise HistoryError(f"histories need pyarrow ({error}): pip install 'bayplan[history]'") from None


def event_schema(pa: Any) -> Any:
    """The columns of `events-*.parquet`: those of Row, in its order. `pa`: pyarrow. Returns a pyarrow.Schema."""
    time, text, number = pa.timestamp("us", tz="UTC"), pa.string(), pa.int64()
    types = {"initial": pa.bool_(), "cpu_millicores": number, "memory_bytes": number, "priority": number}
    types["runs_seconds"] = pa.float64()
    types |= dict.fromkeys(("time_utc", "created_utc", "started_utc"), time)
    return pa.schema(
        [
            pa.field(name, types.get(name, text), nullable=name not in {"time_utc", "event", "initial"})
            for name in Row.__struct_fields__
        ],
        metadata={"format": FORMAT, "version": str(VERSION)},
    )


def document_schema(pa: Any) -> Any:
    """The columns of `documents-*.parquet`: those of HistoryDocument. `pa`: pyarrow."""
    return pa.schema(
        [pa.field(name, pa.string(), nullable=False) for name in HistoryDocument.__struct_fields__],
        metadata={"format": FORMAT, "version": str(VERSION)},
    )
