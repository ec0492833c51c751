"""The folder of a sweep's results, on any filesystem that pyarrow opens: a local folder, s3://, gs://.

runs/KEY.parquet      a run each, written by the process that simulated it; complete or not there
runs.parquet          all runs of the sweep as one table
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.history.format import import_pyarrow
from bayplan.answers.sweeps.runs import SweepRow
from bayplan.foundations.lazy import library


class SweepResults:
    """The results in a folder. `uri`: a path, or a URI. Raises BacktestError or HistoryError (without pyarrow)."""

    def __init__(self, uri: str) -> None:
        import_pyarrow()
        fs = library("pyarrow.fs")
        self.uri = uri
        try:
            if "://" in uri:
                self._files, self._root = fs.FileSystem.from_uri(uri)
            else:
                self._files, self._root = fs.LocalFileSystem(), str(Path(uri).absolute())
            self._files.create_dir(f"{self._root}/runs", recursive=True)
        except (OSError, ValueError) as error:
            raise BacktestError(f"cannot write {uri}: {error}") from None

    def known(self) -> set[str]:
        """The keys of the runs that are there."""
        found = self._files.get_file_info(library("pyarrow.fs").FileSelector(f"{self._root}/runs"))
        return {each.base_name.removesuffix(".parquet") for each in found if each.base_name.endswith(".parquet")}

    def read(self, key: str) -> SweepRow | None:
        """A run; None if it can't be read, so that it is simulated again."""
        pa = import_pyarrow()
        try:
            rows: list[SweepRow] = pa.parquet.read_table(self._run(key), filesystem=self._files).to_pylist()
        except (OSError, pa.ArrowInvalid):
            return None
        return rows[0] if len(rows) == 1 else None

    def write(self, row: SweepRow) -> None:
        """Write a run. Twice the same run is the same file."""
        path = self._run(row["key"])
        self._write(_table([row]), path)

    def write_all(self, rows: Iterable[SweepRow]) -> None:
        """Write the table of all runs."""
        self._write(_table(list(rows)), f"{self._root}/runs.parquet")

    def _run(self, key: str) -> str:
        return f"{self._root}/runs/{key}.parquet"

    def _write(self, table: Any, path: str) -> None:
        try:
            import_pyarrow().parquet.write_table(table, f"{path}.partial", filesystem=self._files)
            self._files.move(f"{path}.partial", path)
        except OSError as error:
            raise BacktestError(f"cannot write {path}: {error}") from None


def _table(rows: list[SweepRow]) -> Any:
    """The rows as a table: a column for each name that occurs, with a type that doesn't depend on the values."""
    pa = import_pyarrow()
    names = list(dict.fromkeys(name for row in rows for name in row))
    types = {"now": pa.bool_(), "seed": pa.int64(), "evictions": pa.int64(), "never_placed": pa.int64()}
    types |= {"nodes_most": pa.int64(), "pods_placed": pa.int64()}
    texts = {"key", "choice", "history", "config", "plugins", "node_pools", "autoscaler", "emulated_version"}

    def kind(name: str) -> Any:
        if name in texts or name.startswith("set."):
            return pa.string()
        return types.get(name, pa.float64())

    schema = pa.schema([(name, kind(name)) for name in names])
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows], schema=schema)
