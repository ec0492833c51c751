"""NodeResourcesAllocatable: prefers small nodes, or large ones, by their allocatable resources.

Mirrors pkg/noderesources/allocatable.go of scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import msgspec
import numpy as np

from bayplan.plugin import (
    CycleState,
    FieldError,
    Nodes,
    Plugin,
    PluginArgs,
    PodInfo,
    amounts_of,
    field_errors,
)
from bayplan_plugins.scaling import Scores, scale_to_range

LEAST, MOST = "Least", "Most"


class WeighedResource(msgspec.Struct):
    """A resource, and what a unit of it weighs: a millicore of cpu, or a byte of memory."""

    name: str
    weight: int = 0


def _cpu_and_memory() -> list[WeighedResource]:
    return [WeighedResource("cpu", 1 << 20), WeighedResource("memory", 1)]


class NodeResourcesAllocatableArgs(PluginArgs, kw_only=True):
    """Arguments of NodeResourcesAllocatable.

    Attributes:
        resources: those that count; by default, a millicore weighs as much as 1 MiB.
        mode: whether nodes with the `Least` or the `Most` of them are preferred.
    """

    resources: list[WeighedResource] = msgspec.field(default_factory=_cpu_and_memory)
    mode: str = LEAST

    def __post_init__(self) -> None:
        self.resources, self.mode = self.resources or _cpu_and_memory(), self.mode or LEAST

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        for index, resource in enumerate(self.resources):
            if resource.weight <= 0:
                problem = f"resource weight of {resource.name} should be a positive value, got :{resource.weight}"
                yield field_errors.invalid(f"resources[{index}].weight", resource.weight, problem)
        if self.mode not in {LEAST, MOST}:
            yield field_errors.invalid("mode", self.mode, "invalid support ModeType")


class NodeResourcesAllocatable(Plugin):
    """Scores a node by the weighed mean of its allocatable resources, whatever is used of them."""

    name = "NodeResourcesAllocatable"
    arguments = NodeResourcesAllocatableArgs
    reads_pods = False

    def __init__(self, args: NodeResourcesAllocatableArgs) -> None:
        self._sign = 1 if args.mode == MOST else -1
        weights = {each.name: each.weight for each in args.resources}
        self._total = sum(weights.values())
        self._weights = {name: weight for name, weight in weights.items() if amounts_of({name: "1"})}
        """Those that the scheduler counts; a node has 0 of the others."""

    def sign(self, pod: PodInfo) -> Hashable:
        """Read nothing of the pod."""
        return ()

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Return the means, which are negative if small nodes are preferred."""
        sums = np.zeros(len(nodes), dtype=np.int64)
        for name, weight in self._weights.items():
            sums += nodes.allocatable(name) * weight
        return self._sign * (sums // self._total)

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Scale the scores from the lowest to the highest one; nodes that are all alike get 0."""
        return scale_to_range(scores)
