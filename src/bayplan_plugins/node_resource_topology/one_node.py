"""Filter and Score for one node, without arrays: after a placement, only one node has changed.

`zones.py` and `strategies.py` have the rules; a test compares the two forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.plugin import MAX_NODE_SCORE, NodeInfo
from bayplan_plugins.node_resource_topology.arguments import LEAST_ALLOCATED
from bayplan_plugins.node_resource_topology.demand import ZoneDemand, lacking
from bayplan_plugins.node_resource_topology.strategies import units
from bayplan_plugins.node_resource_topology.topologies import Amounts, Topology
from bayplan_plugins.node_resource_topology.zones import CODES, ON_EVERY_NODE, POD

Left = Sequence[Mapping[str, int]]
"""What each zone of the node has left."""


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
    """Return the score of a node by MostAllocated or LeastAllocated."""
    if not topology.single:
        return 0
    if topology.pod_scope:
        return _lowest(left, demand.whole, strategy, weights)
    found = [_lowest(left, wanted.amounts, strategy, weights) for wanted in demand.containers]
    return sum(found) // len(found) if found else 0


def _lowest(left: Left, request: Amounts, strategy: str, weights: Mapping[str, int]) -> int:
    least = strategy == LEAST_ALLOCATED
    lowest = 0
    for zone in left:
        total = weight_sum = 0
        for resource, amount in request.items():
            weight = weights.get(resource, 1)
            weight_sum += weight
            has = zone.get(resource, 0)
            if has > 0 and has >= amount:
                whole, wanted = units(resource, has), units(resource, amount)
                total += weight * ((whole - wanted if least else wanted) * MAX_NODE_SCORE // whole)
        found = total // max(weight_sum, 1)
        if found and (not lowest or found < lowest):
            lowest = found
    return lowest
