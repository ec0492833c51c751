"""A damaged file or row of a history costs itself, in one line, in bounded time and memory."""

import json
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.history.audit_logs import lines, story
from tests.support.commands import bayplan

from bayplan.answers.history.following import HistoryChange
from bayplan.answers.history.format import MANIFEST, HistoryDocument, HistoryError
from bayplan.answers.history.journal import Journal
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.audit import import_audit

EVENTS, DOCUMENTS = "events-000001.parquet", "documents-000001.parquet"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with a segment in Parquet, and one in a journal."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "audit.log").write_bytes(lines(story()))
    import_audit([folder / "audit.log"], folder / "h")
    history = History.open(folder / "h")
    journal = Journal(folder / "h", 2)
    documents = history.segments[0].documents()
    for row in list(history.rows()):
        text = documents.get(row.document)
        row.time_utc += timedelta(minutes=5)
        journal.append([HistoryChange(row, HistoryDocument(row.document, text) if text else None)])
    journal.close()
    return folder / "h"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "h"))


def read(folder: Path) -> History:
    """Read all that there is of a history."""
    history = History.open(folder)
    history.start()
    for _ in history.events():
        pass
    moments = HistoryMoments(history)
    for number in range(len(moments) + 1):
        moments.snapshot(number)
    return history


def column(name: str, file: str, values: Any) -> Callable[[Path], None]:
    """Replace the values of a column: by one value, or by what a function makes of them."""

    def damage(folder: Path) -> None:
        table = pq.read_table(folder / file)
        index = table.column_names.index(name)
        kind = table.schema.field(name)
        made = values(table[name].to_pylist()) if callable(values) else [values] * table.num_rows
        array = made if isinstance(made, pa.Array) else pa.array(made, kind.type)
        pq.write_table(table.set_column(index, kind.with_type(array.type), array), folder / file)

    return damage


def _first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


