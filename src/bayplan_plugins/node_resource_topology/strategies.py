"""Score: how good the zones of each node are for a pod, by MostAllocated, LeastAllocated or BalancedAllocation.

Mirrors score.go, most_allocated.go, least_allocated.go and balanced_allocation.go. The score of a request on a node is
the lowest one of its zones, without those that score 0. Containers that the kubelet aligns by themselves count equally.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.plugin import MAX_NODE_SCORE
from bayplan_plugins.node_resource_topology.arguments import BALANCED_ALLOCATION, LEAST_ALLOCATED, MOST_ALLOCATED
from bayplan_plugins.node_resource_topology.columns import Int64, ZonesView
from bayplan_plugins.node_resource_topology.demand import ZoneDemand
from bayplan_plugins.node_resource_topology.topologies import Amounts

Weights = Mapping[str, int]
Strategy = Callable[[ZonesView, Amounts, Weights], Int64]
"""Returns the score of each zone: shape (depth, nodes)."""
_HIGHEST = 2**62


def scores(view: ZonesView, demand: ZoneDemand, strategy: Strategy, weights: Weights) -> Int64:
    """Return the scores of nodes; 0 for those whose kubelet doesn't need one zone, or that aren't known."""
    total = np.zeros(len(view.nodes), dtype=np.int64)
    relevant = view.known & view.single & view.fresh
    whole = relevant & view.pod_scope
    if whole.any():
        total[whole] = _lowest(view, strategy(view, demand.whole, weights))[whole]
    each = relevant & ~view.pod_scope
    if each.any() and demand.containers:
        found = [_lowest(view, strategy(view, wanted.amounts, weights)) for wanted in demand.containers]
        total[each] = (np.sum(found, axis=0) // len(found))[each]
    return total


def _lowest(view: ZonesView, zones: Int64) -> Int64:
    exists = np.arange(view.depth)[:, np.newaxis] < view.zones
    lowest = np.where(exists & (zones > 0), zones, _HIGHEST).min(axis=0)
    return np.where(lowest == _HIGHEST, 0, lowest)


def most_allocated(view: ZonesView, request: Amounts, weights: Weights) -> Int64:
    """Score zones by how much of them is requested."""
    return _weighted(view, request, weights, lambda wanted, has: wanted * MAX_NODE_SCORE // np.maximum(has, 1))


def least_allocated(view: ZonesView, request: Amounts, weights: Weights) -> Int64:
    """Score zones by how much of them would be left."""
    return _weighted(view, request, weights, lambda wanted, has: (has - wanted) * MAX_NODE_SCORE // np.maximum(has, 1))


def _weighted(view: ZonesView, request: Amounts, weights: Weights, score: Callable[[int, Int64], Int64]) -> Int64:
    total, weight_sum = _zeros(view), 0
    for resource, amount in request.items():
        weight = weights.get(resource, 1)
        weight_sum += weight
        has = view.available(resource)
        if has is None:
            continue
        fits = (has > 0) & (has >= amount)
        each = score(units(resource, amount), _all_units(resource, has))
        total += np.where(fits, each, 0) * weight
    return total // max(weight_sum, 1)


def balanced_allocation(view: ZonesView, request: Amounts, weights: Weights) -> Int64:
    """Score zones by how alike the requested fractions of their resources are."""
    fractions: list[NDArray[np.float64]] = []
    fits = np.ones((view.depth, len(view.nodes)), dtype=np.bool_)
    for resource, amount in request.items():
        has = view.available(resource)
        fraction = np.ones_like(fits, dtype=np.float64)
        if has is not None:
            whole = _all_units(resource, np.maximum(has, 0))
            np.divide(units(resource, amount), whole, out=fraction, where=whole > 0)
        fits &= fraction <= 1
        fractions.append(fraction)
    if len(fractions) < 2:
        return np.where(fits, MAX_NODE_SCORE, 0)
    return np.where(fits, ((1 - variance(fractions)) * MAX_NODE_SCORE).astype(np.int64), 0)


def variance(numbers: Sequence[Any]) -> Any:
    """Return the variance of at least two numbers or arrays, rounded as gonum's."""
    mean = sum(numbers) / len(numbers)
    differences = [each - mean for each in numbers]
    squares, rest = sum([each * each for each in differences]), sum(differences)
    return (squares - rest * rest / len(numbers)) / (len(numbers) - 1)


STRATEGIES: Mapping[str, Strategy] = {
    MOST_ALLOCATED: most_allocated,
    LEAST_ALLOCATED: least_allocated,
    BALANCED_ALLOCATION: balanced_allocation,
}


def units(resource: str, amount: int) -> int:
    """Return an amount in whole units, rounded up, as upstream's scores count: 1500 millicores are 2."""
    return -(-amount // 1000) if resource == "cpu" else amount


def _all_units(resource: str, amounts: Int64) -> Int64:
    return -(-amounts // 1000) if resource == "cpu" else amounts


def _zeros(view: ZonesView) -> Int64:
    return np.zeros((view.depth, len(view.nodes)), dtype=np.int64)
