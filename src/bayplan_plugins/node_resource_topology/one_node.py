"""Filter and Score for one node, without arrays: after a placement, only one node has changed.

`zones.py`, `strategies.py` and `least_numa.py` have the rules; a test compares the two forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

from bayplan.plugin import MAX_NODE_SCORE, NodeInfo
from bayplan_plugins.node_resource_topology.arguments import (
    BALANCED_ALLOCATION,
    LEAST_ALLOCATED,
    LEAST_NUMA_NODES,
    MOST_ALLOCATED,
)
from bayplan_plugins.node_resource_topology.columns import NO_COST
from bayplan_plugins.node_resource_topology.demand import ZoneDemand, lacking
from bayplan_plugins.node_resource_topology.least_numa import MOST_SETS
from bayplan_plugins.node_resource_topology.strategies import units, variance
from bayplan_plugins.node_resource_topology.topologies import Amounts, Topology
from bayplan_plugins.node_resource_topology.zones import CODES, ON_EVERY_NODE, POD

Left = Sequence[Mapping[str, int]]
"""What each zone of the node has left."""
ZoneScore = Callable[[Amounts, Amounts, Mapping[str, int]], int]
"""Returns the score of a zone for a request, with weights."""


def rejection(topology: Topology, left: Left, demand: ZoneDemand, node: NodeInfo) -> int:
    """Return the code of the reason why a pod can't use a node, as of `zones.align`; 0 if it can."""
    if not topology.single:
        return 0
    if topology.pod_scope:
        return POD if _first(topology, left, demand.whole, demand, node) is None else 0
    last = demand.containers[-1] if demand.containers else None
    for wanted in demand.containers:
        zone = _first(topology, left, wanted.amounts, demand, node)
        if zone is None:
            return CODES[wanted.kind]
        if wanted.kind == "app" and wanted is not last:
            less = {
                name: max(has - (wanted.amounts.get(name, 0) if demand.takes(name) else 0), 0)
                for name, has in left[zone].items()
            }
            left = [*left[:zone], less, *left[zone + 1 :]]
    return 0


def _first(topology: Topology, left: Left, request: Amounts, demand: ZoneDemand, node: NodeInfo) -> int | None:
    """Return the first zone that has enough for a request."""
    for resource, amount in request.items():
        if amount > 0 and resource not in ON_EVERY_NODE and node.allocatable_of(resource) <= 0:
            return None
    for zone, has in enumerate(left):
        if not lacking(topology, has.get, request, demand):
            return zone
    return None


def score(topology: Topology, left: Left, demand: ZoneDemand, strategy: str, weights: Mapping[str, int]) -> int:
    """Return the score of a node by a strategy."""
    if strategy == LEAST_NUMA_NODES:
        return _by_needed_zones(topology, left, demand)
    if not topology.single:
        return 0
    zone_score = ZONE_SCORES[strategy]
    if topology.pod_scope:
        return _lowest(left, demand.whole, zone_score, weights)
    found = [_lowest(left, wanted.amounts, zone_score, weights) for wanted in demand.containers]
    return sum(found) // len(found) if found else 0


def _lowest(left: Left, request: Amounts, zone_score: ZoneScore, weights: Mapping[str, int]) -> int:
    return min(filter(None, [zone_score(zone, request, weights) for zone in left]), default=0)


def _most_allocated(zone: Amounts, request: Amounts, weights: Mapping[str, int]) -> int:
    return _weighted(zone, request, weights, least=False)


def _least_allocated(zone: Amounts, request: Amounts, weights: Mapping[str, int]) -> int:
    return _weighted(zone, request, weights, least=True)


def _weighted(zone: Amounts, request: Amounts, weights: Mapping[str, int], *, least: bool) -> int:
    total = weight_sum = 0
    for resource, amount in request.items():
        weight = weights.get(resource, 1)
        weight_sum += weight
        has = zone.get(resource, 0)
        if has > 0 and has >= amount:
            whole, wanted = units(resource, has), units(resource, amount)
            total += weight * ((whole - wanted if least else wanted) * MAX_NODE_SCORE // whole)
    return total // max(weight_sum, 1)


def _balanced_allocation(zone: Amounts, request: Amounts, _weights: Mapping[str, int]) -> int:
    wholes = [(units(resource, zone.get(resource, 0)), units(resource, wanted)) for resource, wanted in request.items()]
    fractions = [wanted / whole if whole > 0 else 1.0 for whole, wanted in wholes]
    if any(each > 1 for each in fractions):
        return 0
    return int((1 - variance(fractions)) * MAX_NODE_SCORE) if len(fractions) > 1 else MAX_NODE_SCORE


ZONE_SCORES: Mapping[str, ZoneScore] = {
    MOST_ALLOCATED: _most_allocated,
    LEAST_ALLOCATED: _least_allocated,
    BALANCED_ALLOCATION: _balanced_allocation,
}


def _by_needed_zones(topology: Topology, left: Left, demand: ZoneDemand) -> int:
    """Return the score of a node by LeastNUMANodes: as `least_numa.ZoneGroup.score`."""
    most, all_nearest, has = 0, True, [dict(zone) for zone in left]
    for request in [demand.whole] if topology.pod_scope else [wanted.amounts for wanted in demand.containers]:
        if not any(resource in zone for zone in has for resource in request):
            continue
        zones, nearest = _needed_zones(topology, has, request)
        if not zones:
            return 0
        most, all_nearest = max(most, len(zones)), all_nearest and nearest
        for resource, amount in request.items():
            for zone in zones:
                taken = min(has[zone].get(resource, 0), amount)
                if taken:
                    has[zone][resource] -= taken
                    amount -= taken  # noqa: PLW2901 - what is still missing
    if not most:
        return MAX_NODE_SCORE
    step = MAX_NODE_SCORE // topology.max_zones
    return max(MAX_NODE_SCORE - most * step + (step // 2 if all_nearest else 0), 0)


def _needed_zones(topology: Topology, left: Left, request: Amounts) -> tuple[tuple[int, ...], bool]:
    """Return the smallest set of zones that have enough together, and whether no set of the size is nearer."""
    numbers, tried = range(len(left)), 0
    if not _enough(left, request, numbers, listed=False):
        return (), False
    for size in range(1, len(left) + 1):
        sets = list(combinations(numbers, size))
        tried += len(sets)
        if tried > MOST_SETS:
            break
        distances = {each: _distance(topology, each) for each in sets}
        found = [each for each in sets if _enough(left, request, each)]
        if found:
            best = min(found, key=distances.__getitem__)
            return best, distances[best] == min(distances.values())
    return (), False


def _distance(topology: Topology, zones: tuple[int, ...]) -> int:
    each = [topology.zones[zone] for zone in zones]
    return sum(zone.costs.get(other.number, NO_COST) for zone in each for other in each)


def _enough(left: Left, request: Amounts, zones: Iterable[int], *, listed: bool = True) -> bool:
    """Return whether zones have enough together. `listed`: whether each zone has to list every resource."""
    some = [left[zone] for zone in zones]
    return all(
        sum(zone.get(resource, 0) for zone in some) >= amount and (not listed or all(resource in zone for zone in some))
        for resource, amount in request.items()
    )
