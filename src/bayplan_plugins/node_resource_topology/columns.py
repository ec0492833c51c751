"""The zones of all nodes as arrays, for the filter and the scores.

The last axis is the nodes, the axis before it the zones of a node in the order of their numbers. Amounts are int64; a
zone that doesn't list a resource has ABSENT of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayplan.plugin import Nodes, PodInfo
from bayplan_plugins.node_resource_topology.topologies import Amounts, Topology

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

ABSENT = -1
NO_COST = 255
"""The distance to a zone that is not known: the largest one of the ACPI tables."""


class KnownZones(Protocol):
    """What the columns show: a cache."""

    @property
    def reserved(self) -> Mapping[str, Mapping[str, Amounts]]:
        """By node and UID: what placed pods took that the topology doesn't count."""

    @property
    def taken(self) -> Mapping[str, Amounts]:
        """By node and resource: the sum of that."""

    def topology(self, node: str) -> Topology | None:
        """Return the topology of a node that is in use."""

    def fresh(self, node: str) -> bool:
        """Return whether pods may come to a node."""

    def rows(self, nodes: Nodes) -> Any:
        """Bring the columns up to date, and return the index of some nodes."""


class ZoneColumns:
    """What a cache knows, by row of the node table. `NodeColumns` keeps it up to date."""

    def __init__(self, cache: KnownZones) -> None:
        self._cache = cache
        self._shown: dict[int, Topology] = {}
        """By row: the topology that the arrays have."""
        self._depth = 1
        """How many zones the arrays have room for."""
        self._available: dict[str, Int64] = {}
        self._pending: dict[str, Int64] = {}
        self._pending_rows: set[int] = set()
        self._amounts: dict[str, Callable[[Sequence[PodInfo]], Sequence[int]]] = {}
        self.known: Bool = np.zeros(0, dtype=np.bool_)
        """Whether the node has a topology that can be used."""
        self.single: Bool = self.known
        """Whether the kubelet refuses pods that don't fit into one zone."""
        self.pod_scope: Bool = self.known
        """Whether it aligns the pod as a whole, and not each container."""
        self.fresh: Bool = self.known
        """Whether pods may come to the node."""
        self.zones: Int64 = np.zeros(0, dtype=np.int64)
        """How many zones the node has."""
        self.most: Int64 = self.zones
        """The most zones that the Topology Manager of the node handles."""
        self._costs: Int64 = np.zeros((1, 1, 0), dtype=np.int64)

    def resize(self, capacity: int) -> None:
        """Make all arrays long enough."""
        more = capacity - len(self.known)
        for name in ("known", "single", "pod_scope", "zones", "most"):
            setattr(self, name, _longer(getattr(self, name), more, 0))
        self.fresh = _longer(self.fresh, more, fill=True)
        self._costs = _longer(self._costs, more, NO_COST)
        self._available = {name: _longer(column, more, ABSENT) for name, column in self._available.items()}
        self._pending = {name: _longer(column, more, 0) for name, column in self._pending.items()}

    def fill(self, row: int, name: str) -> None:
        """Write what is known of a node."""
        topology = self._cache.topology(name) if name else None
        if self._shown.get(row) is not topology:
            self._show(row, topology)
        self.fresh[row] = self._cache.fresh(name)
        taken = self._cache.taken.get(name)
        if not taken and row not in self._pending_rows:
            return
        for column in self._pending.values():
            column[row] = 0
        self._pending_rows.discard(row)
        for resource, amount in (taken or {}).items():
            self._pending_rows.add(row)
            if resource not in self._pending:
                self._pending[resource] = np.zeros(len(self.known), dtype=np.int64)
            self._pending[resource][row] = amount

    def view(self, nodes: Nodes) -> ZonesView:
        """Return the columns of some nodes."""
        return ZonesView(self, nodes, self._cache.rows(nodes))

    def costs(self, zones: int, at: Any) -> Int64:
        """Return the distances between the first zones of some nodes: shape (zones, zones, nodes)."""
        return self._costs[:zones, :zones, at]

    def available(self, resource: str, nodes: Nodes, at: Any) -> Int64 | None:
        """Return what is left of a resource in each zone: a new array or a view; None if no zone lists it."""
        column = self._available.get(resource)
        if column is None:
            return None
        available = column[:, at]
        pending = self._pending.get(resource)
        if pending is None or not self._pending_rows:
            return available
        taken = pending[at]
        if nodes.changes:
            taken = taken + nodes.counted(self._amounts_of(resource))
        return np.where(available < 0, ABSENT, np.maximum(available - taken, 0))

    def _amounts_of(self, resource: str) -> Callable[[Sequence[PodInfo]], Sequence[int]]:
        """Return a function for what pods took of a resource that no topology counts: always the same one."""
        if resource not in self._amounts:
            reserved = self._cache.reserved

            def amounts(pods: Sequence[PodInfo]) -> Sequence[int]:
                return [reserved.get(pod.node_name, {}).get(pod.uid, {}).get(resource, 0) for pod in pods]

            self._amounts[resource] = amounts
        return self._amounts[resource]

    def _show(self, row: int, topology: Topology | None) -> None:
        for column in self._available.values():
            column[:, row] = ABSENT
        self.known[row] = topology is not None
        if topology is None:
            del self._shown[row]
            self.single[row] = False
            return
        self._shown[row] = topology
        self.single[row], self.pod_scope[row] = topology.single, topology.pod_scope
        self.zones[row], self.most[row] = len(topology.zones), topology.max_zones
        if len(topology.zones) > self._depth:
            self._deepen(len(topology.zones))
        for index, zone in enumerate(topology.zones):
            for resource, amount in zone.available.items():
                if resource not in self._available:
                    self._available[resource] = np.full((self._depth, len(self.known)), ABSENT, dtype=np.int64)
                self._available[resource][index, row] = amount
            costs = [zone.costs.get(other.number, NO_COST) for other in topology.zones]
            self._costs[index, : len(costs), row] = costs

    def _deepen(self, depth: int) -> None:
        before, self._depth = self._depth, depth
        for resource, column in self._available.items():
            deeper = np.full((depth, column.shape[1]), ABSENT, dtype=np.int64)
            deeper[:before] = column
            self._available[resource] = deeper
        costs = np.full((depth, depth, len(self.known)), NO_COST, dtype=np.int64)
        costs[:before, :before] = self._costs
        self._costs = costs

    @property
    def depth(self) -> int:
        """The number of zones of the arrays."""
        return self._depth


