import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.history.small_histories import small_changes, write_small

from bayplan.answers.history.format import HistoryCounts, HistoryError, Row, journal_file
from bayplan.answers.history.journal import Journal, convert_journal, next_segment
from bayplan.answers.history.reading import History
from bayplan.answers.history.segments import journal_lines


def whole_journal() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), 1)
        journal.append(small_changes())
        journal.close()
        return journal_file(Path(folder), 1).read_bytes()


WHOLE = whole_journal()
ROWS = 10


def is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def rows_in(path: Path) -> list[Row]:
    return [line for line in journal_lines(path.open("rb")) if isinstance(line, Row)]


@settings(max_examples=40)
@given(length=st.integers(0, len(WHOLE)))
def test_a_journal_that_ends_anywhere_is_a_prefix(length: int) -> None:
    """Whatever a crash leaves, the complete lines count, and an incomplete one is said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = journal_file(folder, 1)
        path.write_bytes(WHOLE)
        all_rows = rows_in(path)
        assert len(all_rows) == ROWS
        path.write_bytes(WHOLE[:length])
        found = rows_in(path)
        assert found == all_rows[: len(found)]
        try:
            history = History.open(folder)
        except HistoryError as error:
            assert "it has no events" in str(error)  # noqa: PT017 - only a journal without a row has none
            assert not found
            return
        assert history.pods == sum(row.event == "pod_arrived" for row in found)
        cut = [problem for problem in history.problems if "is cut off" in problem]
        assert len(cut) == (0 if is_complete(WHOLE[:length].splitlines()[-1]) else 1)

        counts = HistoryCounts()
        convert_journal(folder, 1, counts)
        assert counts.events == len(found)
        assert [row.name for row in History.open(folder).rows()] == [row.name for row in found]


@settings(max_examples=30)
@given(begin=st.integers(0, len(WHOLE) - 1), noise=st.binary(min_size=1, max_size=60))
def test_damage_in_the_middle_costs_only_its_lines(begin: int, noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = journal_file(Path(name), 1)
        path.write_bytes(WHOLE[:begin] + noise + WHOLE[begin + len(noise) :])
        lost = WHOLE[begin : begin + len(noise)].count(b"\n") + 1
        assert len(rows_in(path)) >= ROWS - lost - noise.count(b"\n")


def test_parquet_replaces_the_journal(tmp_path: Path) -> None:
    journal_file(tmp_path, 3).write_bytes(WHOLE)
    convert_journal(tmp_path, 3, HistoryCounts())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["documents-000003.parquet", "events-000003.parquet"]
    assert next_segment(tmp_path) == 4
    write_small(tmp_path / "other")
    assert list(History.open(tmp_path).events()) == list(History.open(tmp_path / "other").events())


def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    journal_file(tmp_path, 1).write_bytes(WHOLE)
    with pytest.raises(FileExistsError):
        Journal(tmp_path, 1)
