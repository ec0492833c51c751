"""NodeColumns: arrays of a plugin's own with one value per node, kept up to date row by row.

A plugin that rests on objects named as their nodes, such as custom resources, keeps what they say in arrays, and looks
at all nodes at once. The objects may come before their nodes, and rows are reused: `NodeColumns` knows what to write
where.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.row_changes import RowChanges


class NodeColumns:
    """Keeps a plugin's arrays up to date. Their last axis is the rows of `nodes`, those of the plugin's handle.

    `fill(row, name)`: writes one row; `name` is that of its node, "" for a row that has none. It is called for rows
    whose node or pods changed, too. `resize(capacity)`: makes the arrays long enough.
    """

    def __init__(self, nodes: Nodes, fill: Callable[[int, str], None], resize: Callable[[int], None]) -> None:
        self._table = nodes.table
        self._fill = fill
        self._resize = resize
        self._capacity = 0
        self._changes = RowChanges()
        self._stale: set[str] = set()

    def changed(self, name: str) -> None:
        """Fill the row of a node again before it is next used, and let all results for the node be computed again."""
        self._stale.add(name)
        self._table.note(name)

    def stale(self, name: str) -> None:
        """Fill the row of a node again. For changes that come with another one of the node, or of the pods on it."""
        self._stale.add(name)

    def rows(self, nodes: Nodes) -> slice | Rows:
        """Bring the arrays up to date. Returns the index of some nodes in their last axis.

        Call it before you look at the arrays: it may replace them.
        """
        table = self._table
        if self._capacity < table.capacity:
            self._resize(table.capacity)
            self._capacity = table.capacity
        changed = self._changes.take(table)
        if changed or self._stale:
            rows = set(changed)
            rows.update([row for name in self._stale if (row := table.row_of.get(name)) is not None])
            self._stale.clear()
            for row in rows:
                self._fill(row, table.name_of(row))
        return nodes.rows
