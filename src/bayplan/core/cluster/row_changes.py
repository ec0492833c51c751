"""For data by row of the node table that is stored outside of it: which rows to update, and columns that appear and go.

A reader of the cluster keeps such data up to date with `RowChanges`, and stores numbers in `KeyedColumns`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from bayplan.core.cluster.columns import Int64, Rows
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nominations import Nominations

K = TypeVar("K", bound=Hashable)


class RowChanges:
    """The rows of a node table that changed since they were last asked for.

    `table`: the table whose rows are known already; None if none are. `nominations`: a row whose nominated pods changed
    counts as changed, too. `only_pods`: whether no node object changed: pods were added to the rows of the last answer,
    or removed from them, or the rows were marked by `NodeTable.note`.
    """

    def __init__(self, table: NodeTable | None = None, nominations: Nominations | None = None) -> None:
        self._table = table
        self._version = 0 if table is None else table.version
        self._size = 0 if table is None else table.size
        self._nominations = nominations
        self._nominated = 0 if nominations is None else nominations.version
        self.only_pods = False

    def take(self, table: NodeTable) -> Sequence[int]:
        """Return the rows that changed since the last call, including rows that the table no longer has.

        After the first call with a table, or if so much changed that the rows aren't known, these are all rows.
        """
        nominations = self._nominations
        renominated = nominations is not None and nominations.version != self._nominated
        if table is self._table and table.version == self._version and not renominated:
            return ()
        changed = table.changed_since(self._version) if table is self._table else None
        rows: Sequence[int]
        if changed is None:
            rows = range(max(table.size, self._size))
        else:
            rows = [*changed, *range(table.size, self._size)]
            if nominations is not None and renominated:
                rows = self._with_nominated(rows, table, nominations)
        self.only_pods = changed is not None and table.nodes_version <= self._version
        self._table, self._version, self._size = table, table.version, table.size
        self._nominated = 0 if nominations is None else nominations.version
        return rows

    def _with_nominated(self, rows: Sequence[int], table: NodeTable, nominations: Nominations) -> Sequence[int]:
        names = nominations.changed_since(self._nominated)
        if names is None:
            return range(max(table.size, self._size))
        return sorted({*rows, *(row for name in names if (row := table.row_of.get(name)) is not None)})


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
