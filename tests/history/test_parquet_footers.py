"""The footer of a Parquet file says how many values it has; a damaged one is one line, and never ends the process."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import cases

from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.parquet_footers import most_values
from bayplan.answers.history.sources.trace import import_trace

FLAT = pa.table({"arrival_seconds": [0.0, 1.0, 2.0], "requests": ["cpu=1", None, "cpu=2"], "gang": [True, None, False]})
MAPS = pa.array([[("cpu", "1"), ("memory", "1Gi")], [], [("cpu", "2")] * 9], pa.map_(pa.string(), pa.string()))
TABLES = {
    "no rows": (FLAT.slice(0, 0), {}),
    "flat columns": (FLAT, {}),
    "row groups": (FLAT, {"row_group_size": 2}),
    "lists": (pa.table({"requests": MAPS}), {}),
    "metadata, without statistics": (FLAT.replace_schema_metadata({"a": "b" * 500}), {"write_statistics": False}),
    "many columns": (pa.table({f"c{number}": [number, None] for number in range(20)}), {}),
    "an order": (FLAT, {"sorting_columns": [pq.SortingColumn(0)]}),
    "an index of pages": (FLAT, {"write_page_index": True}),
}


def as_pyarrow_says(path: Path) -> int:
    head = pq.read_metadata(path)
    groups = [head.row_group(number) for number in range(head.num_row_groups)]
    return max((group.column(number).num_values for group in groups for number in range(group.num_columns)), default=0)


@cases("table, options", TABLES)
def test_number_of_values_is_that_of_pyarrow(tmp_path, table, options):
    pq.write_table(table, tmp_path / "a.parquet", **options)

    assert most_values(tmp_path / "a.parquet") == as_pyarrow_says(tmp_path / "a.parquet")


_READ = """
import sys
from pathlib import Path
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.sources.trace import import_trace
folder = Path(sys.argv[1])
path = folder / "a.parquet"
whole = path.read_bytes()
begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for position in range(begin, len(whole)):
    bit = 0x80 if position % 2 else 1 << position % 3
    path.write_bytes(whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
    try:
        import_trace([path], folder / f"h{position}")
    except HistoryError as error:
        assert "\\n" not in str(error)
"""


def test_any_changed_byte_of_a_footer_is_one_line_at_most(tmp_path):
    table = pa.table({"arrival_seconds": [0.0], "requests": ["cpu=1"]})
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "a.parquet", store_schema=False)

    ran = subprocess.run([sys.executable, "-c", _READ, tmp_path], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


def test_text_whose_place_is_beyond_the_distinct_ones_is_one_line(tmp_path):
    requests = pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pa.array(["cpu=1"]), safe=False)
    pq.write_table(pa.table({"arrival_seconds": [0.0], "requests": requests}), tmp_path / "a.parquet")

    with pytest.raises(HistoryError, match=r"a\.parquet is truncated or damaged: .*indices"):
        import_trace([tmp_path / "a.parquet"], tmp_path / "h")


ENDLESS = {
    "a list of so many doubles": b"\x19\xf7" + b"\xff" * 8 + b"\x7f",
    "a number without an end": b"\x15" + b"\x80" * 1_000_000,
}


@cases("footer", ENDLESS)
def test_footer_that_promises_more_than_it_has_is_damaged(tmp_path, footer):
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")

    assert most_values(tmp_path / "a.parquet") is None
