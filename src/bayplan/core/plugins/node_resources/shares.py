"""The amounts of resources that the two plugins score. Mirrors plugins/noderesources/resource_allocation.go.

All arrays have one value per node. NodeResourcesFit's scores count a
default request where a pod has none for cpu or memory, as upstream; filters don't.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayplan.core.api import requests
from bayplan.core.cluster.columns import Bool, Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.framework.interface import MAX_NODE_SCORE
from bayplan.core.plugins.node_resources.devices import DeviceCounts

Float64 = NDArray[np.float64]

_EXACT = 2**46
"""Below this bound, rounding down a float64 quotient gives the same percentage as integer division."""


@dataclass(slots=True)  # not frozen: each attempt makes several, and freezing triples the time to create one
class ScoredResource:
    """The amounts of one resource on all nodes.

    Attributes:
        allocatable: int64, shape (nodes,).
        allocated: what the pods on the node request, without the pending pod; int64, shape (nodes,).
        requested: what they request with the pending pod; int64, shape (nodes,).
        weight: the resource's weight.
        everywhere: whether `allocatable` is positive on all nodes.
        exact: whether percentages can be computed in float64, which is faster than integer division.
    """

    allocatable: Int64
    allocated: Int64
    requested: Int64
    weight: int
    everywhere: bool
    exact: bool

    @property
    def present(self) -> Bool:
        """Which nodes have the resource."""
        return self.allocatable > 0

    @property
    def _divisor(self) -> Int64:
        """`allocatable`, or 1 for nodes without the resource, whose results are ignored."""
        return self.allocatable if self.everywhere else np.maximum(self.allocatable, 1)

    def percent(self, part: Int64) -> Int64:
        """Return 100 * part / allocatable, rounded down. `part`: from 0 to allocatable; overwritten."""
        part *= MAX_NODE_SCORE
        return (part / self._divisor).astype(np.int64) if self.exact else part // self._divisor

    def share(self, part: Int64) -> Float64:
        """Return part / allocatable, at most 1."""
        share: Float64 = np.minimum(part, self.allocatable) / self._divisor
        return share


class Amounts(NamedTuple):
    """The amounts of one resource on one node, as in ScoredResource. `allocatable` is positive."""

    allocatable: int
    allocated: int
    requested: int
    weight: int

    def share(self, part: int) -> float:
        """Return part / allocatable, at most 1."""
        return float(min(part, self.allocatable)) / float(self.allocatable)


def amounts(
    resources: Sequence[tuple[str, int]],
    request: Mapping[str, int],
    node: NodeInfo,
    devices: DeviceCounts | None,
    *,
    nonzero: bool,
) -> list[Amounts]:
    """Return the amounts on one node, without the resources that the node does not have.

    The parameters are those of `scored_resources`.
    """
    found = []
    for name, weight in resources:
        amount = request.get(name, 0)
        if amount == 0 and requests.is_scalar(name):
            continue
        allocatable = node.allocatable_of(name)
        allocated = node.nonzero_requested_of(name) if nonzero else node.requested_of(name)
        if allocatable == 0 and devices is not None and devices.back(name):
            allocatable, allocated = devices.of_one(name, node)
        if allocatable == 0:
            continue
        found.append(Amounts(allocatable, allocated, allocated + amount, weight))
    return found


def amounts_of_placement(
    resources: Sequence[tuple[str, int]], request: Mapping[str, int], nodes: Nodes
) -> list[Amounts]:
    """Return the sums of the amounts over nodes, without the resources that no node has.

    Requests of pods on the nodes include scoring's defaults. Mirrors scorePlacement
    (plugins/noderesources/resource_allocation.go).
    """
    found = []
    for name, weight in resources:
        amount, allocatable = request.get(name, 0), nodes.allocatable(name)
        total = int(allocatable.sum())
        if total == 0 or (amount == 0 and requests.is_scalar(name)):
            continue
        allocated = int(nodes.nonzero_requested(name)[allocatable > 0].sum())
        found.append(Amounts(total, allocated, allocated + amount, weight))
    return found


def scored_resources(
    resources: Sequence[tuple[str, int]],
    request: Mapping[str, int],
    nodes: Nodes,
    devices: DeviceCounts | None,
    *,
    nonzero: bool,
) -> list[ScoredResource]:
    """Return the amounts on all nodes of the resources that are scored for a pod.

    Args:
        resources: names and weights. Resources other than cpu, memory and ephemeral storage are scored only if the pod
            requests them.
        request: what the pod requests.
        nodes: the nodes.
        devices: used for nodes that do not have a resource which devices back; None ignores devices.
        nonzero: whether requests of pods on the nodes include scoring's defaults.
    """
    scored = []
    for name, weight in resources:
        amount = request.get(name, 0)
        if amount == 0 and requests.is_scalar(name):
            continue
        allocated = nodes.nonzero_requested(name) if nonzero else nodes.requested(name)
        allocatable = nodes.allocatable(name)
        least, greatest = nodes.allocatable_range(name)
        if devices is not None and devices.back(name):
            total, used = devices.of_all(name, nodes)
            by_devices = (allocatable == 0) & (total > 0)
            allocatable, allocated = np.where(by_devices, total, allocatable), np.where(by_devices, used, allocated)
            least, greatest = 0, max(greatest, int(total.max(initial=0)))
        requested = allocated + amount
        scored.append(ScoredResource(allocatable, allocated, requested, weight, least > 0, greatest < _EXACT))
    return scored
