"""Reads the segments of a history: Parquet files, and the journal of a segment that was being recorded.

A segment that can't be read costs itself only. A damaged document costs the rows that refer to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bayplan.answers.history.documents import document_problem
from bayplan.answers.history.format import (
    FIRST_TIME,
    FORMAT,
    LAST_TIME,
    VERSION,
    HistoryDocument,
    HistoryError,
    Row,
    document_schema,
    documents_file,
    event_schema,
    events_file,
    import_pyarrow,
    journal_file,
    segment_of,
)
from bayplan.answers.history.parquet_files import BATCH, opened_parquet, texts_of, too_large

_TEXTS = frozenset(field.name for field in msgspec.structs.fields(Row) if field.type is str)
"""The columns in which null stands for ""."""
_TIMES = frozenset({"time_utc", "created_utc", "started_utc"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = tuple(int((each - _EPOCH).total_seconds()) * 10**6 for each in (FIRST_TIME, LAST_TIME))
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Row)}


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment, whose files were found readable."""

    folder: Path
    number: int
    in_journal: bool
    damaged: frozenset[str] = frozenset()
    """The keys of documents that can't be used."""

    def rows(self, *, initial: bool | None = None, columns: Collection[str] = Row.__struct_fields__) -> Iterator[Row]:
        """What happened, in the order of the file.

        `initial`: only the rows with this value. `columns`: those that are read; the others have their defaults.
        """
        lines = self._lines()
        if lines is not None:
            yield from (line for line in lines if isinstance(line, Row) and initial in {None, line.initial})
            return
        read = [name for name in Row.__struct_fields__ if name in columns or name == "initial"]
        pa = import_pyarrow()
        with opened_parquet(pa, events_file(self.folder, self.number)) as file:
            for whole in file.iter_batches(BATCH, columns=read):
                chosen = whole["initial"] if initial else pa.compute.invert(whole["initial"])
                batch = whole if initial is None else whole.filter(chosen)
                if batch.num_rows:
                    made = map(Row, *(_values(batch, name, read) for name in Row.__struct_fields__))
                    yield from (row for row in made if row.time_utc is not None)

    def odd_times(self) -> int:
        """The number of rows that are left out because of their times. Those of a journal have a line each."""
        if self.in_journal:
            return 0
        pa = import_pyarrow()
        with opened_parquet(pa, events_file(self.folder, self.number)) as file:
            columns = (batch["time_utc"] for batch in file.iter_batches(BATCH, columns=["time_utc"]))
            return sum(_time(number) is None for column in columns for number in column.cast("int64").to_pylist())

    def documents(self) -> dict[str, str]:
        """The JSON of each document by its key, but for damaged ones."""
        return {key: json for key, json in self.stored_documents() if key not in self.damaged}

    def stored_documents(self) -> Iterator[tuple[str, str]]:
        """The keys and the texts of all documents."""
        lines = self._lines()
        if lines is not None:
            yield from ((line.document, line.json) for line in lines if isinstance(line, HistoryDocument))
            return
        pa = import_pyarrow()
        with opened_parquet(pa, documents_file(self.folder, self.number)) as file:
            for batch in file.iter_batches(BATCH, columns=["document", "json"]):
                yield from zip(texts_of(batch["document"]), texts_of(batch["json"]), strict=True)

    def _lines(self) -> Iterator[Row | HistoryDocument] | None:
        """The lines of the journal; None if there is none, or none any longer because a recorder has converted it."""
        if not self.in_journal:
            return None
        try:
            return journal_lines(journal_file(self.folder, self.number).open("rb"))
        except FileNotFoundError:
            return None


