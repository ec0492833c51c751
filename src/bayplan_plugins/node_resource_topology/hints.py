"""Hints: which pods that were rejected for their zones may fit after an event."""

from __future__ import annotations

from typing import Any

from bayplan.plugin import Hint, PodInfo
from bayplan_plugins.node_resource_topology.cache import OVER_RESERVE, PASSTHROUGH, TopologyCache
from bayplan_plugins.node_resource_topology.demand import ZoneDemand, demand_of, lacking
from bayplan_plugins.node_resource_topology.topologies import Topology, counted, read

_FEW = 8
"""How many topologies are kept as they were read: one event asks for many pods."""


class ZoneHints:
    """The hints of one plugin. They change nothing."""

    def __init__(self, cache: TopologyCache) -> None:
        self._cache = cache
        self._read: dict[int, tuple[Any, Topology]] = {}

    def after_pod_change(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        """Requeue a pod that wants less now, and where one leaves that no topology counts.

        What the others had is free only when a topology says so.
        """
        if new is not None:
            return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP
        node = old.node_name
        if not node or self._cache.kind == PASSTHROUGH:
            return Hint.SKIP
        if self._cache.kind == OVER_RESERVE and self._cache.topology(node) is None:
            return Hint.SKIP
        return Hint.QUEUE

    def after_node_change(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Requeue for a node that is new, or that offers a requested resource which it hasn't offered before."""
        if old is None:
            return Hint.QUEUE
        had, has = _offered(old), _offered(new)
        return Hint.QUEUE if any(name in has - had for name in demand_of(pod).whole) else Hint.SKIP

    def after_topology_change(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Requeue if the pod fits into the new zones of the node, and didn't fit into the old ones.

        Where pods count that the topology lacks, it isn't known whether the pod did fit.
        """
        demand = demand_of(pod)
        if new is not None and not may_fit(self._of(new), demand):
            return Hint.SKIP
        if new is not None and self._cache.kind == PASSTHROUGH and old is not None and may_fit(self._of(old), demand):
            return Hint.SKIP
        return Hint.QUEUE

    def _of(self, topology: Any) -> Topology:
        known = self._read.get(id(topology))
        if known is None or known[0] is not topology:
            if len(self._read) >= _FEW:
                self._read.clear()
            known = self._read[id(topology)] = topology, read(topology)
        return known[1]


def may_fit(topology: Topology, demand: ZoneDemand) -> bool:
    """Return whether a pod may fit into the zones of a node, each container by itself."""
    if topology.problem or not topology.single:
        return True
    requests = [demand.whole] if topology.pod_scope else [wanted.amounts for wanted in demand.containers]
    return all(
        any(not lacking(topology, zone.available.get, each, demand) for zone in topology.zones) for each in requests
    )


def _offered(node: Any) -> frozenset[str]:
    allocatable = (node.status.allocatable if node.status else None) or {}
    return frozenset(name for name, amount in counted(allocatable).items() if amount > 0)