class ZonesView:
    """The columns of some nodes. All arrays have the nodes as their last axis, and must not be changed."""

    __slots__ = ("_at", "_columns", "_found", "fresh", "known", "nodes", "pod_scope", "single")

    def __init__(self, columns: ZoneColumns, nodes: Nodes, at: Any) -> None:
        self._columns = columns
        self._at = at
        self._found: dict[str, Int64 | None] = {}
        self.nodes = nodes
        self.known = columns.known[at]
        self.single = columns.single[at]
        self.pod_scope = columns.pod_scope[at]
        self.fresh = columns.fresh[at]

    @property
    def depth(self) -> int:
        """The number of zones of the arrays; nodes may have fewer."""
        return self._columns.depth

    @property
    def zones(self) -> Int64:
        """How many zones each node has."""
        zones: Int64 = self._columns.zones[self._at]
        return zones

    @property
    def most(self) -> Int64:
        """The most zones that the Topology Manager of each node handles."""
        most: Int64 = self._columns.most[self._at]
        return most

    def available(self, resource: str) -> Int64 | None:
        """Return what each zone has left of a resource: shape (depth, nodes); None if no zone lists it."""
        if resource not in self._found:
            self._found[resource] = self._columns.available(resource, self.nodes, self._at)
        return self._found[resource]

    def costs(self, zones: int) -> Int64:
        """Return the distances between the first zones: shape (zones, zones, nodes)."""
        return self._columns.costs(zones, self._at)


def _longer(column: NDArray[Any], more: int, fill: Any) -> NDArray[Any]:
    """Return a copy with a longer last axis."""
    return np.concatenate([column, np.full((*column.shape[:-1], more), fill, dtype=column.dtype)], axis=-1)
