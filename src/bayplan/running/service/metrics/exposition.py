"""Prometheus collectors for measurements and snapshots: each name with its help, type and labels.

Mirrors pkg/scheduler/metrics/metrics.go. docs/metrics.md lists the names that are missing, with the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from bayplan.core.framework.profile import Point, Profile
from bayplan.core.queue import Place
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.running.service.metrics.instruments import Histogram
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.metrics.plugin_times import Evaluated
from bayplan.running.service.metrics.process import BuildCollector, LimitsAndTraffic
from bayplan.running.service.metrics.snapshot import MetricsSnapshot
from bayplan.running.service.watchdog import Watchdog


def build_registry(
    metrics: Metrics,
    snapshot: Callable[[], MetricsSnapshot | None],
    watchdog: Watchdog | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> CollectorRegistry:
    """A registry for one scheduler. `snapshot` may block, and returns None if the scheduler isn't running yet."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SchedulerCollector(metrics, snapshot, groups=gates.enabled("PodGroupsInTheQueue")))
    if watchdog is not None:
        registry.register(WatchdogCollector(watchdog))
    registry.register(BuildCollector(gates))
    registry.register(LimitsAndTraffic())
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class SchedulerCollector:
    """The scheduler's measurements, and the metrics read from its state. `groups`: whether PodGroups are queued."""

    def __init__(
        self, metrics: Metrics, snapshot: Callable[[], MetricsSnapshot | None], *, groups: bool = False
    ) -> None:
        self._metrics = metrics
        self._snapshot = snapshot
        self._groups = groups

    def collect(self) -> Iterator[Metric]:
        """All families, including those without samples. Those of the state are left out without a snapshot."""
        snapshot = self._snapshot()  # must be first: taking a snapshot also folds the measurements
        yield from self._attempts()
        yield from self._plugins()
        yield from self._requests()
        yield _counter(
            "bayplan_background_failures{work,error}",
            "Failures of plugins and of background work, such as a write with an unusable reply, by work and error.",
            self._metrics.failures.counts,
        )
        if snapshot is not None:
            yield from self._queue(snapshot)
            yield from self._state(snapshot)

    def _attempts(self) -> Iterator[Metric]:
        metrics = self._metrics
        attempts = dict(metrics.attempts)
        yield _counter(
            "scheduler_schedule_attempts{result,profile}",
            "Attempts to schedule pods, by result: 'unschedulable' if no node was feasible, 'error' if it failed.",
            {labels: histogram.count for labels, histogram in attempts.items()},
        )
        yield _histogram(
            "scheduler_scheduling_attempt_duration_seconds{result,profile}",
            "Duration of an attempt, including the binding.",
            attempts,
        )
        yield _histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the decision in an attempt.",
            metrics.decisions,
        )
        yield _histogram(
            "scheduler_pod_scheduling_attempts", "Number of attempts it took to bind a pod.", metrics.attempts_of_pods
        )
        yield _histogram(
            "scheduler_pod_scheduling_sli_duration_seconds{attempts}",
            "Time from when a pod first became active to its binding, over all attempts.",
            metrics.pod_durations,
        )
        yield _counter(
            "scheduler_pod_scheduled_after_flush",
            "Pods that were bound after they were retried because of a long wait, not because of an event.",
            metrics.scheduled_after_flush,
        )
        yield _counter("scheduler_preemption_attempts", "Attempts to preempt pods.", metrics.preemption_attempts)
        yield _histogram("scheduler_preemption_victims", "Number of victims of a preemption.", metrics.victims)
        yield _histogram(
            "scheduler_preemption_goroutines_duration_seconds{result}",
            "Time to evict the victims of a preemption.",
            metrics.evictions,
        )
        yield _counter(
            "scheduler_preemption_goroutines_execution{result}",
            "Executed preemptions, by result.",
            {labels: histogram.count for labels, histogram in dict(metrics.evictions).items()},
        )

    def _plugins(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield _histogram(
            "scheduler_framework_extension_point_duration_seconds{extension_point,status,profile}",
            "Duration of all plugins of an extension point. Sampled.",
            metrics.points,
        )
        yield _histogram(
            "scheduler_plugin_execution_duration_seconds{plugin,extension_point,status}",
            "Duration of a call of a plugin at an extension point. Sampled.",
            metrics.plugins,
        )
        yield _histogram(
            "scheduler_queueing_hint_execution_duration_seconds{plugin,event,hint}",
            "Duration of a queueing hint. Sampled.",
            metrics.hints,
        )
        yield _histogram(
            "scheduler_permit_wait_duration_seconds{result}", "Time that pods wait in Permit.", metrics.permit_waits
        )
        yield _histogram(
            "scheduler_event_handling_duration_seconds{event}",
            "Duration of handling an event of the API server.",
            metrics.events,
        )

        for counter in metrics.plugin_measurements.counts():
            name = counter.name.removesuffix("_total")
            yield _counter(f"{name}{{{','.join(counter.labels)}}}", counter.help, counter.samples)
        for histogram in metrics.plugin_measurements.seconds():
            yield _histogram(f"{histogram.name}{{{','.join(histogram.labels)}}}", histogram.help, histogram.samples)

    def _requests(self) -> Iterator[Metric]:
        requests = self._metrics.requests
        yield _counter(
            "rest_client_requests{code,method,host}",
            "Requests to the API server, by status code, method and host.",
            requests.count,
        )
        for name, text, histograms in (
            ("request_duration_seconds", "Duration of requests to the API server.", requests.seconds),
            ("request_size_bytes", "Size of requests to the API server.", requests.sent_bytes),
            ("response_size_bytes", "Size of the API server's responses, except for watches.", requests.received_bytes),
            (
                "rate_limiter_duration_seconds",
                "Time that requests wait for the client's rate limit.",
                requests.rate_limited,
            ),
        ):
            yield _histogram(f"rest_client_{name}{{verb,host}}", text, histograms)
        yield _gauge(
            "leader_election_master_status{name}",
            "1 if this process holds the lease, 0 otherwise.",
            {(name,): float(leads()) for name, leads in dict(self._metrics.leading).items()},
        )

    def _queue(self, snapshot: MetricsSnapshot) -> Iterator[Metric]:
        pending = snapshot.pending
        yield _gauge(
            "scheduler_pending_pods{queue}",
            "Pending pods: 'active' pods are ready, 'backoff' pods wait for their backoff to end, 'unschedulable' pods "
            "wait for an event that may make them schedulable, 'gated' pods wait until PreEnqueue admits them, and "
            "'pending' pods wait for the end of an attempt of their PodGroup.",
            {
                ("active",): pending.active,
                ("backoff",): pending.backoff,
                ("unschedulable",): pending.unschedulable,
                ("gated",): pending.gated,
                **({("pending",): pending.pending} if self._groups else {}),
            },
        )
        yield _counter(
            "scheduler_queue_incoming_pods{queue,event}",
            "Pods added to a part of the queue, by the event that moved them.",
            _summed(((_entered(place), event), number) for (place, event), number in snapshot.incoming.items()),
        )
        if self._groups:
            waiting, incoming = snapshot.entities
            yield _gauge(
                "scheduler_queued_entities{queue,type}",
                "Entries of the queue: pods by themselves ('pod'), and PodGroups.",
                {(place.value, kind): number for (place, kind), number in waiting.items()},
            )
            yield _counter(
                "scheduler_queue_incoming_entities{queue,event,type}",
                "Pods by themselves, and PodGroups, added to a part of the queue, by the event that moved them.",
                _summed(((_entered(place), event, kind), number) for (place, event, kind), number in incoming.items()),
            )
        yield _gauge(
            "scheduler_unschedulable_pods{plugin,profile}",
            "Pods that a plugin rejected. A pod counts once for each of these plugins, so the sum over plugins is "
            "meaningless.",
            snapshot.unschedulable_by_plugin(),
        )
        yield _gauge(
            "scheduler_inflight_events{event}",
            "Events recorded for pods in flight; PodPopped is the number of these pods.",
            {
                **{(label,): number for label, number in snapshot.in_flight_events.items()},
                ("PodPopped",): pending.in_flight,
            },
        )

    def _state(self, snapshot: MetricsSnapshot) -> Iterator[Metric]:
        yield _gauge(
            "scheduler_cache_size{type}",
            "Number of nodes, of pods on nodes, and of the assumed ones among them.",
            {("nodes",): snapshot.nodes, ("pods",): snapshot.pods, ("assumed_pods",): snapshot.assumed_pods},
        )
        yield _gauge(
            "scheduler_goroutines{operation}", "Running tasks, by operation.", {("binding",): snapshot.binding}
        )
        yield _counter(
            "scheduler_plugin_evaluation{plugin,extension_point,profile}",
            "Attempts in which a plugin was consulted, by extension point.",
            _summed(_evaluations(dict(self._metrics.evaluated), snapshot.profiles)),
        )
        yield _counter(
            "scheduler_batch_attempts{profile,result}",
            "Decisions that reused results of earlier pods (hint_used), and those that didn't (no_hint).",
            {
                (name, result): number
                for name, (used, unused) in snapshot.sharing.items()
                for result, number in (("hint_used", used), ("no_hint", unused))
            },
        )
        yield _counter(
            "bayplan_events_dropped",
            "Events that were dropped because the API server was too slow.",
            snapshot.dropped_events,
        )
        yield _gauge(
            "bayplan_event_lag_seconds",
            "How long ago the oldest event was recorded that is not written yet; 0 if all are written.",
            snapshot.event_lag,
        )
        if snapshot.provisioning is not None:
            stages, places = snapshot.provisioning
            yield _gauge(
                "bayplan_provisioning_requests{stage}",
                "ProvisioningRequests by stage: incomplete, asked, held or ended.",
                {(stage,): float(count) for stage, count in stages.items()},
            )
            yield _gauge("bayplan_provisioning_places_held", "Places on nodes held for pods of requests.", places)
        if snapshot.recording is not None:
            goes_on, written = snapshot.recording
            yield _gauge("bayplan_recording", "Whether the recording of decisions goes on (--record).", float(goes_on))
            yield _counter("bayplan_recorded_bytes", "Bytes of the recording of decisions that were written.", written)


class WatchdogCollector:
    """Blocks of the event loop."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog

    def collect(self) -> Iterator[Metric]:
        """How long the current block has lasted, and the number of blocks."""
        yield _gauge(
            "bayplan_event_loop_blocked_seconds",
            "How long the event loop has been blocked; 0 if it isn't.",
            self._watchdog.blocked_seconds,
        )
        yield _counter(
            "bayplan_event_loop_blocks{culprit}",
            "Blocks of the event loop beyond the limit, by plugin and extension point.",
            {(culprit,): number for culprit, number in dict(self._watchdog.blocks).items()},
        )


def _evaluations(
    evaluated: Mapping[Evaluated, int], profiles: Mapping[str, Profile]
) -> Iterator[tuple[tuple[str, str, str], int]]:
    for kind, number in evaluated.items():
        points = [("PreFilter", Point.PRE_FILTER, frozenset[str]())]
        if kind.filtered:
            points.append(("Filter", Point.FILTER, kind.skip_filter))
        if kind.scored:
            points += [("PreScore", Point.PRE_SCORE, frozenset[str]()), ("Score", Point.SCORE, kind.skip_score)]
        for label, point, skipped in points:
            for plugin in profiles[kind.profile].at(point):
                if plugin.name not in skipped:
                    yield (plugin.name, label, kind.profile), number


def _summed(numbers: Iterable[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], int]:
    sums: dict[tuple[str, ...], int] = {}
    for labels, number in numbers:
        sums[labels] = sums.get(labels, 0) + number
    return sums


def _counter(name: str, text: str, samples: Mapping[Any, float] | float) -> Metric:
    return _filled(CounterMetricFamily, name, text, samples)


def _gauge(name: str, text: str, samples: Mapping[Any, float] | float) -> Metric:
    return _filled(GaugeMetricFamily, name, text, samples)


def _filled(
    make: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, samples: Mapping[Any, float] | float
) -> Metric:
    """A family. `name` may end with its labels, as in `requests{code,method}`; without, `samples` is one number."""
    name, labels = _split(name)
    family = make(name, text, labels=labels)
    for values, value in dict(samples if isinstance(samples, Mapping) else {(): samples}).items():
        family.add_metric(values, value)
    return family


def _histogram(name: str, text: str, samples: Mapping[tuple[str, ...], Histogram] | Histogram) -> Metric:
    name, labels = _split(name)
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in dict(samples if isinstance(samples, Mapping) else {(): samples}).items():
        bounds = (*map(floatToGoString, histogram.bounds), "+Inf")
        total = histogram.sum
        family.add_metric(values, list(zip(bounds, accumulate(histogram.counts), strict=True)), total)
    return family


def _split(name: str) -> tuple[str, list[str]]:
    name, _, labels = name.rstrip("}").partition("{")
    return name, labels.split(",") if labels else []


def _entered(place: Place) -> str:
    """The label of a place that a pod or a group enters. Upstream counts gated ones as unschedulable."""
    return "unschedulable" if place is Place.GATED else place.value
