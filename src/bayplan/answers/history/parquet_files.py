"""Parquet files of anyone, read in bounded memory: a batch at a time, with each distinct text once.

Nothing in a file is trusted: its sizes are checked before it is read (`bayplan.foundations.bounded_files`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayplan.answers.history.parquet_footers import most_values
from bayplan.foundations.bounded_files import MOST_ROWS

BATCH = 10_000
"""Rows that are in memory at a time."""
_MOST_BYTES = 512 * 2**20
"""Bytes of a file when it is read: ten times those of a segment that Bayplan writes."""


@contextmanager
def opened_parquet(pa: Any, path: Path) -> Iterator[Any]:
    """An open Parquet file whose texts are read as dictionaries, so that a text in a million rows is one."""
    found = pa.parquet.read_schema(path)
    texts = [field.name for field in found if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)]
    with pa.parquet.ParquetFile(path, read_dictionary=texts) as file:
        yield file


def too_large(file: Any, path: Path) -> str:
    """Why an open Parquet file is too large to read it; "" if it isn't. A row may have lists of any length."""
    head = file.metadata
    if head.num_rows > MOST_ROWS:
        return f"it has {head.num_rows:,} rows, and this Bayplan reads up to {MOST_ROWS:,}"
    values = most_values(path)
    if values is None:
        return "it is truncated or damaged: its footer can't be read"
    if values > MOST_ROWS:
        return f"a column has {values:,} values, and this Bayplan reads up to {MOST_ROWS:,}"
    size = sum(head.row_group(number).total_byte_size for number in range(head.num_row_groups))
    if size > _MOST_BYTES:
        return f"it has {size / 2**20:,.0f} MiB when it is read: more than {_MOST_BYTES / 2**20:,.0f}"
    return ""


def texts_of(column: Any, missing: str | None = "") -> list[Any]:
    """The texts of a column that is dictionary-encoded: equal ones are one object. `missing` stands for null."""
    words = [*column.dictionary.to_pylist(), missing]
    return [words[code] for code in column.indices.fill_null(-1).to_pylist()]


def rows_in(pa: Any, file: Any) -> Iterator[dict[str, Any]]:
    """The rows of an open Parquet file, with the values of each column by its name. Raises pyarrow's ArrowException."""
    names = file.schema_arrow.names
    for batch in file.iter_batches(BATCH):
        batch.validate(full=True)  # a text's place among the distinct ones may be any number
        columns = [
            texts_of(column, None) if pa.types.is_dictionary(column.type) else column.to_pylist()
            for column in batch.columns
        ]
        yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
