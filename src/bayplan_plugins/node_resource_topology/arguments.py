"""The arguments of NodeResourceTopologyMatch. Mirrors NodeResourceTopologyMatchArgs (apis/config/v1/types.go)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.plugin import FieldError, PluginArgs, field_errors

MOST_ALLOCATED, LEAST_ALLOCATED, BALANCED_ALLOCATION, LEAST_NUMA_NODES = _STRATEGIES = (
    "MostAllocated",
    "LeastAllocated",
    "BalancedAllocation",
    "LeastNUMANodes",
)
ENABLED = "Enabled"
ALL, NONE, ONLY_EXCLUSIVE, ONLY_RESOURCES = "All", "None", "OnlyExclusiveResources", "OnlyResources"
SHARED = "Shared"
_CACHE = {
    "foreignPodsDetect": (ALL, NONE, ONLY_EXCLUSIVE),
    "resyncMethod": ("Autodetect", ALL, ONLY_EXCLUSIVE),
    "informerMode": ("Dedicated", SHARED),
    "resyncScope": (ALL, ONLY_RESOURCES),
}
"""The values of each field."""


class ResourceWeight(msgspec.Struct):
    """How much a resource counts; 0 means 1."""

    name: str
    weight: int = 1


def _cpu_and_memory() -> list[ResourceWeight]:
    return [ResourceWeight("cpu"), ResourceWeight("memory")]


class ZoneScoring(msgspec.Struct):
    """How the zones of a node are scored."""

    type: str = ""
    resources: list[ResourceWeight] = msgspec.field(default_factory=_cpu_and_memory)


class CacheArgs(msgspec.Struct):
    """Which pods count, and when the topology of a node is up to date."""

    foreignPodsDetect: str = ALL
    resyncMethod: str = "Autodetect"
    informerMode: str = "Dedicated"
    resyncScope: str = ALL


class NodeResourceTopologyMatchArgs(PluginArgs, kw_only=True):
    """Arguments of NodeResourceTopologyMatch.

    Attributes:
        scoringStrategy: how nodes are scored.
        cacheResyncPeriodSeconds: above 0, pods that were placed are counted until the topology of their node has them.
        discardReservedNodes: no pod comes to a node where the binding of another one is in progress.
        cache: for `cacheResyncPeriodSeconds`.
        preemptionMode: Enabled counts what evictions would give back to zones.
    """

    scoringStrategy: ZoneScoring = msgspec.field(default_factory=lambda: ZoneScoring(LEAST_ALLOCATED))
    cacheResyncPeriodSeconds: int = 0
    discardReservedNodes: bool = False
    cache: CacheArgs = msgspec.field(default_factory=CacheArgs)
    preemptionMode: str = "Disabled"

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        if self.scoringStrategy.type not in _STRATEGIES:
            yield field_errors.invalid("scoringStrategy.type", self.scoringStrategy.type, "invalid ScoringStrategyType")
        if self.preemptionMode not in {ENABLED, "Disabled"}:
            yield field_errors.invalid("preemptionMode", self.preemptionMode, "invalid PreemptionMode")
        for name, values in _CACHE.items():
            if (value := getattr(self.cache, name)) not in values:
                yield field_errors.invalid(f"cache.{name}", value, f"must be one of {', '.join(values)}")

    def weights(self) -> dict[str, int]:
        """Return the weights by resource. Others count once."""
        return {each.name: max(each.weight, 1) for each in self.scoringStrategy.resources}
