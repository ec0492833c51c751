"""The pools that each node can use, by row of the node table, updated as nodes, slices and allocations change.

Nodes with the same slices share one `Reach`, so that a search on one of them may count for all. `changed` is an int64
per row, with the version of the last change that affects a search there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.core.cluster.columns import Int64, grown
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.row_changes import RowChanges
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.slices import DeviceSlices, PoolId, Slice
from bayplan.core.plugins.dynamic_resources.candidates import MOST_KINDS, Candidates, Criteria, Path, Supply
from bayplan.core.plugins.dynamic_resources.pools import Pool, Views, pool_without_devices, slices_for
from bayplan.core.plugins.dynamic_resources.rules import RULES_OF_1_36, SearchRules
from bayplan.foundations.latest import LruDict


@dataclass(eq=False, slots=True)
class Reach:
    """The pools of all nodes that have the same slices. `rows` are these nodes.

    `uniform` means that a search has the same result on all of them, and `repeatable` that it has the same result again
    while the pools don't change. `pool_ids` are the pools of the slices, including those that are being replaced.
    """

    slices: tuple[str, ...]
    pools: list[Pool]
    pool_ids: Collection[PoolId]
    uniform: bool
    repeatable: bool
    rows: set[int] = field(default_factory=set)
    _candidates: LruDict[Criteria, Candidates] = field(default_factory=lambda: LruDict(MOST_KINDS))
    _index_of: dict[PoolId, int] = field(init=False)

    def __post_init__(self) -> None:
        self._index_of = {pool.id: index for index, pool in enumerate(self.pools)}

    @property
    def providing(self) -> list[PoolId]:
        """The pools that have devices for the nodes."""
        return [pool.id for pool in self.pools if pool.devices]

    def candidates(self, criteria: Criteria, supply: Supply) -> Candidates:
        """The current candidates for a demand."""
        found = self._candidates.use(criteria)
        if found is None:
            found = self._candidates[criteria] = Candidates(self.pools, criteria)
        found.refresh(supply)
        return found

    def follows(self, path: Path, supply: Supply) -> bool:
        """Whether a search on these pools finds what a search that took this path has found."""
        return (self.uniform and self.repeatable) and all(
            self.candidates(criteria, supply).first(number) == pools for criteria, (number, pools) in path.items()
        )

    def changed(self, pool: PoolId) -> None:
        """Handle a change of the allocations of a pool."""
        index = self._index_of.get(pool)
        if index is not None:
            for each in self._candidates.values():
                each.changed(index)


class NodePools:
    """The pools of each row's node, computed at first use.

    `changed` (int64, one per row) is the `version` of the last change that affects a search on the node: a change of
    its pools or of their allocations.
    """

    def __init__(self, slices: DeviceSlices, allocations: ClaimAllocations, rules: SearchRules = RULES_OF_1_36) -> None:
        self.version = 0
        self.changed: Int64 = np.zeros(0, dtype=np.int64)
        self._slices = slices
        self._views = Views(slices, rules)
        self._rules = rules
        self._allocations = allocations
        self._table: NodeTable | None = None
        self._changes = RowChanges()
        self._by_row: dict[int, tuple[Node | None, Reach]] = {}
        """With the node object that it was computed from."""
        self._by_slices: dict[tuple[str, ...], Reach] = {}
        self._by_pool: dict[PoolId, set[Reach]] = {}
        """By the pools of their slices."""
        self._providing: dict[PoolId, set[Reach]] = {}
        """By the pools that they have devices of."""
        self._without_devices: dict[PoolId, Pool] = {}
        """Incomplete and invalid pools that also affect nodes without devices of them."""
        self._stale_without_devices = set[PoolId]() if rules.places_counters else set(slices.counting)
        slices.listen(self._slice_changed)
        allocations.listen(self._allocation_changed)

    def refresh(self, table: NodeTable) -> None:
        """Apply pending changes. Raises ValueError for invalid slices and allocations."""
        self._slices.refresh()
        self._allocations.taken()
        self._refresh_without_devices()
        rows = self._changes.take(table)
        if table is not self._table:
            self._table = table
            self._forget_all()
        for row in rows:
            self._check_node(table, row)
        if len(self.changed) < table.capacity:
            self.changed = grown(self.changed, table.capacity)

    def of(self, row: int) -> Reach:
        """The pools of a row's node. Raises ValueError for an invalid node selector."""
        found = self._by_row.get(row)
        if found is not None:
            return found[1]
        assert self._table is not None
        node = self._table.nodes[row]
        slices = slices_for(self._slices, *_identity(node), self._rules)
        key = tuple(each.name for each in slices)
        reach = self._by_slices.get(key)
        if reach is None:
            reach = self._by_slices[key] = self._new(key, slices)
        reach.rows.add(row)
        self._by_row[row] = node, reach
        return reach

    def _new(self, key: tuple[str, ...], slices: list[Slice]) -> Reach:
        pools, pool_ids = self._views.gather(slices, self._without_devices)
        uniform = not any(each.per_device for each in slices)
        repeatable = not any(pool.counter_sets and self._slices.is_ambiguous(pool.id) for pool in pools)
        reach = Reach(key, pools, pool_ids, uniform, repeatable)
        for pool_id in pool_ids:
            self._by_pool.setdefault(pool_id, set()).add(reach)
        for pool_id in reach.providing:
            self._providing.setdefault(pool_id, set()).add(reach)
        return reach

    def _refresh_without_devices(self) -> None:
        changed = False
        while self._stale_without_devices:
            pool_id = self._stale_without_devices.pop()
            pool = pool_without_devices(self._slices, pool_id)
            changed |= self._without_devices.pop(pool_id, None) is not None
            if pool is not None and (pool.incomplete or pool.invalid):
                self._without_devices[pool_id] = pool
                changed = True
        if changed:
            self._forget_all()

    def _check_node(self, table: NodeTable, row: int) -> None:
        """Keep the pools of a node unless it was removed, or its name or its labels changed."""
        if row in self._by_row:
            known, reach = self._by_row[row]
            node = table.nodes[row] if row < table.size else None
            if node is not known:
                if _identity(node) == _identity(known):
                    self._by_row[row] = node, reach
                else:
                    self._forget_row(row)

    def _slice_changed(self, changed: Slice) -> None:
        """Handle an added or removed slice. Pools with the same name are affected, because they share counters."""
        for pool_id in {changed.pool, *self._slices.namesakes(changed.pool)}:
            self._views.forget(pool_id)
            for reach in tuple(self._by_pool.get(pool_id, ())):
                for row in tuple(reach.rows):
                    self._forget_row(row)
            if not self._rules.places_counters:
                self._stale_without_devices.add(pool_id)
        if changed.counter_sets and not self._rules.places_counters:
            return
        node_name = changed.place.node_name
        if not node_name:
            self._forget_all()
        elif self._table is not None and node_name in self._table.row_of:
            self._forget_row(self._table.row_of[node_name])

    def _allocation_changed(self, pool: PoolId) -> None:
        """Handle an added or removed allocation of a pool's device."""
        self.version += 1
        self._views.changed(pool)
        for reach in self._providing.get(pool, ()):
            self.changed[list(reach.rows)] = self.version
            reach.changed(pool)

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
            for pool_id in reach.pool_ids:
                self._by_pool[pool_id].remove(reach)
            for pool_id in reach.providing:
                self._providing[pool_id].remove(reach)

    def _forget_all(self) -> None:
        for cached in (self._by_row, self._by_slices, self._by_pool, self._providing):
            cached.clear()
        self.version += 1
        self.changed[:] = self.version


def _identity(node: Node | None) -> tuple[str, dict[str, str]]:
    metadata = node.metadata if node is not None else None
    return (metadata.name or "", metadata.labels or {}) if metadata is not None else ("", {})
