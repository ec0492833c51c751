"""Selects the metrics to expose: disabled names, and allowed values of labels.

Mirrors SetDisabledMetrics and MetricLabelAllowList of k8s.io/component-base/metrics/options.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

UNEXPECTED = "unexpected"
"""Replaces all values of a label that are not allowed."""
_SUFFIXES = {"counter": "_total"}


@dataclass(frozen=True, slots=True)
class MetricSelection:
    """`disabled`: full names to leave out. `allowed`: the values to keep, by full name and label."""

    disabled: frozenset[str] = frozenset()
    allowed: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def of(self, registry: CollectorRegistry) -> CollectorRegistry:
        """A view of a registry with this selection applied."""
        if not self.disabled and not self.allowed:
            return registry
        selected = CollectorRegistry(auto_describe=False)
        selected.register(_Selected(registry, self))
        return selected


class _Selected(Collector):
    def __init__(self, registry: CollectorRegistry, selection: MetricSelection) -> None:
        self._registry = registry
        self._selection = selection

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            name = family.name + _SUFFIXES.get(family.type, "")
            if name not in self._selection.disabled:
                allowed = self._selection.allowed.get(name)
                yield family if allowed is None else _constrained(family, allowed)


def _constrained(family: Metric, allowed: Mapping[str, frozenset[str]]) -> Metric:
    """The family with all other values replaced by UNEXPECTED, and the samples that then coincide added up."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in family.samples:
        labels = tuple(
            (label, value if label not in allowed or value in allowed[label] else UNEXPECTED)
            for label, value in sample.labels.items()
        )
        sums[sample.name, labels] = sums.get((sample.name, labels), 0.0) + sample.value
    constrained = Metric(family.name, family.documentation, family.type, family.unit)
    constrained.samples = [Sample(name, dict(labels), value) for (name, labels), value in sums.items()]
    return constrained
