"""The arithmetic that the two resource plugins share: what is scored of a resource, and shares of a whole.

Mirrors plugins/noderesources/resource_allocation.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api import requests
from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import Nodes
from bayplan.framework.interface import MAX_NODE_SCORE

_EXACT = 2**46
"""Below this, no quotient of integers lies so close under a percentage that float64 would round it up to it."""


@dataclass(frozen=True, slots=True)
class ScoredResource:
    """One resource of all nodes. `allocatable` and `allocated`: int64, one a node; `asked` is what the pod adds."""

    allocatable: Int64
    allocated: Int64
    asked: int
    weight: int


def scored_resources(
    resources: Sequence[tuple[str, int]], asked: Mapping[str, int], nodes: Nodes, *, nonzero: bool
) -> list[ScoredResource]:
    """The resources (name, weight) that count for a pod which asks for `asked`.

    A resource beside cpu, memory and ephemeral storage counts only if the pod asks for it. `nonzero` takes what pods
    are on the nodes with the scoring defaults.
    """
    scored = []
    for name, weight in resources:
        amount = asked.get(name, 0)
        if amount == 0 and requests.is_scalar(name):
            continue
        allocated = nodes.nonzero_requested(name) if nonzero else nodes.requested(name)
        scored.append(ScoredResource(nodes.allocatable(name), allocated, amount, weight))
    return scored


def percent(part: Int64, whole: Int64) -> Int64:
    """100 * part / whole, rounded toward zero as integers are. `whole` must be positive, `part` at most `whole`."""
    scaled = part * MAX_NODE_SCORE
    if whole.max(initial=0) < _EXACT:
        return (scaled / whole).astype(np.int64)
    quotient = np.abs(scaled) // whole
    return np.where(scaled < 0, -quotient, quotient)
