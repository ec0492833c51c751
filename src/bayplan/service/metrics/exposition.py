"""Both sources of metrics as Prometheus collectors: each name with its help, its type and its labels.

Mirrors pkg/scheduler/metrics/metrics.go; docs/metrics.md says which of upstream's names are not here, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from bayplan.framework.profile import Point, Profile
from bayplan.queue import Place
from bayplan.service.metrics.instruments import Histogram, Histograms
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.metrics.plugin_times import Evaluated
from bayplan.service.metrics.process import BuildCollector, LimitsAndTraffic
from bayplan.service.metrics.snapshot import Snapshot
from bayplan.service.watchdog import Watchdog


def build_registry(
    metrics: Metrics, snapshot: Callable[[], Snapshot | None], watchdog: Watchdog | None = None
) -> CollectorRegistry:
    """A registry of its own for one scheduler. `snapshot` may wait, and answers None when there is nothing to see."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SchedulerCollector(metrics, snapshot))
    if watchdog is not None:
        registry.register(WatchdogCollector(watchdog))
    registry.register(BuildCollector())
    registry.register(LimitsAndTraffic())
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class SchedulerCollector:
    """What was measured while the scheduler worked, and what is read off its state."""

    def __init__(self, metrics: Metrics, snapshot: Callable[[], Snapshot | None]) -> None:
        self._metrics = metrics
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Every family, those without samples too; of a scheduler that does not run yet there is no state."""
        snapshot = self._snapshot()  # first of all: making one also sorts what was measured
        yield from self._attempts()
        yield from self._plugins()
        yield from self._requests()
        yield _counter(
            "bayplan_background_failures",
            "Failures of work in the background, such as a write with an unusable reply, by the work and the error.",
            ("work", "error"),
            self._metrics.failures.counts,
        )
        if snapshot is not None:
            yield from self._queue(snapshot)
            yield from self._rest(snapshot)

    def _attempts(self) -> Iterator[Metric]:
        metrics = self._metrics
        attempts = dict(metrics.attempts)
        yield _counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by the result: 'unschedulable' means that a pod found no place, 'error' that "
            "something broke.",
            ("result", "profile"),
            {labels: histogram.count for labels, histogram in attempts.items()},
        )
        yield _histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt: decision and binding.",
            ("result", "profile"),
            attempts,
        )
        yield _histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Duration of a decision.", (), {(): metrics.decisions}
        )
        yield _histogram(
            "scheduler_pod_scheduling_attempts",
            "How many attempts pods took that were bound.",
            (),
            {(): metrics.attempts_of_pods},
        )
        yield _histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Duration from a pod's entry into the queue to its binding, over all of its attempts.",
            ("attempts",),
            metrics.pod_durations,
        )
        yield _counter(
            "scheduler_pod_scheduled_after_flush",
            "Pods that were bound after they had waited so long that they were tried without an event.",
            (),
            {(): metrics.scheduled_after_flush},
        )
        yield _counter("scheduler_preemption_attempts", "Attempts to make room.", (), {(): metrics.preemption_attempts})
        yield _histogram("scheduler_preemption_victims", "Victims of a preemption.", (), {(): metrics.victims})
        yield _histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration of carrying out a preemption.",
            ("result",),
            metrics.evictions,
        )
        yield _counter(
            "scheduler_preemption_goroutines_execution",
            "Preemptions carried out, by the result.",
            ("result",),
            {labels: histogram.count for labels, histogram in dict(metrics.evictions).items()},
        )

    def _plugins(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield _histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of all plugins of an extension point, of a sample of the attempts.",
            ("extension_point", "status", "profile"),
            metrics.points,
        )
        yield _histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of one call of a plugin at an extension point, of a sample of the attempts.",
            ("plugin", "extension_point", "status"),
            metrics.plugins,
        )
        yield _histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration of a queueing hint, of a sample.",
            ("plugin", "event", "hint"),
            metrics.hints,
        )
        yield _histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting in Permit.",
            ("result",),
            metrics.permit_waits,
        )
        yield _histogram(
            "scheduler_event_handling_duration_seconds",
            "Duration of taking over what the API server told.",
            ("event",),
            metrics.events,
        )

        for counted in metrics.of_plugins.counts():
            name = counted.name.removesuffix("_total")
            yield _counter(name, counted.help, counted.labels, counted.samples)
        for timed in metrics.of_plugins.seconds():
            yield _histogram(timed.name, timed.help, timed.labels, timed.samples)

    def _requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield _counter(
            "rest_client_requests",
            "Requests to the API server, by status code, method and host.",
            ("code", "method", "host"),
            metrics.requests,
        )
        for name, text, histograms in (
            ("request_duration_seconds", "Duration of requests to the API server.", metrics.request_seconds),
            ("request_size_bytes", "Size of requests to the API server.", metrics.request_bytes),
            ("response_size_bytes", "Size of the API server's answers, watches excepted.", metrics.response_bytes),
            ("rate_limiter_duration_seconds", "Waiting for the client's own rate limit.", metrics.rate_limited),
        ):
            yield _histogram(f"rest_client_{name}", text, ("verb", "host"), histograms)
        yield _gauge(
            "leader_election_master_status",
            "Whether this process holds the lease (1) or not (0).",
            ("name",),
            {(name,): float(leads()) for name, leads in dict(metrics.leading).items()},
        )

    def _queue(self, snapshot: Snapshot) -> Iterator[Metric]:
        pending = snapshot.pending
        yield _gauge(
            "scheduler_pending_pods",
            "Pods that wait, by where: 'active' are to be tried now, 'backoff' when some time is over, 'unschedulable' "
            "after an event that may help them, 'gated' when they are let in.",
            ("queue",),
            {
                ("active",): pending.active,
                ("backoff",): pending.backoff,
                ("unschedulable",): pending.unschedulable,
                ("gated",): pending.gated,
            },
        )
        yield _counter(
            "scheduler_queue_incoming_pods",
            "Pods that came to a place of the queue, by what brought them there.",
            ("queue", "event"),
            # Upstream has no place of its own for gated pods: they are among the unschedulable.
            _summed(
                ((("unschedulable" if place is Place.GATED else place.value), event), number)
                for (place, event), number in snapshot.incoming.items()
            ),
        )
        yield _gauge(
            "scheduler_unschedulable_pods",
            "Pods that a plugin turned down. A pod counts for every plugin that did, so the sum over plugins has no "
            "meaning.",
            ("plugin", "profile"),
            snapshot.unschedulable_by_plugin(),
        )
        yield _gauge(
            "scheduler_inflight_events",
            "Events that are remembered for pods in flight; PodPopped are these pods.",
            ("event",),
            {
                **{(label,): number for label, number in snapshot.in_flight_events.items()},
                ("PodPopped",): pending.in_flight,
            },
        )

    def _rest(self, snapshot: Snapshot) -> Iterator[Metric]:
        yield _gauge(
            "scheduler_cache_size",
            "Nodes, pods on nodes, and assumed pods among them.",
            ("type",),
            {
                ("nodes",): snapshot.nodes,
                ("pods",): snapshot.pods,
                ("assumed_pods",): snapshot.assumed_pods,
            },
        )
        yield _gauge(
            "scheduler_goroutines",
            "Tasks by the work that they do.",
            ("operation",),
            {("binding",): snapshot.binding},
        )
        yield _counter(
            "scheduler_plugin_evaluation",
            "Attempts to schedule a pod in which a plugin had a say, by extension point.",
            ("plugin", "extension_point", "profile"),
            _summed(_evaluations(dict(self._metrics.evaluated), snapshot.profiles)),
        )
        yield _counter(
            "scheduler_batch_attempts",
            "Decisions that rested on what earlier pods left (hint_used), and that did not (no_hint).",
            ("profile", "result"),
            {
                (name, result): number
                for name, (used, unused) in snapshot.templates.items()
                for result, number in (("hint_used", used), ("no_hint", unused))
            },
        )
        yield _counter(
            "bayplan_events_dropped",
            "Events that were not written because the API server was too slow for them.",
            (),
            {(): snapshot.dropped_events},
        )


class WatchdogCollector:
    """Who blocks the event loop."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog

    def collect(self) -> Iterator[Metric]:
        """For how long now, and how often so far."""
        yield _gauge(
            "bayplan_event_loop_blocked_seconds",
            "For how long the event loop has been blocked without a break; 0 while it is not.",
            (),
            {(): self._watchdog.blocked_seconds},
        )
        yield _counter(
            "bayplan_event_loop_blocks",
            "How often the event loop was blocked beyond the limit, by who did it.",
            ("culprit",),
            {(culprit,): number for culprit, number in dict(self._watchdog.blocks).items()},
        )


