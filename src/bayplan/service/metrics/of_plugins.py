"""What plugins measure of their own: kept here, and shown beside the scheduler's metrics.

Names that kube-scheduler has for what its plugins measure keep its help and buckets (pkg/scheduler/metrics/metrics.go).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from bayplan.service.metrics.instruments import Histograms, exponential_buckets

S = TypeVar("S", Counter[tuple[str, ...]], Histograms)

_USUAL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_KNOWN: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "scheduler_resourceclaim_creates_total": ("Claims for extended resources that were to be created.", ()),
    "scheduler_dra_bindingconditions_allocations_total": (
        "Devices with conditions for binding that attempts to schedule a pod have waited for.",
        (),
    ),
    "scheduler_dra_bindingconditions_wait_duration_seconds": (
        "Duration of waiting for devices' conditions for binding.",
        exponential_buckets(0.1, 2, 14),
    ),
}
"""Help and buckets."""
_OURS = ("scheduler_", "bayplan_", "rest_client_", "leader_election_", "process_", "python_", "kubernetes_", "kube_")
_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")


class Family(Generic[S]):
    """One metric: `samples` by the values of `labels`."""

    def __init__(self, name: str, labels: tuple[str, ...], samples: S) -> None:
        self.name = name
        self.labels = labels
        self.samples: S = samples

    @property
    def help(self) -> str:
        """What it means, as far as that is known here."""
        return _KNOWN[self.name][0] if self.name in _KNOWN else "Measured by a plugin."


class PluginMeasurements:
    """Implements framework.measurements.Measurements, for the scheduler's thread; others may read the families."""

    def __init__(self) -> None:
        self._counts: dict[str, Family[Counter[tuple[str, ...]]]] = {}
        self._seconds: dict[str, Family[Histograms]] = {}

    def count(self, metric: str, /, **labels: str) -> None:
        """One more of something."""
        family = self._counts.get(metric)
        if family is None:
            family = self._counts[metric] = Family(_checked(metric, "_total"), tuple(labels), Counter())
        family.samples[_values(family, labels)] += 1

    def observe(self, metric: str, seconds: float, /, **labels: str) -> None:
        """Something took so long."""
        family = self._seconds.get(metric)
        if family is None:
            name = _checked(metric, "_seconds")
            bounds = _KNOWN[name][1] if name in _KNOWN else _USUAL_BUCKETS
            family = self._seconds[metric] = Family(name, tuple(labels), Histograms(bounds))
        family.samples[_values(family, labels)].observe(seconds)

    def counts(self) -> Iterator[Family[Counter[tuple[str, ...]]]]:
        """What was counted."""
        yield from list(self._counts.values())

    def seconds(self) -> Iterator[Family[Histograms]]:
        """What was timed."""
        yield from list(self._seconds.values())


def _checked(name: str, ending: str) -> str:
    if not _NAME.fullmatch(name) or not name.endswith(ending):
        raise ValueError(
            f"{name!r} is no name of such a metric: that is of letters, digits and _, and ends in {ending}"
        )
    if name.startswith(_OURS) and name not in _KNOWN:
        raise ValueError(f"{name!r} would be a metric of the scheduler's own: begin it with a name of yours")
    return name


def _values(family: Family[S], labels: Mapping[str, str]) -> tuple[str, ...]:
    if labels.keys() != set(family.labels):
        raise ValueError(f"{family.name} has the labels {', '.join(family.labels)}, not {', '.join(labels)}")
    return tuple(labels[name] for name in family.labels)
