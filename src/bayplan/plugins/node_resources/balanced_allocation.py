"""NodeResourcesBalancedAllocation: nodes are liked more where the pod evens out how much of each resource is taken."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import MAX_NODE_SCORE, CycleState, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.arguments import NodeResourcesBalancedAllocationArgs
from bayplan.plugins.node_resources.shares import ScoredResource, scored_resources

Float64 = NDArray[np.float64]

_DEFAULT_ARGUMENTS = NodeResourcesBalancedAllocationArgs()


class NodeResourcesBalancedAllocation(Plugin):
    """Mirrors plugins/noderesources/balanced_allocation.go."""

    name = "NodeResourcesBalancedAllocation"
    arguments = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs = _DEFAULT_ARGUMENTS) -> None:
        self._resources = [(resource.name, resource.weight) for resource in args.resources]

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod that requests nothing of what is scored: all such pods would pile up on one node."""
        return None if any(pod.requested.get(name) for name, _ in self._resources) else SKIP

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """75 where the pod changes nothing, up to 100 where it makes the node more even, down to 50 where less."""
        resources = scored_resources(self._resources, pod.requested, nodes, nonzero=False)
        gain = _evenness(resources, len(nodes), with_pod=True) - _evenness(resources, len(nodes), with_pod=False)
        return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + gain) // 2

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod requests."""
        return tuple(sorted(pod.requested.items()))


def _evenness(resources: Sequence[ScoredResource], count: int, *, with_pod: bool) -> Int64:
    """100 less the standard deviation of the shares taken, in percent: 50 to 100, rounded down."""
    if len(resources) < 2:
        return np.full(count, MAX_NODE_SCORE, dtype=np.int64)
    shares, present = zip(*(_share(each, with_pod=with_pod) for each in resources), strict=True)
    deviation = _deviation_of_two(*shares, *present) if len(resources) == 2 else _deviation(shares, present)
    score: Int64 = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return score


def _share(each: ScoredResource, *, with_pod: bool) -> tuple[Float64, NDArray[np.bool_]]:
    """What share of the resource is taken, 1 at most, and which nodes have any of it."""
    taken = each.allocated + each.asked if with_pod else each.allocated
    share: Float64 = np.minimum(taken / np.maximum(each.allocatable, 1), 1.0)
    return share, each.allocatable > 0


def _deviation_of_two(
    one: Float64, other: Float64, has_one: NDArray[np.bool_], has_other: NDArray[np.bool_]
) -> Float64:
    deviation: Float64 = np.abs((one - other) / 2)
    both = has_one & has_other
    return deviation if both.all() else np.where(both, deviation, 0.0)


def _deviation(shares: Sequence[Float64], present: Sequence[NDArray[np.bool_]]) -> Float64:
    """The standard deviation over what each node has; 0 over one. Sums go in order, since rounding depends on it."""
    number, total, squares = (np.zeros(len(shares[0])) for _ in range(3))
    for share, has in zip(shares, present, strict=True):
        number += has
        total += np.where(has, share, 0.0)
    mean = total / np.maximum(number, 1)
    for share, has in zip(shares, present, strict=True):
        squares += np.where(has, (share - mean) * (share - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(number, 1))
    few = number <= 2
    if few.any():  # for two the reference takes a short cut, which rounds differently
        highest = np.max([np.where(has, share, 0.0) for share, has in zip(shares, present, strict=True)], axis=0)
        lowest = np.min([np.where(has, share, 1.0) for share, has in zip(shares, present, strict=True)], axis=0)
        deviation[few] = np.where(number[few] == 2, (highest[few] - lowest[few]) / 2, 0.0)
    return deviation
