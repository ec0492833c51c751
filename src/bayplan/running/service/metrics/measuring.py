"""Counters and durations that the scheduler records as it works. No decision depends on them.

The duration of each decision is appended to a list, which is sorted into buckets on a scrape or after 1,000 decisions.
Names, labels and buckets mirror pkg/scheduler/metrics/metrics.go.
"""

from __future__ import annotations

import math
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Binding, Stopwatch
from bayplan.core.framework.calling import Caller, call
from bayplan.core.framework.events import ClusterEvent, Hint, HintFunction
from bayplan.core.framework.status import Code, Status
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Decision, Plan
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.failures import Failures
from bayplan.running.service.metrics.instruments import Histogram, Histograms, exponential_buckets
from bayplan.running.service.metrics.plugin_measurements import PluginMeasurements
from bayplan.running.service.metrics.plugin_times import Evaluated, PluginTimes, Seconds, Timed, fold
from bayplan.running.service.metrics.request_measurements import RequestMeasurements
from bayplan.running.service.metrics.sampling import Sampler

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
"""The results of an attempt."""

_SAMPLED = 0.05
"""The share of attempts, hints and PreEnqueue calls that are timed."""
_FOLD_AT = 1000
"""How many decisions, or timed calls of PreEnqueue, are recorded before they are folded into histograms."""
_MOST_ATTEMPTS = 15
_ATTEMPTS_LABELS = [*((str(number),) for number in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",)]

_ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
_PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
_LONG_BUCKETS = exponential_buckets(0.01, 2, 20)


class Metrics:
    """One scheduler's measurements, recorded in its event loop's thread. Times are in seconds.

    `sampled` is the share of attempts in which plugins are timed. To save time, the values of every decision are only
    appended to lists. `fold` adds them to the histograms in bulk, at the latest before a scrape, so that all counts are
    then exact.
    """

    def __init__(
        self, clock: Clock | None = None, *, sampled: float = _SAMPLED, rng: random.Random | None = None
    ) -> None:
        self.now = (clock or SystemClock()).monotonic
        sampling = Sampler(sampled, rng)
        self.stopwatches = sampling.samples(lambda number: PluginTimes(self.now, self._timed.append, number))
        """For each attempt, a stopwatch for its plugins, or None for attempts that are not sampled."""
        self._due = sampling.samples(bool)
        """For each hint or call of PreEnqueue, whether to time it."""
        self.new_decisions: list[float] = []
        """The durations of the decisions since the last `fold`."""
        self._bound: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        """For each bound pod, by profile: seconds since the attempt began, seconds since the pod first became active,
        and the number of attempts.

        Stored as plain numbers: references to the pods would cause cache misses when they are folded.
        """
        self._timed: list[Timed] = []
        self._pre_enqueue_times: list[PluginTimes] = []
        """Stopwatches of PreEnqueue calls since the last `fold`."""
        self.attempts = Histograms(_ATTEMPT_BUCKETS)
        """Attempts, by result and profile, from the queue to the end of the binding."""
        self.decisions = Histogram(_ATTEMPT_BUCKETS)
        """Attempts, from the queue to the decision."""
        self.evaluated: Counter[Evaluated] = Counter()
        """The plugins consulted. Sampled: each sample also counts for the attempts since the previous one."""
        self.attempts_of_pods = Histogram(exponential_buckets(1, 2, 5))
        """The number of attempts it took to bind a pod."""
        self.pod_durations = Histograms(_LONG_BUCKETS)
        """From when a pod first became active to its binding, by number of attempts."""
        self.scheduled_after_flush = 0
        self.preemption_attempts = 0
        self.victims = Histogram(exponential_buckets(1, 2, 7))
        self.evictions = Histograms(_LONG_BUCKETS)
        """Executed preemptions, by result."""
        self.points = Histograms(_POINT_BUCKETS)
        """Extension points, by point, status and profile. Sampled."""
        self.plugins = Histograms(_PLUGIN_BUCKETS)
        """Calls of plugins, by plugin, point and status. Sampled."""
        self.hints = Histograms(_PLUGIN_BUCKETS)
        """Queueing hints, by plugin, event and result. Sampled."""
        self.permit_waits = Histograms(_ATTEMPT_BUCKETS)
        """How long pods waited in Permit, by final status."""
        self.events = Histograms(_POINT_BUCKETS)
        """The handling of watch events, by event."""
        self.requests = RequestMeasurements()
        self.failures = Failures()
        """Failures of background work."""
        self.plugin_measurements = PluginMeasurements()
        """The plugins' own metrics."""
        self.leading: dict[str, Callable[[], bool]] = {}
        """By the name of the lease, a thread-safe function that returns whether this process leads."""

    # Attempts

    def stopwatch(self) -> PluginTimes | None:
        """Return the stopwatch of the next attempt; None if it is not sampled."""
        return next(self.stopwatches)

    def attempted(self, plan: Plan, pods: Mapping[str, QueuedPod], times: Stopwatch | None) -> None:
        """Record an attempt. `pods`: those of its unit, by uid. `times`: the stopwatch, if the attempt was sampled."""
        now = self.now()
        for decision in plan.decisions:
            self.new_decisions.append(now - pods[decision.pod.uid].popped_at)
        if plan.unit.gang is None:
            decision = plan.decisions[0]
            if times is not None:
                self.timed(pods[decision.pod.uid], decision, times)
            if not decision.node:
                self.not_placed(decision)

    def timed(self, queued: QueuedPod, decision: Decision, times: Stopwatch) -> None:
        """Record a decision of a sampled attempt. `times` is its stopwatch."""
        times.profile = profile = queued.pod.scheduler_name
        filtered, scored = (
            decision.node is not None or decision.diagnosis.verdicts is not None,
            decision.scores is not None,
        )
        skipped = frozenset(decision.cycle.skip_filter), frozenset(decision.cycle.skip_score)
        self.evaluated[Evaluated(profile, filtered, scored, *skipped)] += times.weight

    def not_placed(self, decision: Decision) -> None:
        """Record a decision without a node."""
        if decision.victims or decision.diagnosis.post_filter_message:
            self.preemption_attempts += 1
            if decision.victims:
                self.victims.observe(len(decision.victims))

    def ended(self, binding: Binding, status: Status) -> None:
        """Record the end of a binding cycle."""
        if status.code is Code.SUCCESS:
            self.bound(binding.queued)

    def bound(self, queued: QueuedPod) -> None:
        """Record a bound pod."""
        now, began = self.now(), queued.initial_attempt_at
        since_first = math.nan if began is None else now - began
        self._bound[queued.pod.scheduler_name].extend((now - queued.popped_at, since_first, queued.attempts))
        if queued.was_flushed:
            self.scheduled_after_flush += 1
        self._fold_if_many()

    def failed(self, queued: QueuedPod, *, error: bool) -> None:
        """Record an attempt after which the pod is pending: no node can run it, or there was an error."""
        self.attempts[ERROR if error else UNSCHEDULABLE, queued.pod.scheduler_name].observe(
            self.now() - queued.popped_at
        )
        self._fold_if_many()

    def _fold_if_many(self) -> None:
        if len(self.new_decisions) >= _FOLD_AT:
            self.fold()

    def fold(self) -> None:
        """Add all new values to the histograms. Call it in the scheduler's thread before the metrics are read."""
        self.decisions.observe_all(self.new_decisions)
        self.new_decisions.clear()
        self._fold_bound()
        for times in self._pre_enqueue_times:  # the calls have returned by now
            times.finish()
        self._pre_enqueue_times.clear()
        plugins, points = Seconds(list), Seconds(list)
        fold(self._timed, plugins, points)
        self._timed.clear()
        self.plugins.observe_all(plugins)
        self.points.observe_all(points)

    def _fold_bound(self) -> None:
        for profile, noted in self._bound.items():
            seconds, since_first, attempts = np.array(noted).reshape(-1, 3).T
            self.attempts[SCHEDULED, profile].observe_all(seconds)
            self.attempts_of_pods.observe_all(attempts)
            labels = np.where(np.isnan(since_first), -1, np.minimum(attempts, _MOST_ATTEMPTS)).astype(np.intp)
            for label in np.flatnonzero(np.bincount(labels[labels >= 0])).tolist():
                self.pod_durations[_ATTEMPTS_LABELS[label]].observe_all(since_first[labels == label])
        self._bound.clear()

    # Outside of attempts

    def permit_waited(self, code: Code, began: float) -> None:
        """Record the end of a wait in Permit."""
        self.permit_waits[str(code),].observe(self.now() - began)

    def evicted(self, began: float, *, success: bool) -> None:
        """Record an executed preemption."""
        self.evictions["success" if success else "error",].observe(self.now() - began)

    def handled(self, event: str, began: float) -> None:
        """Record the handling of a watch event."""
        self.events[event,].observe(self.now() - began)

    def pre_enqueue_caller(self, pod: PodInfo) -> Caller:
        """The caller for a pod's PreEnqueue plugins; for samples, one that measures them."""
        if not next(self._due):
            return call
        if len(self._pre_enqueue_times) >= _FOLD_AT:
            self.fold()
        times = PluginTimes(self.now, self._timed.append)
        times.profile = pod.scheduler_name
        self._pre_enqueue_times.append(times)
        return times.call

    def ask_hint(
        self, hint: HintFunction, plugin: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object, /
    ) -> object:
        """Call a hint, and time it if it is sampled."""
        if not next(self._due):
            return hint(queued.pod, old, new)
        began, label = self.now(), "Error"
        try:
            answer: object = hint(queued.pod, old, new)
            if isinstance(answer, Hint):
                label = answer.value
            return answer
        finally:
            self.hints[plugin, event.label, label].observe(self.now() - began)
