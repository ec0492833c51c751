"""The pools that nodes reach, kept by row of the node table and followed as nodes, slices and allocations change."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.cluster.claim_allocations import ClaimAllocations
from bayplan.cluster.columns import Int64, grown
from bayplan.cluster.device_slices import DeviceSlices, PoolId, Slice
from bayplan.cluster.node_table import NodeTable
from bayplan.plugins.dynamic_resources.pools import Pool, gather_pools, pool_elsewhere


class NodePools:
    """For each row the pools that its node reaches, gathered when they are first asked for.

    `changed` is int64, one a row: the `version` at which anything changed last that a search on the node rests on: its
    pools, or what is taken of them. Where that cannot be told, the row is `unsettled`.
    """

    def __init__(self, slices: DeviceSlices, allocations: ClaimAllocations) -> None:
        self.version = 0
        self.changed: Int64 = np.zeros(0, dtype=np.int64)
        self.unsettled: set[int] = set()
        self._slices = slices
        self._allocations = allocations
        self._table: NodeTable | None = None
        self._table_version = 0
        self._nodes: dict[int, Node | None] = {}
        """By row: the node that its pools were gathered for."""
        self._pools: dict[int, list[Pool]] = {}
        self._reached: dict[int, Collection[PoolId]] = {}
        self._reached_by: dict[PoolId, set[int]] = {}
        self._elsewhere: dict[PoolId, Pool] = {}
        """Pools that nodes without devices of them have to know of: incomplete and invalid ones."""
        self._stale_elsewhere = set(slices.counting)
        slices.listen(self._slice_changed)
        allocations.listen(self._touch)

    def refresh(self, table: NodeTable) -> None:
        """Take over what changed. Raises ValueError for slices and allocations that cannot be read."""
        self._slices.refresh()
        self._allocations.taken()
        self._look_elsewhere()
        if table is not self._table:
            self._table = table
            self._forget_all()
        elif table.version != self._table_version:
            rows = table.changed_since(self._table_version)
            for row in tuple(self._nodes) if rows is None else rows.tolist():
                self._check_node(table, row)
        self._table_version = table.version
        if len(self.changed) < table.capacity:
            self.changed = grown(self.changed, table.capacity)

    def of(self, row: int) -> list[Pool]:
        """The pools of a row's node. Raises ValueError for a node selector that cannot be read."""
        pools = self._pools.get(row)
        if pools is None:
            assert self._table is not None
            node = self._table.nodes[row]
            name, labels = _identity(node)
            pools, reached = gather_pools(self._slices, name, labels, self._elsewhere)
            self._nodes[row], self._pools[row], self._reached[row] = node, pools, reached
            for pool_id in reached:
                self._reached_by.setdefault(pool_id, set()).add(row)
            if any(pool.counter_sets and self._slices.is_ambiguous(pool.id) for pool in pools):
                self.unsettled.add(row)
        return pools

    def _look_elsewhere(self) -> None:
        matters = False
        while self._stale_elsewhere:
            pool_id = self._stale_elsewhere.pop()
            pool = pool_elsewhere(self._slices, pool_id)
            matters |= self._elsewhere.pop(pool_id, None) is not None
            if pool is not None and (pool.incomplete or pool.invalid):
                self._elsewhere[pool_id] = pool
                matters = True
        if matters:
            self._forget_all()

    def _check_node(self, table: NodeTable, row: int) -> None:
        """Keep the pools of a node that only says other things about itself."""
        if row not in self._nodes:
            return
        known, node = self._nodes[row], table.nodes[row]
        if node is not known:
            if _identity(node) == _identity(known):
                self._nodes[row] = node
            else:
                self._forget(row)

    def _slice_changed(self, changed: Slice) -> None:
        """A slice came or went. What is left of counters is known by the name of a pool alone, so namesakes count."""
        for pool_id in {changed.pool, *self._slices.namesakes(changed.pool)}:
            for row in tuple(self._reached_by.get(pool_id, ())):
                self._forget(row)
            self._stale_elsewhere.add(pool_id)
        if changed.counter_sets:
            return
        node_name = changed.place.node_name
        if not node_name:
            self._forget_all()
        elif self._table is not None and node_name in self._table.row_of:
            self._forget(self._table.row_of[node_name])

    def _touch(self, pool: PoolId) -> None:
        """Something was taken of a pool, or given back."""
        rows = self._reached_by.get(pool)
        if rows:
            self.version += 1
            self.changed[list(rows)] = self.version

    def _forget(self, row: int) -> None:
        for pool_id in self._reached.pop(row, ()):
            self._reached_by[pool_id].remove(row)
        self._pools.pop(row, None)
        self._nodes.pop(row, None)
        self.unsettled.discard(row)
        self.version += 1
        if row < len(self.changed):
            self.changed[row] = self.version

    def _forget_all(self) -> None:
        for kept in (self._pools, self._reached, self._reached_by, self._nodes):
            kept.clear()
        self.unsettled.clear()
        self.version += 1
        self.changed[:] = self.version


def _identity(node: Node | None) -> tuple[str, dict[str, str]]:
    metadata = node.metadata if node is not None else None
    return (metadata.name or "", metadata.labels or {}) if metadata is not None else ("", {})
