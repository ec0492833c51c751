"""For data by row of the node table that is stored outside of it: which rows to update, and columns that appear and go.

A reader of the cluster keeps such data up to date with `RowChanges`, and stores numbers in `KeyedColumns`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.node_table import NodeTable

K = TypeVar("K", bound=Hashable)


class RowChanges:
    """The rows of a node table that changed since they were last asked for."""

    def __init__(self) -> None:
        self._table: NodeTable | None = None
        self._version = 0
        self._size = 0

    def take(self, table: NodeTable) -> Sequence[int]:
        """Return the rows that changed since the last call, including rows that the table no longer has.

        After the first call with a table, these are all rows.
        """
        if table is self._table and table.version == self._version:
            return ()
        changed = table.changed_since(self._version) if table is self._table else None
        gone = range(table.size, self._size)
        rows = range(max(table.size, self._size)) if changed is None else (*changed.tolist(), *gone)
        self._table, self._version, self._size = table, table.version, table.size
        return rows


class KeyedColumns(Generic[K]):
    """One column of integers per key. A column is stored while one of its rows has a value other than `absent`."""

    def __init__(self, absent: int = 0) -> None:
        self._absent = absent
        self._columns: dict[K, Int64] = {}
        self._in_use: dict[K, int] = {}
        """By key: the number of rows with a value other than `absent`."""

    def __contains__(self, key: K) -> bool:
        return key in self._columns

    def set(self, key: K, row: int, value: int, capacity: int) -> None:
        """Set the value of a row. `capacity`: of the node table."""
        column = self._columns.get(key)
        if column is None:
            if value == self._absent:
                return
            column = self._columns[key] = np.full(capacity, self._absent, dtype=np.int64)
            self._in_use[key] = 0
        elif len(column) <= row:
            longer = np.full(capacity, self._absent, dtype=np.int64)
            longer[: len(column)] = column
            column = self._columns[key] = longer
        self._in_use[key] += (value != self._absent) - (column.item(row) != self._absent)
        column[row] = value
        if not self._in_use[key]:
            del self._columns[key], self._in_use[key]

    def get(self, key: K, rows: slice | Rows, size: int) -> Int64:
        """Return the values of some rows: int64. `size`: of the node table. Don't modify the array."""
        column = self._columns.get(key)
        if column is None:
            return np.full(size, self._absent, dtype=np.int64)[rows]
        if len(column) < size:
            longer = np.full(size, self._absent, dtype=np.int64)
            longer[: len(column)] = column
            column = longer
        return column[rows]
