"""Columns of a plugin's own, kept up to date row by row: what a plugin knows of each node, as arrays.

`NodeColumn` is a number for each node, which a function computes from the node and its pods::

    self._racks = NodeColumn(lambda node: int(node.labels.get("rack", 0)), np.int64, reads_pods=False)
    ...
    rack = self._racks.of(nodes)

`NodeColumns` are arrays of any shape, for plugins that rest on objects named as their nodes, such as custom resources.
The objects may come before their nodes, and rows are reused: it knows what to write where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bayplan.core.api.labels import LabelSelector, Requirement
from bayplan.core.cluster.columns import Bool, Int64, Rows, grown, locked
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_selectors import PodSelector
from bayplan.core.cluster.row_changes import RowChanges
from bayplan.core.cluster.selector_groups import SelectorGroup

N = TypeVar("N", np.float64, np.int64)
"""What a column consists of."""


class NodeColumn(Generic[N]):
    """A number for each node, which a function computes from the node and its pods; 0 where there is no node.

    The function is called for each node once, and then for those that changed, or whose pods came or went. With
    `reads_pods=False`, it is called only if the node itself changed. If it reads something else, call `again` when that
    changes. A new version of a pod is no change, unless its labels or its requests are others.
    """

    def __init__(self, compute: Callable[[NodeInfo], float], dtype: type[N], *, reads_pods: bool = True) -> None:
        self._compute = compute
        self._reads_pods = reads_pods
        self._changes = RowChanges()
        self._values: NDArray[N] = np.zeros(0, dtype=dtype)
        self._again: Callable[[NDArray[N]], Bool] | None = None

    def again(self, where: Callable[[NDArray[N]], Bool] | None = None) -> None:
        """Compute the numbers again, as they are needed: all, or those that `where` chooses of the present ones."""
        self._again = where or _all

    def of(self, nodes: Nodes) -> NDArray[N]:
        """Return the numbers of nodes: a read-only array of shape (len(nodes),). What-ifs count."""
        self._update(nodes.table)
        values = locked(self._values)[nodes.rows]
        if nodes.changes and self._reads_pods:
            values = values.copy()
            for position in nodes.changes:
                values[position] = self._compute(nodes.info(position))
            values.setflags(write=False)
        return values

    def at(self, node: NodeInfo) -> float:
        """Return the number of one node."""
        nodes = node.among
        self._update(nodes.table)
        if nodes.changes and self._reads_pods and node.position in nodes.changes:
            return self._compute(node)
        return self._values.item(nodes.row(node.position))

    def _update(self, table: NodeTable) -> None:
        rows: Iterable[int] = self._changes.take(table)
        if self._again is not None:
            chosen: list[int] = np.flatnonzero(self._again(self._values[: table.size])).tolist()
            rows, self._again = {*rows, *chosen}, None
        elif self._changes.only_pods and not self._reads_pods:
            return
        if not rows:
            return
        if len(self._values) < table.capacity:
            self._values = cast("NDArray[N]", grown(self._values, table.capacity))
        everything = Nodes(table)
        for row in rows:
            if row < len(self._values):
                live = row < table.size and table.live.item(row)
                self._values[row] = self._compute(NodeInfo(everything, row)) if live else 0


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
        """Fill the row of a node again before it is next used, and let results for the node be computed again.

        As when its pods change: a plugin that calls this must not say that it doesn't read pods.
        """
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


def pods_with(labels: Mapping[str, str], nodes: Nodes) -> Int64:
    """Return how many pods of each node have these labels, in any namespace. What-ifs count.

    The numbers are kept up to date for labels that are asked for again and again.
    """
    counts = _group(labels, nodes).counts.dense(nodes.table.size)[nodes.rows]
    if nodes.changes:
        selector = _selector(tuple(sorted(labels.items())))
        counts = counts + nodes.counted(lambda pods: [int(selector.matches(pod)) for pod in pods])
    counts.setflags(write=False)
    return counts


def pods_with_at(labels: Mapping[str, str], node: NodeInfo) -> int:
    """Return `pods_with` of one node."""
    if node.among.changes:
        return int(pods_with(labels, node.alone)[0])
    return _group(labels, node.among).counts.at(node.among.row(node.position))


def pods_with_version(labels: Mapping[str, str], nodes: Nodes) -> int:
    """Return a number that is another one whenever pods with these labels have come or gone. What-ifs don't count.

    As long as it is the same, and no node changed, `pods_with` is the same for all nodes.
    """
    return _group(labels, nodes).changed_at


def _group(labels: Mapping[str, str], nodes: Nodes) -> SelectorGroup:
    return nodes.table.group((_selector(tuple(sorted(labels.items()))),))


@lru_cache(maxsize=4096)
def _selector(labels: tuple[tuple[str, str], ...]) -> PodSelector:
    return PodSelector(None, LabelSelector(tuple([Requirement.of(key, "=", (value,)) for key, value in labels])))


def _all(values: NDArray[N]) -> Bool:
    return np.ones(len(values), dtype=np.bool_)
