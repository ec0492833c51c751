"""NodeResourcesBalancedAllocation: prefers nodes on which the pod balances the utilization of resources."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from bayplan.core.cluster.columns import Bool, Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import MAX_NODE_SCORE, CycleState, Plugin
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.plugins.arguments import NodeResourcesBalancedAllocationArgs
from bayplan.core.plugins.node_resources.devices import DeviceCounts
from bayplan.core.plugins.node_resources.shares import Float64, ScoredResource, amounts, scored_resources
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

_DEFAULT_ARGUMENTS = NodeResourcesBalancedAllocationArgs()


class NodeResourcesBalancedAllocation(Plugin):
    """Mirrors plugins/noderesources/balanced_allocation.go."""

    name = "NodeResourcesBalancedAllocation"
    arguments = NodeResourcesBalancedAllocationArgs

    def __init__(
        self,
        args: NodeResourcesBalancedAllocationArgs = _DEFAULT_ARGUMENTS,
        handle: Handle | None = None,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self._devices = DeviceCounts(handle, gates) if handle is not None else None
        self._resources = [(resource.name, resource.weight) for resource in args.resources]
        self._names = [resource.name for resource in args.resources]

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod that requests no scored resource: all such pods would be placed on the same node."""
        return None if self._requests_any(pod) else SKIP

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Score 75 if the pod does not change the balance, up to 100 if it improves it, down to 50 if it worsens it.

        Returns 0 for a pod that PreScore would skip, because a profile may disable PreScore.
        """
        if not self._requests_any(pod):
            return np.zeros(len(nodes), dtype=np.int64)
        resources = scored_resources(self._resources, pod.requested, nodes, self._devices, nonzero=False)
        gain = _balance(resources, [each.share(each.requested) for each in resources], len(nodes))
        gain -= _balance(resources, [each.share(each.allocated) for each in resources], len(nodes))
        gain += MAX_NODE_SCORE // 2
        return gain // 2 + MAX_NODE_SCORE // 2

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node."""
        if not self._requests_any(pod):
            return 0
        resources = amounts(self._resources, pod.requested, node, self._devices, nonzero=False)
        gain = _balance_of_one([each.share(each.requested) for each in resources])
        gain -= _balance_of_one([each.share(each.allocated) for each in resources])
        return (gain + MAX_NODE_SCORE // 2) // 2 + MAX_NODE_SCORE // 2

    def _requests_any(self, pod: PodInfo) -> bool:
        return any(map(pod.requested.get, self._names))

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's requests."""
        return pod.of_spec(NodeResourcesBalancedAllocation, _signature)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Results for pods that request resources backed by devices are not shared."""
        return None if self._devices is not None and self._devices.back_any(pod.requested) else ()


def _signature(pod: PodInfo) -> Hashable:
    return tuple(sorted(pod.requested.items()))


def _balance_of_one(shares: Sequence[float]) -> int:
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:  # added one by one as in Go, because sum() is more exact from Python 3.12 on
        total = squares = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * MAX_NODE_SCORE)


def _balance(resources: Sequence[ScoredResource], shares: Sequence[Float64], count: int) -> Int64:
    """Return 100 minus the standard deviation of the shares in percent, rounded down: int64, from 50 to 100.

    `count`: the number of nodes.
    """
    if len(resources) == 2 and all(each.everywhere for each in resources):
        deviation = np.abs((shares[0] - shares[1]) / 2)
    else:
        deviation = _deviation([each.present for each in resources], shares, count)
    balance: Int64 = ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    return balance


def _deviation(present: Sequence[Bool], shares: Sequence[Float64], count: int) -> Float64:
    """Return the standard deviation over the resources that each node has; 0 for a single one.

    Shares are added in the order of the resources, because rounding depends on it.
    """
    number, total, squares = np.zeros(count), np.zeros(count), np.zeros(count)
    for has, share in zip(present, shares, strict=True):
        number += has
        total += np.where(has, share, 0.0)
    mean = total / np.maximum(number, 1)
    for has, share in zip(present, shares, strict=True):
        squares += np.where(has, (share - mean) * (share - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(number, 1))
    few = number <= 2
    if few.any():  # upstream uses a simpler formula for two resources, which rounds differently
        highest, lowest = np.zeros(count), np.ones(count)
        for has, share in zip(present, shares, strict=True):
            np.maximum(highest, share, out=highest, where=has)
            np.minimum(lowest, share, out=lowest, where=has)
        deviation[few] = np.where(number[few] == 2, (highest[few] - lowest[few]) / 2, 0.0)
    return deviation
