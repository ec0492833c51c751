"""What a workload is measured by, as scheduler_perf reports it.

Mirrors throughputCollector, metricsCollector and schedulingDurationCollector in
test/integration/scheduler_perf/util.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

SAMPLE_SECONDS = 1.0
THROUGHPUT, DURATION = "SchedulingThroughput", "SchedulingDuration"
ATTEMPT_DURATION = "scheduler_scheduling_attempt_duration_seconds"
ATTEMPTS, WRITES = "SchedulerAttempts", "SchedulerWrites"
"""Bayplan's own metrics: attempts, and requests of the scheduler that change objects, per pod that was bound."""
PERCENTILES = (50, 90, 95, 99)
RESULTS = ("scheduled", "unschedulable", "error")
"""The results of an attempt."""


class Durations(Protocol):
    """Seconds, from which an average and quantiles are computed."""

    @property
    def count(self) -> int:
        """How many there are."""

    def average(self) -> float:
        """Their average."""

    def quantile(self, share: float) -> float:
        """The value that a share of them doesn't exceed."""


Attempts = Mapping[str, Durations]
"""The durations of attempts by result."""


@dataclass(frozen=True, slots=True)
class KnownDurations:
    """Durations that are all known."""

    seconds: Sequence[float]

    @property
    def count(self) -> int:
        """How many durations are known."""
        return len(self.seconds)

    def average(self) -> float:
        """Their average in seconds."""
        return sum(self.seconds) / len(self.seconds)

    def quantile(self, share: float) -> float:
        """The duration that a share of them doesn't exceed."""
        return percentile(self.seconds, 100 * share)


@dataclass(frozen=True, slots=True)
class Bucketed:
    """Durations in a Prometheus histogram: their number by bucket, and their sum."""

    bounds: Sequence[float]
    """The upper bounds in ascending order, the last one infinite."""
    counts: Sequence[int]
    """By bucket, not cumulative."""
    sum: float

    @property
    def count(self) -> int:
        """How many durations all buckets have."""
        return sum(self.counts)

    def average(self) -> float:
        """The exact average, as the histogram has the sum."""
        return self.sum / self.count

    def quantile(self, share: float) -> float:
        """Interpolate within a bucket, as histogram_quantile of Prometheus does."""
        rank, below = share * self.count, 0
        lower = 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if below + count >= rank and count:
                return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / count
            below, lower = below + count, bound
        return lower

    def since(self, before: Bucketed) -> Bucketed:
        """The durations that were added after `before`."""
        counts = [now - then for now, then in zip(self.counts, before.counts, strict=True)]
        return Bucketed(self.bounds, counts, self.sum - before.sum)


@dataclass(frozen=True, slots=True)
class Counters:
    """What a scheduler has counted so far.

    `attempts`: the durations of its attempts by result. `writes`: the number of its requests that change objects; None
    if it doesn't count them.
    """

    attempts: Attempts = field(default_factory=dict)
    writes: int | None = None

    def since(self, before: Counters) -> Counters:
        """What was added after `before`."""
        added: dict[str, Durations] = {}
        for result, durations in self.attempts.items():
            then = before.attempts.get(result)
            if isinstance(durations, Bucketed) and isinstance(then, Bucketed):
                added[result] = durations.since(then)
            elif isinstance(durations, KnownDurations):
                added[result] = KnownDurations(durations.seconds[then.count if then else 0 :])
            else:
                added[result] = durations
        return Counters(added, None if self.writes is None else self.writes - (before.writes or 0))


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured between two operations, in seconds of the place's clock.

    `seconds`: how long it took. `bound_at`: when pods were bound, ascending, since the beginning. `counters`: what the
    scheduler counted meanwhile.
    """

    name: str
    seconds: float
    bound_at: Sequence[float]
    counters: Counters = field(default_factory=Counters)

    @property
    def attempts(self) -> Attempts:
        """The durations of attempts by result."""
        return self.counters.attempts

    @property
    def attempts_per_pod(self) -> float | None:
        """The scheduler's attempts, by the pods that were bound; None if it is unknown."""
        attempts = sum(durations.count for durations in self.attempts.values())
        return attempts / self.scheduled if attempts and self.scheduled else None

    @property
    def writes_per_pod(self) -> float | None:
        """The scheduler's requests that changed objects, by the pods that were bound; None if it is unknown."""
        writes = self.counters.writes
        return None if writes is None or not self.scheduled else writes / self.scheduled

    @property
    def scheduled(self) -> int:
        """How many pods were bound."""
        return len(self.bound_at)

    @property
    def average(self) -> float:
        """Pods per second, from the beginning until the last pod was bound."""
        return self.scheduled / self.bound_at[-1] if self.bound_at and self.bound_at[-1] else 0.0

    def throughputs(self) -> list[float]:
        """Pods per second, sampled each second while pods are bound; or ten times, if that took less than ten seconds.

        As upstream, an interval without a pod isn't a sample of 0: the next sample is the average since the last one.
        """
        if not self.bound_at or not self.bound_at[-1]:
            return []
        interval = min(SAMPLE_SECONDS, self.bound_at[-1] / 10)
        counts, _ = np.histogram(self.bound_at, bins=np.arange(0.0, self.bound_at[-1] + interval / 2, interval))
        samples: list[float] = []
        skipped = 0
        for count in counts.tolist():
            skipped += 1
            if count:
                samples += [count / (skipped * interval)] * skipped
                skipped = 0
        return samples

    def items(self, **labels: str) -> list[dict[str, Any]]:
        """The measurement as scheduler_perf's DataItems, with these labels. Durations of attempts are milliseconds."""
        items = []
        if samples := sorted(self.throughputs()):
            values = {"Average": self.average}
            values |= {f"Perc{percent}": percentile(samples, percent) for percent in PERCENTILES}
            items.append(self._item(THROUGHPUT, "pods/s", values, **labels))
        for result, durations in self.attempts.items():
            if durations.count:
                values = {f"Perc{percent}": 1000 * durations.quantile(percent / 100) for percent in PERCENTILES}
                values["Average"] = 1000 * durations.average()
                items.append(self._item(ATTEMPT_DURATION, "ms", values, result=result, **labels))
        for metric, number in ((ATTEMPTS, self.attempts_per_pod), (WRITES, self.writes_per_pod)):
            if number is not None:
                items.append(self._item(metric, "1/pod", {"Average": number}, **labels))
        return [*items, self._item(DURATION, "s", {"Duration": self.seconds}, **labels)]

    def _item(self, metric: str, unit: str, data: Mapping[str, float], **labels: str) -> dict[str, Any]:
        return {"data": dict(data), "unit": unit, "labels": {"Name": self.name, "Metric": metric, **labels}}


def data_items(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The document that perf-dash reads. All items get the same labels. Mirrors dataItems2JSONFile."""
    names = sorted({name for item in items for name in item["labels"]})
    labelled = [item | {"labels": {n: item["labels"].get(n, "not applicable") for n in names}} for item in items]
    return {"version": "v1", "dataItems": labelled}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value of the nearest rank, as upstream computes percentiles."""
    ascending = sorted(values)
    return ascending[max(0, math.ceil(len(ascending) * percent / 100) - 1)]