def _times(number: int) -> Callable[[list[Any]], Any]:
    return lambda values: pa.array([number] * len(values), pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def _manifest(**fields: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        found = json.loads((folder / MANIFEST).read_text())
        (folder / MANIFEST).write_text(json.dumps(found | fields))

    return damage


DEEP = '{"a":' + "[" * 20_000 + "]" * 20_000 + "}"
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "documents that are text": (
        column("json", DOCUMENTS, "hello"),
        r"documents-000001.parquet: document \w{32} is not JSON",
    ),
    "documents that are arrays": (
        column("json", DOCUMENTS, "[]"),
        r"document \w{32} is no object",
    ),
    "documents that are deep": (column("json", DOCUMENTS, DEEP), r"document \w{32} is nested too deep"),
    "one document that is text": (
        column("json", DOCUMENTS, _first("hello")),
        r"documents-000001.parquet: document \w{32} is not JSON: the events that need it are left out",
    ),
    "documents with an odd spec": (
        column("json", DOCUMENTS, '{"spec": 3}'),
        r"document \w{32} has a spec that is no object",
    ),
    "documents with 1e999": (column("json", DOCUMENTS, '{"spec": 1e999}'), r"document \w{32} is"),
    "other keys of documents": (
        column("document", DOCUMENTS, "other"),
        "documents of 3 events are missing",
    ),
    "events of another type": (column("event", EVENTS, "danced"), "7 events 'danced' are unknown"),
    "a type of a column": (
        column("name", EVENTS, lambda v: pa.array(range(len(v)))),
        "has type int64, not string",
    ),
    "times after all clocks": (
        column("time_utc", EVENTS, _times(2**62)),
        "7 events have times that no",
    ),
    "times before all clocks": (
        column("time_utc", EVENTS, _times(-(2**62))),
        "7 events have times that no",
    ),
    "times of creation": (column("created_utc", EVENTS, _times(2**62)), ""),
    "seconds": (column("runs_seconds", EVENTS, 1e308), ""),
    "a missing column": (
        lambda folder: pq.write_table(pq.read_table(folder / EVENTS).drop_columns(["uid"]), folder / EVENTS),
        "events-000001.parquet: it has no column uid: this segment is left out",
    ),
    "a missing file": (lambda folder: (folder / DOCUMENTS).unlink(), "documents-000001.parquet: there is no such file"),
    "an empty file": (
        lambda folder: (folder / DOCUMENTS).write_bytes(b""),
        "it is truncated or damaged",
    ),
    "a truncated file": (
        lambda folder: (folder / EVENTS).write_bytes((folder / EVENTS).read_bytes()[:-100]),
        "events-000001.parquet: it is truncated or damaged",
    ),
    "a begin long ago": (_manifest(begin="0026-03-02T08:00:00Z"), "history.json has a begin or an end"),
    "an end that never comes": (
        _manifest(end="9999-12-31T00:00:00Z"),
        "history.json has a begin or an end",
    ),
    "gaps that are a number": (_manifest(gaps=1e308), "history.json is damaged"),
    "a manifest that is deep": (lambda folder: (folder / MANIFEST).write_text(DEEP), "history.json is damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_damaged_is_one_line_and_the_rest_is_used(case: str, folder: Path) -> None:
    damage, message = DAMAGE[case]
    damage(folder)
    history = read(folder)
    assert len(history.problems) == bool(message)
    if message:
        assert re.search(message, history.problems[0]), history.problems
    assert len(list(history.rows())) >= 7
    result = bayplan("history", "show", folder)
    assert len(result.stderr.splitlines()) == len(history.problems)


def test_a_document_of_a_journal_is_checked_too(folder: Path) -> None:
    path = folder / "journal-000002.jsonl"
    found = path.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(found) if line.startswith(b'{"document":'))
    found[number] = msgspec.json.encode({"document": "x", "json": "[]"}) + b"\n"
    found.append(found[-1].replace(b"2026-03", b"9026-03"))
    path.write_bytes(b"".join(found))
    problems = read(folder).problems
    assert any("document x is no object" in line for line in problems)
    assert any("is no time of a cluster" in line for line in problems)


INSIDE = "the texts in documents-000001.parquet"
"""What a changed byte of a compressed file never reaches."""


@given(data=st.data())
@settings(max_examples=60)
def test_any_changed_bytes_of_any_file_cost_no_more_than_the_file(data: st.DataObject, whole: Path) -> None:
    name = data.draw(st.sampled_from([INSIDE, *sorted(path.name for path in whole.iterdir())]))
    seed = data.draw(st.integers(0, 10_000))
    chosen = random.Random(seed)
    for path, raw in _kept(whole):
        if path.name == name:
            path.write_bytes(_changed(raw, chosen))
    if name == INSIDE:
        column("json", DOCUMENTS, partial(_changed_texts, chosen))(whole)
    try:
        history = read(whole)
    except HistoryError:
        assert name == MANIFEST  # the format or the version of it
    else:
        assert len(history.problems) <= 6
    finally:
        for path, raw in _kept(whole):
            path.write_bytes(raw)


def _changed(raw: bytes, chosen: random.Random) -> bytes:
    """Some bytes are others; perhaps the end is missing."""
    changed = bytearray(raw)
    for _ in range(chosen.choice((1, 1, 3, 50))):
        changed[chosen.randrange(len(changed))] = chosen.randrange(256)
    if chosen.random() < 0.2:
        del changed[chosen.randrange(len(changed)) :]
    return bytes(changed)


def _changed_texts(chosen: random.Random, texts: list[str]) -> list[str]:
    return [_changed(text.encode(), chosen).decode(errors="replace") for text in texts]


_WHOLE: dict[Path, bytes] = {}


def _kept(folder: Path) -> Iterator[tuple[Path, bytes]]:
    if not _WHOLE:
        _WHOLE.update({path: path.read_bytes() for path in sorted(folder.iterdir())})
    return iter(_WHOLE.items())


def _many_rows(folder: Path) -> None:
    table = pq.read_table(folder / EVENTS).slice(0, 1)
    part = pa.concat_tables([table] * 500_000).combine_chunks()
    with pq.ParquetWriter(folder / EVENTS, table.schema) as writer:
        for _ in range(5):
            writer.write_table(part)


def _long_texts(folder: Path) -> None:
    table = pq.read_table(folder / DOCUMENTS).slice(0, 1)
    long = table.set_column(1, table.schema.field("json"), pa.array(['{"a":"' + "x" * 2**20 + '"}']))
    pq.write_table(pa.concat_tables([long] * 1000), folder / DOCUMENTS, compression="zstd")


_READ = "import sys; from bayplan.answers.history.reading import History; print(History.open(sys.argv[1]).problems)"


@pytest.mark.parametrize("bomb", [_many_rows, _long_texts])
def test_a_small_file_that_would_be_large_is_refused_or_read_in_bounded_memory(bomb: Any, folder: Path) -> None:
    bomb(folder)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))

    result = subprocess.run(
        [sys.executable, "-c", _READ, folder], capture_output=True, text=True, timeout=60, preexec_fn=limit, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