def _values(batch: Any, name: str, read: Collection[str]) -> Iterable[Any]:
    """The values of a column. pyarrow's own conversion takes several times as long."""
    if name not in read or batch[name].null_count == batch.num_rows:
        return repeat(_DEFAULTS[name])
    column = batch[name]
    if name in _TEXTS:
        return texts_of(column)
    if name in _TIMES:
        return [_time(number) for number in column.cast("int64").to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _time(number: int | None) -> datetime | None:
    """A time by its microseconds; None for one that no clock of a cluster has shown."""
    if number is None or not _MICROSECONDS[0] <= number < _MICROSECONDS[1]:
        return None
    return _EPOCH + timedelta(microseconds=number)


def segments_in(folder: Path, problems: list[str]) -> Iterator[Segment]:
    """The segments of a folder that can be read, in order. `problems` gets a line for each that can't."""
    try:
        numbers = sorted({number for path in folder.iterdir() if (number := segment_of(path)) is not None})
    except OSError as error:
        raise HistoryError(f"{folder}: {error.strerror or error}") from None
    for number in numbers:
        if events_file(folder, number).exists():
            problem = _parquet_problem(folder, number)
            if problem:
                problems.append(f"{problem}: this segment is left out")
            else:
                yield _checked(Segment(folder, number, in_journal=False), documents_file(folder, number), problems)
        elif journal_file(folder, number).exists():
            yield from _journal(folder, number, problems)


def _journal(folder: Path, number: int, problems: list[str]) -> Iterator[Segment]:
    path = journal_file(folder, number)
    bad: list[str] = []
    try:
        found = sum(1 for _ in journal_lines(path.open("rb"), bad))
    except FileNotFoundError:  # a recorder has converted it just now
        found = 1
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror or error}: this segment is left out")
        return
    if bad:
        problems.append(f"{path.name}: {bad[0]}" + (f", and {len(bad) - 1} lines more" if bad[1:] else ""))
    if found:
        yield _checked(Segment(folder, number, in_journal=True), path, problems)


def _checked(segment: Segment, path: Path, problems: list[str]) -> Segment:
    """A segment that knows which of its documents are damaged. `problems` gets a line for them."""
    found = {key: problem for key, raw in segment.stored_documents() if (problem := document_problem(raw))}
    for key, problem in islice(found.items(), 1):
        more = f", and {len(found) - 1:,} more are damaged" if found.keys() - {key} else ""
        problems.append(f"{path.name}: document {key} {problem}{more}: the events that need it are left out")
    return replace(segment, damaged=frozenset(found))


def journal_lines(file: BinaryIO, bad: list[str] | None = None) -> Iterator[Row | HistoryDocument]:
    """The rows and documents of an open journal. `bad` gets what is wrong with each line that is neither."""
    with file:
        for number, line in enumerate(file, start=1):
            try:
                found = (_document if line.startswith(b'{"document":') else _row).decode(line)
                if isinstance(found, Row) and not FIRST_TIME <= found.time_utc < LAST_TIME:
                    raise ValueError(f"{found.time_utc} is no time of a cluster")
                yield found
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                if bad is None:
                    continue
                if line.endswith(b"\n"):
                    bad.append(f"line {number} is damaged: {error}")
                else:
                    bad.append(f"line {number} is cut off, so one event is lost")


_row = msgspec.json.Decoder(Row)
_document = msgspec.json.Decoder(HistoryDocument)


def _parquet_problem(folder: Path, number: int) -> str:
    """What is wrong with the files of a segment; "" if nothing is. They are read once as a whole, as columns."""
    pa = import_pyarrow()
    for path, schema in (
        (events_file(folder, number), event_schema(pa)),
        (documents_file(folder, number), document_schema(pa)),
    ):
        problem = _file_problem(pa, path, schema)
        if problem:
            return f"{path.name}: {problem}"
    return ""


def _file_problem(pa: Any, path: Path, schema: Any) -> str:
    try:
        with opened_parquet(pa, path) as file:
            if beyond := too_large(file, path):
                return beyond
            found = file.schema_arrow
            metadata = {
                key.decode(errors="replace"): value.decode(errors="replace")
                for key, value in (found.metadata or {}).items()
            }
            if metadata.get("format") not in {FORMAT, None}:
                return f"it is a {metadata['format']}, not a {FORMAT}"
            number = metadata.get("version", "1")
            if not number.isdecimal() or int(number) > VERSION:
                return f"it has version {number} of the format, and this Bayplan reads up to {VERSION}: upgrade it"
            for field in schema:
                index = found.get_field_index(field.name)
                if index < 0:
                    return f"it has no column {field.name}"
                kind = found.field(index).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                if kind != field.type:
                    return f"its column {field.name} has type {kind}, not {field.type}"
            for batch in file.iter_batches(BATCH, columns=schema.names):
                batch.validate(full=True)
                for field in schema:
                    if not field.nullable and batch.column(field.name).null_count:
                        return f"its column {field.name} has nulls"
    except FileNotFoundError:
        return "there is no such file"
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"it is truncated or damaged ({' '.join(str(error).split())})"
    return ""
