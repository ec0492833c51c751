"""The plugins' own metrics, exposed with those of the scheduler.

Metrics that kube-scheduler's plugins have too keep its buckets (pkg/scheduler/metrics/metrics.go).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from bayplan.running.service.metrics.instruments import Histograms, exponential_buckets

S = TypeVar("S", Counter[tuple[str, ...]], Histograms)

_DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_KNOWN: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "scheduler_resourceclaim_creates_total": ("ResourceClaims created for extended resources.", ()),
    "dynamic_resource_allocation_resourceclaim_creates_total": ("ResourceClaims created for extended resources.", ()),
    "scheduler_dra_bindingconditions_allocations_total": (
        "Allocated devices with binding conditions that attempts waited for.",
        (),
    ),
    "scheduler_dra_bindingconditions_wait_duration_seconds": (
        "Time that attempts wait for allocated devices.",
        exponential_buckets(0.1, 2, 14),
    ),
}
"""Help and buckets."""
_RESERVED = (
    "scheduler_",
    "dynamic_resource_allocation_",
    "bayplan_",
    "rest_client_",
    "leader_election_",
    "process_",
    "python_",
    "kubernetes_",
    "kube_",
)
_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")


class Family(Generic[S]):
    """One metric. `samples` are by the values of `labels`."""

    def __init__(self, name: str, labels: tuple[str, ...], samples: S) -> None:
        self.name = name
        self.labels = labels
        self.samples: S = samples

    @property
    def help(self) -> str:
        """The help text."""
        return _KNOWN[self.name][0] if self.name in _KNOWN else "A metric of a plugin."


class PluginMeasurements:
    """Implements bayplan.core.framework.measurements. Only the scheduler's thread writes; any thread may read."""

    def __init__(self) -> None:
        self._counts: dict[str, Family[Counter[tuple[str, ...]]]] = {}
        self._seconds: dict[str, Family[Histograms]] = {}

    def count(self, metric: str, /, **labels: str) -> None:
        """Increment a counter. Raises ValueError for an invalid name or other labels than before."""
        family = self._counts.get(metric)
        if family is None:
            family = self._counts[metric] = Family(_checked(metric, "_total"), tuple(labels), Counter())
        family.samples[_values(family, labels)] += 1

    def observe(self, metric: str, seconds: float, /, **labels: str) -> None:
        """Record a duration. Raises ValueError for an invalid name or other labels than before."""
        family = self._seconds.get(metric)
        if family is None:
            name = _checked(metric, "_seconds")
            bounds = _KNOWN[name][1] if name in _KNOWN else _DEFAULT_BUCKETS
            family = self._seconds[metric] = Family(name, tuple(labels), Histograms(bounds))
        family.samples[_values(family, labels)].observe(seconds)

    def counts(self) -> Iterator[Family[Counter[tuple[str, ...]]]]:
        """All counters."""
        yield from list(self._counts.values())

    def seconds(self) -> Iterator[Family[Histograms]]:
        """All durations."""
        yield from list(self._seconds.values())


def _checked(name: str, ending: str) -> str:
    if not _NAME.fullmatch(name) or not name.endswith(ending):
        raise ValueError(
            f"{name!r} is not a valid metric name: use letters, digits and underscores, and the suffix {ending}"
        )
    if name.startswith(_RESERVED) and name not in _KNOWN:
        raise ValueError(
            f"{name!r} has a prefix that is reserved for the scheduler's metrics: use a prefix of your own"
        )
    return name


def _values(family: Family[S], labels: Mapping[str, str]) -> tuple[str, ...]:
    if labels.keys() != set(family.labels):
        raise ValueError(f"{family.name} has the labels {', '.join(family.labels)}, not {', '.join(labels)}")
    return tuple(labels[name] for name in family.labels)
