"""The pools that nodes reach, kept by row of the node table and followed as nodes, slices and allocations change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.cluster.columns import Int64, grown
from bayplan.cluster.node_table import NodeTable
from bayplan.devices.allocations import ClaimAllocations
from bayplan.devices.slices import DeviceSlices, PoolId, Slice
from bayplan.plugins.dynamic_resources.pools import Pool, gather_pools, pool_elsewhere, slices_for


@dataclass(eq=False, slots=True)
class Reach:
    """The pools of all nodes that have the same slices, at `rows`.

    `alike`: a search finds the same on all of them. `settled`: it finds the same again, as long as nothing is heard of
    the pools. `touching` are the pools of the slices, those included that are being replaced.
    """

    slices: tuple[str, ...]
    pools: list[Pool]
    touching: Collection[PoolId]
    alike: bool
    settled: bool
    rows: set[int] = field(default_factory=set)


class NodePools:
    """What the node of each row reaches, looked up when it is first asked for.

    `changed` is int64, one a row: the `version` at which anything changed last that a search on the node rests on: its
    pools, or what is taken of them.
    """

    def __init__(self, slices: DeviceSlices, allocations: ClaimAllocations) -> None:
        self.version = 0
        self.changed: Int64 = np.zeros(0, dtype=np.int64)
        self._slices = slices
        self._allocations = allocations
        self._table: NodeTable | None = None
        self._table_version = 0
        self._by_row: dict[int, tuple[Node | None, Reach]] = {}
        """With the node that it was looked up for."""
        self._by_slices: dict[tuple[str, ...], Reach] = {}
        self._by_pool: dict[PoolId, set[Reach]] = {}
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
            for row in tuple(self._by_row) if rows is None else rows.tolist():
                self._check_node(table, row)
        self._table_version = table.version
        if len(self.changed) < table.capacity:
            self.changed = grown(self.changed, table.capacity)

    def of(self, row: int) -> Reach:
        """What a row's node reaches. Raises ValueError for a node selector that cannot be read."""
        found = self._by_row.get(row)
        if found is not None:
            return found[1]
        assert self._table is not None
        node = self._table.nodes[row]
        slices = slices_for(self._slices, *_identity(node))
        key = tuple(each.name for each in slices)
        reach = self._by_slices.get(key)
        if reach is None:
            reach = self._by_slices[key] = self._new(key, slices)
        reach.rows.add(row)
        self._by_row[row] = node, reach
        return reach

    def _new(self, key: tuple[str, ...], slices: list[Slice]) -> Reach:
        pools, touching = gather_pools(self._slices, slices, self._elsewhere)
        alike = not any(each.per_device for each in slices)
        settled = not any(pool.counter_sets and self._slices.is_ambiguous(pool.id) for pool in pools)
        reach = Reach(key, pools, touching, alike, settled)
        for pool_id in touching:
            self._by_pool.setdefault(pool_id, set()).add(reach)
        return reach

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
        """Keep what a node reaches that only says other things about itself."""
        if row in self._by_row:
            known, reach = self._by_row[row]
            node = table.nodes[row]
            if node is not known:
                if _identity(node) == _identity(known):
                    self._by_row[row] = node, reach
                else:
                    self._forget_row(row)

    def _slice_changed(self, changed: Slice) -> None:
        """A slice came or went. What is left of counters is known by the name of a pool alone, so namesakes count."""
        for pool_id in {changed.pool, *self._slices.namesakes(changed.pool)}:
            for reach in tuple(self._by_pool.get(pool_id, ())):
                for row in tuple(reach.rows):
                    self._forget_row(row)
            self._stale_elsewhere.add(pool_id)
        if changed.counter_sets:
            return
        node_name = changed.place.node_name
        if not node_name:
            self._forget_all()
        elif self._table is not None and node_name in self._table.row_of:
            self._forget_row(self._table.row_of[node_name])

    def _touch(self, pool: PoolId) -> None:
        """Something was taken of a pool, or given back."""
        self.version += 1
        for reach in self._by_pool.get(pool, ()):
            self.changed[list(reach.rows)] = self.version

    def _forget_row(self, row: int) -> None:
        self.version += 1
        if row < len(self.changed):
            self.changed[row] = self.version
        if row not in self._by_row:
            return
        _, reach = self._by_row.pop(row)
        reach.rows.remove(row)
        if not reach.rows:
            del self._by_slices[reach.slices]
            for pool_id in reach.touching:
                self._by_pool[pool_id].remove(reach)

    def _forget_all(self) -> None:
        for kept in (self._by_row, self._by_slices, self._by_pool):
            kept.clear()
        self.version += 1
        self.changed[:] = self.version


def _identity(node: Node | None) -> tuple[str, dict[str, str]]:
    metadata = node.metadata if node is not None else None
    return (metadata.name or "", metadata.labels or {}) if metadata is not None else ("", {})
