"""The devices that a device class selects, counted per node as slices, allocations and nodes change.

Where a node lacks an extended resource that a class stands for, scores count devices in its place. A selector that
can't be evaluated counts no devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bayplan.core.cluster.columns import Bool, Int64, grown
from bayplan.core.cluster.node_selection import match_selector
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.row_changes import RowChanges
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selectors
from bayplan.core.devices.slices import DeviceId, DeviceSlices, PoolId, Slice, SliceDevice, SliceNodes

_EVERYWHERE = SliceNodes(None, True, None)


@dataclass(eq=False, slots=True)
class _Group:
    """The selected devices of a slice in one place. `allocated` of them are allocated; None if that may have changed.

    `failed`: a selector could not be evaluated, so no devices count there.
    """

    place: SliceNodes
    devices: tuple[DeviceId, ...]
    failed: bool = False
    allocated: int | None = None


class ClassDevices:
    """Counts the devices that the expressions of a class select.

    Devices for a single node are counted in columns, by row of the node table, and those for several nodes in groups.
    The caller reports changed slices and pools, and calls `refresh` before it reads.
    """

    def __init__(
        self, expressions: tuple[str, ...], slices: DeviceSlices, allocations: ClaimAllocations, selectors: Selectors
    ) -> None:
        self._expressions = expressions
        self._slices = slices
        self._allocations = allocations
        self._selectors = selectors
        self._groups: dict[str, list[_Group]] = {}
        """By name of the slice."""
        self._of_node: dict[str, dict[_Group, None]] = {}
        self._of_several: dict[_Group, None] = {}
        self._stale_slices = {each.name: each for pool in slices.by_pool.values() for each in pool.values()}
        self._stale_pools: set[PoolId] = set()
        self._stale_nodes: set[str] = set()
        self._changes = RowChanges()
        self._total: Int64 = np.zeros(0, dtype=np.int64)
        self._allocated: Int64 = np.zeros(0, dtype=np.int64)
        self._failed: Bool = np.zeros(0, dtype=np.bool_)

    def slice_changed(self, changed: Slice) -> None:
        """Handle a slice that was added or removed."""
        self._stale_slices[changed.name] = changed

    def pool_changed(self, pool: PoolId) -> None:
        """Handle a pool in which a device was taken or released."""
        self._stale_pools.add(pool)

    def refresh(self, table: NodeTable | None = None) -> None:
        """Apply the reported changes; with a table, also to the columns."""
        while self._stale_slices:
            self._replace(self._stale_slices.popitem()[1])
        while self._stale_pools:
            for each in self._slices.by_pool.get(self._stale_pools.pop(), {}).values():
                for group in self._groups[each.name]:
                    group.allocated = None
                    self._stale_nodes.add(group.place.node_name)  # "" for several nodes, which no row has
        if table is not None:
            self._refresh_columns(table)

    def of_all(self, nodes: Nodes) -> tuple[Int64, Int64]:
        """Return the number of devices of each node, and how many are allocated: int64, shape (len(nodes),)."""
        total, allocated = self._total[nodes.rows].copy(), self._allocated[nodes.rows].copy()
        failed = self._failed[nodes.rows].copy()
        for group in self._of_several:
            where = _nodes_of(group.place, nodes)
            total[where] += len(group.devices)
            allocated[where] += self._allocated_of(group)
            failed[where] |= group.failed
        total[failed] = allocated[failed] = 0
        return total, allocated

    def of_one(self, node: NodeInfo) -> tuple[int, int]:
        """Return the number of devices of one node, and how many are allocated."""
        several = (group for group in self._of_several if group.place.includes(node.name, node.labels))
        return self._count([*self._of_node.get(node.name, ()), *several])

    def _count(self, groups: Iterable[_Group]) -> tuple[int, int]:
        total = allocated = 0
        for group in groups:
            if group.failed:
                return 0, 0
            total += len(group.devices)
            allocated += self._allocated_of(group)
        return total, allocated

    def _allocated_of(self, group: _Group) -> int:
        if group.allocated is None:
            group.allocated = sum(map(self._allocations.taken().includes, group.devices))
        return group.allocated

    def _refresh_columns(self, table: NodeTable) -> None:
        if len(self._total) < table.capacity:
            self._total, self._allocated, self._failed = (
                grown(column, table.capacity) for column in (self._total, self._allocated, self._failed)
            )
        rows = set(self._changes.take(table))
        rows.update(row for name in self._stale_nodes if (row := table.row_of.get(name)) is not None)
        self._stale_nodes.clear()
        for row in rows:
            groups = self._of_node.get(table.name_of(row), {}) if row < table.size else {}
            self._total[row], self._allocated[row] = self._count(groups)
            self._failed[row] = any(group.failed for group in groups)

    def _replace(self, changed: Slice) -> None:
        """Evaluate the current slice with the name of a changed one, if there is one."""
        for group in self._groups.pop(changed.name, ()):
            self._remove(group)
        current = self._slices.by_pool.get(changed.pool, {}).get(changed.name)
        if current is not None:
            groups = self._groups[changed.name] = list(self._evaluate(current))
            for group in groups:
                self._add(group)

    def _add(self, group: _Group) -> None:
        node_name = group.place.node_name
        if node_name:
            self._stale_nodes.add(node_name)
            self._of_node.setdefault(node_name, {})[group] = None
        else:
            self._of_several[group] = None

    def _remove(self, group: _Group) -> None:
        node_name = group.place.node_name
        if node_name:
            self._stale_nodes.add(node_name)
            del self._of_node[node_name][group]
            if not self._of_node[node_name]:
                del self._of_node[node_name]
        else:
            del self._of_several[group]

    def _evaluate(self, each: Slice) -> Iterator[_Group]:
        places = [(each.place, each.devices)]
        if each.per_device:
            places = [(device.place, [device]) for device in each.devices]
        for place, devices in places:
            if place.specified:
                yield self._group(place, devices)

    def _group(self, place: SliceNodes, devices: Iterable[SliceDevice]) -> _Group:
        if place.selector is not None and place.selector.errors:
            return _Group(_EVERYWHERE, (), failed=True)
        try:
            return _Group(place, tuple(device.id for device in devices if self._selects(device)))
        except (CompileError, RuntimeFailure):
            return _Group(place, (), failed=True)

    def _selects(self, device: SliceDevice) -> bool:
        facts = DeviceFacts.of(device.id.driver, False, device.spec.attributes, device.spec.capacity)
        return all(self._selectors.matches(each, facts) for each in self._expressions)


def _nodes_of(place: SliceNodes, nodes: Nodes) -> Bool | slice:
    """An index of the nodes that are in a place for several nodes."""
    return slice(None) if place.selector is None else match_selector(place.selector, nodes)
