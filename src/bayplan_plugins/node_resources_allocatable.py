"""NodeResourcesAllocatable: prefers nodes with little, or with much, allocatable, whatever their pods request.

Mirrors pkg/noderesources/allocatable.go of scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import msgspec
import numpy as np

from bayplan.plugin import MAX_NODE_SCORE, CycleState, FieldError, Nodes, Plugin, PluginArgs, PodInfo, field_errors
from bayplan_plugins.go_arithmetic import Scores, divided, scaled

_MODES = ("Least", "Most")


class WeighedResource(msgspec.Struct):
    """A resource, and what a unit of it weighs: a millicore of cpu, a byte, or one of others."""

    name: str = ""
    weight: int = 0


class NodeResourcesAllocatableArgs(PluginArgs, kw_only=True):
    """Arguments of NodeResourcesAllocatable. By default, a millicore weighs as much as a MiB."""

    resources: list[WeighedResource] = msgspec.field(default_factory=list)
    mode: str = "Least"

    def __post_init__(self) -> None:
        self.resources = self.resources or [WeighedResource("cpu", 1 << 20), WeighedResource("memory", 1)]
        self.mode = self.mode or "Least"

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        for index, resource in enumerate(self.resources):
            if resource.weight <= 0:
                problem = f"resource weight of {resource.name} should be a positive value, got :{resource.weight}"
                yield field_errors.invalid(f"resources[{index}].weight", resource.weight, problem)
        if self.mode not in _MODES:
            yield field_errors.invalid("mode", self.mode, "invalid support ModeType")


_DEFAULT = NodeResourcesAllocatableArgs()


class NodeResourcesAllocatable(Plugin):
    """Scores a node by the weighted mean of what is allocatable there; in the mode Least, small nodes come first."""

    name = "NodeResourcesAllocatable"
    arguments = NodeResourcesAllocatableArgs
    reads_pods = False

    def __init__(self, args: NodeResourcesAllocatableArgs = _DEFAULT) -> None:
        self._weights = {resource.name: resource.weight for resource in args.resources}
        self._sign = -1 if args.mode == "Least" else 1

    def sign(self, pod: PodInfo) -> Hashable:
        """Read nothing of the pod: the scores are the same for all pods."""
        return ()

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Weigh the allocatable amounts. Sums beyond 64 bits wrap around, as upstream's do."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for resource, weight in self._weights.items():
            total = total + nodes.allocatable(resource) * (self._sign * weight)
        return divided(total, sum(self._weights.values()))

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Scale the scores from the lowest to the highest one; nodes that are all alike get 0."""
        return scaled(scores, 0, MAX_NODE_SCORE)
