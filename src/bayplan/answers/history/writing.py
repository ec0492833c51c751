"""Writes histories: the segments, and the manifest.

A segment's events are written last, and each file is replaced as a whole, so that a reader never sees half of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.following import HistoryChange
from bayplan.answers.history.format import (
    LOCK,
    MANIFEST,
    HistoryCounts,
    HistoryDocument,
    HistoryError,
    HistoryManifest,
    MissingEvents,
    Row,
    document_schema,
    documents_file,
    event_schema,
    events_file,
    import_pyarrow,
    segment_of,
)
from bayplan.foundations.file_replacement import replacing

ROWS = 200_000
"""The rows of a segment of an imported history."""
_BATCH = 5_000
"""The rows, or documents, that are converted at a time."""


def write_history(
    folder: Path,
    changes: Iterable[HistoryChange],
    *,
    source: str,
    begin: datetime | None = None,
    end: datetime | None = None,
    synthetic: bool = False,
    redacted: bool = False,
    gaps: Sequence[MissingEvents] = (),
    notes: Sequence[str] = (),
) -> HistoryManifest:
    """Write a whole history to a folder that is new or empty. Changes with the same time stay in their order.

    `begin` and `end`: by default the times of the first and the last change. Raises HistoryError, also for an empty
    history.
    """
    pa = import_pyarrow()
    documents: dict[str, HistoryDocument] = {}
    rows: list[Row] = []
    for row, document in changes:
        rows.append(row)
        if document is not None:
            documents.setdefault(document.document, document)
    rows += [row for gap in gaps for row in rows_of(gap)]
    if not rows:
        raise HistoryError(f"{source}: nothing in it is about pods or nodes, so there is no history to write")
    rows.sort(key=lambda row: row.time_utc)
    manifest = HistoryManifest(
        bayplan=version("bayplan"),
        source=source,
        synthetic=synthetic,
        redacted=redacted,
        begin=begin or rows[0].time_utc,
        end=end or rows[-1].time_utc,
        gaps=list(gaps),
        notes=list(notes),
    )
    manifest.counts.nodes = len({row.name for row in rows if row.event == columns.NODE_ADDED})
    try:
        prepare_folder(folder)
        left = iter(rows)
        for segment in range(1, len(rows) // ROWS + 2):
            part = list(islice(left, ROWS))
            if part:
                needed = dict.fromkeys(row.document for row in part if row.document)
                found = (documents[key] for key in needed if key in documents)
                write_segment(pa, folder, segment, part, found, manifest.counts)
        write_manifest(folder, manifest)
    except OSError as error:
        raise HistoryError(f"cannot write {folder}: {error.strerror or error}") from error
    return manifest


def rows_of(gap: MissingEvents) -> tuple[Row, ...]:
    """The rows of a time without events."""
    began = Row(gap.begin, columns.GAP_BEGAN, reason=gap.reason)
    return (began,) if gap.end is None else (began, Row(gap.end, columns.GAP_ENDED))


def prepare_folder(folder: Path) -> None:
    """Create a folder. Raises OSError, and HistoryError if it has a history already, or other files."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(path.name == MANIFEST or segment_of(path) is not None for path in folder.iterdir()):
        raise HistoryError(f"{folder} has a history already: name another folder, or remove it first")
    if any(path.name != LOCK for path in folder.iterdir()):
        raise HistoryError(f"{folder} has other files: a history needs a folder of its own")


def write_segment(
    pa: Any,
    folder: Path,
    segment: int,
    rows: Iterable[Row],
    documents: Iterable[HistoryDocument],
    counts: HistoryCounts,
) -> None:
    """Write a segment, and add it to `counts`. It counts once its events are there. Raises OSError."""
    _write(pa, documents_file(folder, segment), documents, document_schema(pa))
    before = counts.events
    _write(pa, events_file(folder, segment), _counted(rows, counts), event_schema(pa))
    counts.segments += counts.events > before


def _counted(rows: Iterable[Row], counts: HistoryCounts) -> Iterator[Row]:
    for row in rows:
        counts.events += 1
        counts.pods += row.event == columns.POD_ARRIVED
        yield row


def _write(pa: Any, path: Path, structs: Iterable[msgspec.Struct], schema: Any) -> None:
    """Write structs as a table, a batch at a time."""
    left = iter(structs)
    with replacing(path, private=True) as file, pa.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(left, _BATCH)):
            arrays = []
            for field in schema:
                values = [getattr(struct, field.name) for struct in batch]
                if field.nullable and pa.types.is_string(field.type):
                    values = [value or None for value in values]
                arrays.append(pa.array(values, field.type))
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def write_manifest(folder: Path, manifest: HistoryManifest) -> None:
    """Write `history.json`. Raises OSError."""
    with replacing(folder / MANIFEST, private=True) as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
