"""What evictions give back to zones: the topology of a node without the pods that a preemption would evict.

Only a pod that has a zone to itself gives something back, and only the agent on the node knows which zone that is: the
topology has it as a vector. Mirrors the package preemption and getNUMAPlacementInfo of pkg/noderesourcetopology.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.plugin import PodInfo
from bayplan_plugins.node_resource_topology.cache import TopologyCache
from bayplan_plugins.node_resource_topology.demand import HeldByContainer
from bayplan_plugins.node_resource_topology.fingerprints import METADATA, VECTOR, zones_of
from bayplan_plugins.node_resource_topology.topologies import Amounts, Topology

log = logging.getLogger("bayplan.node_resource_topology")

_IMPOSSIBLE = "eviction simulation in NRT is not possible:"
NOTHING = f"{_IMPOSSIBLE}no resources to add, cannot process eviction simulation"
TOO_MUCH = f"{_IMPOSSIBLE}resource release request exceeds NUMA allocatable"

Gains = Mapping[tuple[int, str], int]
"""By index of the zone and resource."""


@dataclass(slots=True)
class _Placement:
    """Where the pods of a node are. `gains`: by UID, what the eviction of a pod gives back."""

    topology: Topology
    ran: tuple[HeldByContainer, ...]
    gains: dict[str, Gains] = field(default_factory=dict)
    containers: int = 0


class ZoneEvictions:
    """Knows the zones of the containers on each node whose topology says so."""

    def __init__(self, cache: TopologyCache) -> None:
        self._cache = cache
        self._placements: dict[str, _Placement] = {}

    def of(self, node: str, victims: Sequence[PodInfo], left: Callable[[int, str], int]) -> Gains | str:
        """Return what zones would get back, or why that can't be said.

        Empty where the topology doesn't tell the zones of containers. `left(zone, resource)`: what a zone has now.
        """
        placement = self._placement(node)
        if placement is None or not placement.containers:
            return {}
        total: dict[tuple[int, str], int] = {}
        for victim in victims:
            for place, amount in placement.gains.get(victim.uid, {}).items():
                total[place] = total.get(place, 0) + amount
        if not total:
            return NOTHING
        for (index, resource), amount in total.items():
            zone = placement.topology.zones[index]
            if resource in zone.available and left(index, resource) + amount > zone.allocatable[resource]:
                return TOO_MUCH
        return total

    def _placement(self, node: str) -> _Placement | None:
        topology, ran = self._cache.topology(node), self._cache.ran.get(node)
        if topology is None or ran is None:
            self._placements.pop(node, None)
            return None
        known = self._placements.get(node)
        if known is None or known.topology is not topology or known.ran is not ran:
            known = self._placements[node] = _read(node, topology, ran)
        return known


def _read(node: str, topology: Topology, ran: tuple[HeldByContainer, ...]) -> _Placement:
    placement = _Placement(topology, ran)
    if METADATA not in topology.attributes or not topology.single:
        return placement
    pinned = {(held.namespace, held.pod, held.container): held for held in ran}
    vectors = {zone.number: zone.attributes[VECTOR] for zone in topology.zones if VECTOR in zone.attributes}
    try:
        zones = zones_of(topology.attributes[METADATA], vectors, pinned)
    except ValueError as error:
        log.warning("NodeResourceTopology %s doesn't say which zones the containers have: %s", node, error)
        return placement
    placement.containers = len(zones)
    indexes = {zone.number: index for index, zone in enumerate(topology.zones)}
    gains: dict[str, dict[tuple[int, str], int]] = {}
    for container, number in zones.items():
        held = pinned[container]
        if held.kind == "app" and number in indexes:
            _add(gains.setdefault(held.uid, {}), indexes[number], held.amounts)
    placement.gains = dict(gains)
    return placement


def _add(gains: dict[tuple[int, str], int], index: int, amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        gains[index, resource] = gains.get((index, resource), 0) + amount
