"""The arithmetic that the two resource plugins share: what is scored of a resource, and shares of a whole.

Mirrors plugins/noderesources/resource_allocation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayplan.api import requests
from bayplan.cluster.columns import Bool, Int64
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.framework.interface import MAX_NODE_SCORE

Float64 = NDArray[np.float64]

_EXACT = 2**46
"""Below this, no quotient of integers lies so close under a percentage that float64 would round it up to it."""


@dataclass(slots=True)  # not frozen: four are made in every decision, and freezing triples what that takes
class ScoredResource:
    """One resource that counts for a pod.

    `allocatable`, `allocated` (without the pod) and `taken` (with it): int64, one a node. `everywhere`: whether every
    node has some of it. `exact`: whether percentages of it can be had from float64, which is quicker than dividing
    integers.
    """

    allocatable: Int64
    allocated: Int64
    taken: Int64
    weight: int
    everywhere: bool
    exact: bool

    @property
    def present(self) -> Bool:
        """Which nodes have some of it."""
        return self.allocatable > 0

    @property
    def whole(self) -> Int64:
        """What there is to divide by: 1 on nodes that have nothing, where nobody looks at the result."""
        return self.allocatable if self.everywhere else np.maximum(self.allocatable, 1)

    def percent(self, part: Int64) -> Int64:
        """100 * part / allocatable rounded down, for parts from 0 to allocatable. Works in place of `part`."""
        part *= MAX_NODE_SCORE
        return (part / self.whole).astype(np.int64) if self.exact else part // self.whole

    def share(self, part: Int64) -> Float64:
        """What share of allocatable a part is, 1 at most."""
        share: Float64 = np.minimum(part, self.allocatable) / self.whole
        return share


class Amounts(NamedTuple):
    """One resource of one node that counts for a pod; `allocatable` is not 0. As in ScoredResource."""

    allocatable: int
    allocated: int
    taken: int
    weight: int

    def share(self, part: int) -> float:
        """What share of allocatable a part is, 1 at most."""
        return float(min(part, self.allocatable)) / float(self.allocatable)


def amounts(
    resources: Sequence[tuple[str, int]], asked: Mapping[str, int], node: NodeInfo, *, nonzero: bool
) -> list[Amounts]:
    """What `scored_resources` says of one node, without the resources that it has nothing of."""
    found = []
    for name, weight in resources:
        amount = asked.get(name, 0)
        allocatable = node.allocatable_of(name)
        if allocatable == 0 or (amount == 0 and requests.is_scalar(name)):
            continue
        allocated = node.nonzero_requested_of(name) if nonzero else node.requested_of(name)
        found.append(Amounts(allocatable, allocated, allocated + amount, weight))
    return found


def amounts_of_all(resources: Sequence[tuple[str, int]], asked: Mapping[str, int], nodes: Nodes) -> list[Amounts]:
    """What all of some nodes have together, without the resources that they have nothing of.

    Mirrors scorePlacement (plugins/noderesources/resource_allocation.go). What pods are on the nodes counts with the
    scoring defaults.
    """
    found = []
    for name, weight in resources:
        amount, allocatable = asked.get(name, 0), nodes.allocatable(name)
        total = int(allocatable.sum())
        if total == 0 or (amount == 0 and requests.is_scalar(name)):
            continue
        allocated = int(nodes.nonzero_requested(name)[allocatable > 0].sum())
        found.append(Amounts(total, allocated, allocated + amount, weight))
    return found


def scored_resources(
    resources: Sequence[tuple[str, int]], asked: Mapping[str, int], nodes: Nodes, *, nonzero: bool
) -> list[ScoredResource]:
    """Those of the resources (name, weight) that count for a pod which asks for `asked`.

    A resource beside cpu, memory and ephemeral storage counts only if the pod asks for it. `nonzero` takes what pods
    are on the nodes with the scoring defaults.
    """
    scored = []
    for name, weight in resources:
        amount = asked.get(name, 0)
        if amount == 0 and requests.is_scalar(name):
            continue
        allocated = nodes.nonzero_requested(name) if nonzero else nodes.requested(name)
        least, greatest = nodes.allocatable_range(name)
        taken = allocated + amount
        scored.append(ScoredResource(nodes.allocatable(name), allocated, taken, weight, least > 0, greatest < _EXACT))
    return scored
