"""The argument types of the in-tree plugins, as used in `pluginConfig`, with their defaults and validation.

Mirrors k8s.io/kube-scheduler/config/v1/types_pluginargs.go and apis/config/validation/validation_pluginargs.go.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from lightkube.models import core_v1

from bayplan.core.api import durations, field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.labels import label_key_errors
from bayplan.core.api.selectors import parse_node_selector, parse_preferred_terms
from bayplan.core.framework.arguments import PluginArgs
from bayplan.core.framework.normalization import MAX_SHAPE_SCORE
from bayplan.core.versions import FeatureGates

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
SCORING_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)


class ResourceSpec(msgspec.Struct):
    """A resource to score, and its weight (1 to 100; 0 is replaced by 1)."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        self.weight = self.weight or 1


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec("cpu"), ResourceSpec("memory")]


class UtilizationShapePoint(msgspec.Struct):
    """A point of a utilization shape: the `score` (0 to 10) at a `utilization` (0 to 100 percent)."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(msgspec.Struct):
    """The parameters of the RequestedToCapacityRatio strategy."""

    shape: list[UtilizationShapePoint] = []


class ScoringStrategy(msgspec.Struct):
    """The scoring strategy of NodeResourcesFit."""

    type: str = ""
    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)
    requestedToCapacityRatio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()


def _least_allocated() -> ScoringStrategy:
    return ScoringStrategy(LEAST_ALLOCATED)


class NodeResourcesFitArgs(PluginArgs, kw_only=True):
    """Arguments of NodeResourcesFit."""

    ignoredResources: list[str] = []
    ignoredResourceGroups: list[str] = []
    scoringStrategy: ScoringStrategy = msgspec.field(default_factory=_least_allocated)

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        for index, name in enumerate(self.ignoredResources):
            yield from _name_faults(f"ignoredResources[{index}]", name)
        for index, group in enumerate(self.ignoredResourceGroups):
            path = f"ignoredResourceGroups[{index}]"
            if "/" in group:
                yield field_errors.invalid(path, group, "resource group name can't contain '/'")
            yield from _name_faults(path, group)
        strategy, path = self.scoringStrategy, "scoringStrategy"
        if strategy.type not in SCORING_STRATEGIES:
            yield field_errors.not_supported(f"{path}.type", strategy.type, SCORING_STRATEGIES)
        for index, resource in enumerate(strategy.resources):
            if not 0 < resource.weight <= 100:
                problem = f"resource weight of {resource.name} not in valid range (0, 100]"
                yield field_errors.invalid(f"{path}.resources[{index}].weight", resource.weight, problem)
        ratio, path = strategy.requestedToCapacityRatio, f"{path}.requestedToCapacityRatio"
        if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
            if ratio is not None:
                yield field_errors.forbidden(path, "must be nil when type is not RequestedToCapacityRatio")
        elif ratio is None:
            yield field_errors.required(path, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from _shape_faults(ratio.shape, f"{path}.shape")


class NodeResourcesBalancedAllocationArgs(PluginArgs, kw_only=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        seen: set[str] = set()
        for index, resource in enumerate(self.resources):
            if resource.name in seen:
                yield field_errors.duplicate(f"resources[{index}].name", resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield field_errors.invalid(f"resources[{index}].weight", resource.weight, "must be 1")


class NodeAffinityArgs(PluginArgs, kw_only=True):
    """Arguments of NodeAffinity. `addedAffinity` applies to all pods, in addition to their own node affinity."""

    addedAffinity: core_v1.NodeAffinity | None = None

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        if self.addedAffinity is None:
            return
        required = self.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if required is not None:
            for fault in parse_node_selector(required).errors:
                yield fault.below("addedAffinity.requiredDuringSchedulingIgnoredDuringExecution")
        for preferred in parse_preferred_terms(self.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution):
            for fault in preferred.term.errors:
                yield fault.below("addedAffinity.preferredDuringSchedulingIgnoredDuringExecution")


class DefaultPreemptionArgs(PluginArgs, kw_only=True):
    """Arguments of DefaultPreemption."""

    minCandidateNodesPercentage: int = 10
    minCandidateNodesAbsolute: int = 100

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        percentage, absolute = self.minCandidateNodesPercentage, self.minCandidateNodesAbsolute
        if not 0 <= percentage <= 100:
            yield field_errors.invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield field_errors.invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            problem = "cannot be zero at the same time as"
            yield field_errors.invalid("minCandidateNodesPercentage", 0, f"{problem} minCandidateNodesAbsolute")
            yield field_errors.invalid("minCandidateNodesAbsolute", 0, f"{problem} minCandidateNodesPercentage")


class InterPodAffinityArgs(PluginArgs, kw_only=True):
    """Arguments of InterPodAffinity."""

    hardPodAffinityWeight: int = 1
    ignorePreferredTermsOfExistingPods: bool = False

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        if not 0 <= self.hardPodAffinityWeight <= 100:
            problem = "not in valid range [0, 100]"
            yield field_errors.invalid("hardPodAffinityWeight", self.hardPodAffinityWeight, problem)


class PodTopologySpreadArgs(PluginArgs, kw_only=True):
    """Arguments of PodTopologySpread."""

    defaultConstraints: list[core_v1.TopologySpreadConstraint] = []
    defaultingType: str = "System"

    def __post_init__(self) -> None:
        self.defaultingType = self.defaultingType or "System"

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        if self.defaultingType not in {"System", "List"}:
            yield field_errors.not_supported("defaultingType", self.defaultingType, ("System", "List"))
        elif self.defaultingType == "System" and self.defaultConstraints:
            yield field_errors.invalid("defaultingType", "System", "when .defaultConstraints are not empty")
        seen: set[tuple[str, str]] = set()
        for index, constraint in enumerate(self.defaultConstraints):
            yield from _spread_faults(constraint, f"defaultConstraints[{index}]")
            identity = (constraint.topologyKey, constraint.whenUnsatisfiable)
            if identity in seen:
                yield field_errors.duplicate(f"defaultConstraints[{index}]", f"{{{', '.join(identity)}}}")
            seen.add(identity)


class VolumeBindingArgs(PluginArgs, kw_only=True):
    """Arguments of VolumeBinding."""

    bindTimeoutSeconds: int = 600
    shape: list[UtilizationShapePoint] | None = None

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        if self.bindTimeoutSeconds < 0:
            problem = "invalid BindTimeoutSeconds, should not be a negative value"
            yield field_errors.invalid("bindTimeoutSeconds", self.bindTimeoutSeconds, problem)

    def gated_faults(self, gates: FeatureGates) -> Iterator[FieldError]:
        """Yield the errors of the shape, which is allowed with StorageCapacityScoring."""
        if gates.enabled("StorageCapacityScoring"):
            yield from _shape_faults(self.shape, "shape") if self.shape else ()
        elif self.shape is not None:
            yield field_errors.forbidden("shape", "the feature gate StorageCapacityScoring is off")


class DynamicResourcesArgs(PluginArgs, kw_only=True):
    """Arguments of DynamicResources. Durations are written as in Go: `10s`, `10m0s`."""

    filterTimeout: str = "10s"
    bindingTimeout: str = "10m0s"

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        for name, least in (("filterTimeout", 0), ("bindingTimeout", 1)):
            text = getattr(self, name)
            try:
                seconds = durations.parse(text)
            except ValueError as error:
                yield field_errors.invalid(name, text, str(error))
                continue
            if seconds < least:
                problem = "must be at least 1 second" if least else "must be zero or positive"
                yield field_errors.invalid(name, text, problem)


def _name_faults(path: str, name: str) -> Iterator[FieldError]:
    for problem in label_key_errors(name):
        yield field_errors.invalid(path, name, problem)


def _shape_faults(shape: list[UtilizationShapePoint], path: str) -> Iterator[FieldError]:
    if not shape:
        yield field_errors.required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            problem = "values must be sorted in increasing order"
            yield field_errors.invalid(f"{path}[{index}].utilization", shape[index].utilization, problem)
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield field_errors.invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            problem = f"not in valid range [0, {MAX_SHAPE_SCORE}]"
            yield field_errors.invalid(f"{path}[{index}].score", point.score, problem)


def _spread_faults(constraint: core_v1.TopologySpreadConstraint, path: str) -> Iterator[FieldError]:
    if constraint.maxSkew <= 0:
        yield field_errors.invalid(f"{path}.maxSkew", constraint.maxSkew, "not in valid range (0, inf)")
    if not constraint.topologyKey:
        yield field_errors.required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from _name_faults(f"{path}.topologyKey", constraint.topologyKey)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if constraint.whenUnsatisfiable not in actions:
        yield field_errors.not_supported(f"{path}.whenUnsatisfiable", constraint.whenUnsatisfiable, actions)
    if constraint.labelSelector is not None:
        problem = "constraint must not define a selector, as they deduced for each pod"
        yield field_errors.forbidden(f"{path}.labelSelector", problem)