def _evaluations(
    evaluated: Mapping[Evaluated, int], profiles: Mapping[str, Profile]
) -> Iterator[tuple[tuple[str, str, str], int]]:
    for kind, number in evaluated.items():
        asked = [("PreFilter", Point.PRE_FILTER, frozenset[str]())]
        if kind.filtered:
            asked.append(("Filter", Point.FILTER, kind.skip_filter))
        if kind.scored:
            asked += [("PreScore", Point.PRE_SCORE, frozenset[str]()), ("Score", Point.SCORE, kind.skip_score)]
        for label, point, skipped in asked:
            for plugin in profiles[kind.profile].at(point):
                if plugin.name not in skipped:
                    yield (plugin.name, label, kind.profile), number


def _summed(numbers: Iterable[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], int]:
    sums: dict[tuple[str, ...], int] = {}
    for labels, number in numbers:
        sums[labels] = sums.get(labels, 0) + number
    return sums


def _counter(name: str, text: str, labels: Sequence[str], samples: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in dict(samples).items():
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, labels: Sequence[str], samples: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in dict(samples).items():
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, text: str, labels: Sequence[str], samples: Mapping[tuple[str, ...], Histogram] | Histograms
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in dict(samples).items():
        bounds = (*map(floatToGoString, histogram.bounds), "+Inf")
        total = histogram.sum
        family.add_metric(values, list(zip(bounds, accumulate(histogram.counts), strict=True)), total)
    return family
