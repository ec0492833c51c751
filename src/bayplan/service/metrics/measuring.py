"""What the scheduler counts and times while it works. Nothing here is ever looked at by a decision.

Names, labels and buckets mirror pkg/scheduler/metrics/metrics.go.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import Caller, call
from bayplan.framework.events import ClusterEvent, Hint, HintFunction
from bayplan.framework.status import Code
from bayplan.queue import QueuedPod
from bayplan.scheduling import Decision
from bayplan.service.clock import Clock, SystemClock
from bayplan.service.metrics.instruments import Histogram, Histograms, exponential_buckets
from bayplan.service.metrics.plugin_times import Evaluated, PluginTimes, Seconds

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
"""How an attempt ended."""

_SAMPLED = 0.1
"""The share of cycles, hints and PreEnqueue calls in which plugins are timed."""
_FOLD_AT = 500
"""So many attempts are timed before they are sorted into buckets."""
_MOST_ATTEMPTS = 15
_ATTEMPTS_LABELS = [*((str(number),) for number in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",)]

_ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
_PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
_LONG_BUCKETS = exponential_buckets(0.01, 2, 20)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REQUEST_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class Metrics:
    """One scheduler's measurements, all made in its event loop's thread. Times are seconds.

    `now` is the clock that they are made by; `sampled` the share of what is measured in some cases only. What happens
    with every decision is noted as it is, and sorted into buckets many at a time, by `fold`: then it costs a third.
    """

    def __init__(
        self, clock: Clock | None = None, *, sampled: float = _SAMPLED, rng: random.Random | None = None
    ) -> None:
        self.now = (clock or SystemClock()).monotonic
        self._sampled = sampled
        self._random = (rng or random.Random()).random
        self._unmeasured = self._until_next()
        """How many attempts are not to be timed before the next one is."""
        self._unmeasured_hints = self._until_next()
        """The same of hints and PreEnqueue calls."""
        self._unsampled = 0
        """How many attempts there were since the last that was timed."""
        self._decided: list[float] = []
        self._bound: list[tuple[str, float, float | None, int]] = []
        self._timed: list[PluginTimes] = []
        self._let_in: list[PluginTimes] = []
        self.attempts = Histograms(_ATTEMPT_BUCKETS)
        """Attempts to schedule a pod, by result and profile: from the queue to the end of its binding."""
        self.decisions = Histogram(_ATTEMPT_BUCKETS)
        """Decisions, from the queue to the decision."""
        self.evaluated: Counter[Evaluated] = Counter()
        """Which plugins decisions asked; sampled, and each sample counts for all attempts since the one before."""
        self.attempts_of_pods = Histogram(exponential_buckets(1, 2, 5))
        """How many attempts pods took that were bound."""
        self.pod_durations = Histograms(_LONG_BUCKETS)
        """From a pod's first attempt, which it may wait for, to its binding, by the number of attempts."""
        self.scheduled_after_flush = 0
        self.preemption_attempts = 0
        self.victims = Histogram(exponential_buckets(1, 2, 7))
        self.evictions = Histograms(_LONG_BUCKETS)
        """Preemptions carried out, by result."""
        self.points = Histograms(_POINT_BUCKETS)
        """Extension points, by point, status and profile; sampled."""
        self.plugins = Histograms(_PLUGIN_BUCKETS)
        """Plugins, by plugin, point and status; sampled."""
        self.hints = Histograms(_PLUGIN_BUCKETS)
        """Queueing hints, by plugin, event and answer; sampled."""
        self.permit_waits = Histograms(_ATTEMPT_BUCKETS)
        """How long pods waited in Permit, by the status that ended it."""
        self.events = Histograms(_POINT_BUCKETS)
        """How long it took to take over what the server told, by event."""
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """Requests to the API server, by status code, method and host."""
        self.request_seconds = Histograms(_REQUEST_SECONDS)
        """The same, by method and host."""
        self.request_bytes = Histograms(_REQUEST_BYTES)
        self.response_bytes = Histograms(_REQUEST_BYTES)
        self.rate_limited = Histograms(_REQUEST_SECONDS)
        self.leading: dict[str, Callable[[], bool]] = {}
        """How to find out, in any thread, whether this process leads, by the name of the lease."""

    # An attempt

    def sample(self, profile: str) -> PluginTimes | None:
        """A stopwatch for the plugins of an attempt; None for most attempts, in which they are not timed."""
        if self._unmeasured:
            self._unmeasured -= 1
            return None
        gap = self._until_next()
        times = PluginTimes(profile, self.now, self._timed_one, stands_for=self._unsampled + 1)
        self._unmeasured = self._unsampled = gap
        return times

    def _until_next(self) -> int:
        """Drawn so that each attempt has the same chance: one random number a gap, not one an attempt."""
        if self._sampled >= 1:
            return 0
        return int(math.log(1.0 - self._random()) / math.log(1.0 - self._sampled))

    def _timed_one(self, times: PluginTimes) -> None:
        self._timed.append(times)
        if len(self._timed) > _FOLD_AT:
            self.fold()

    def decided(self, queued: QueuedPod, decision: Decision, times: PluginTimes | None) -> None:
        """A decision was made about a pod. `times` as `sample` gave it."""
        self._decided.append(self.now() - queued.popped_at)
        if not decision.node and (decision.victims or decision.diagnosis.post_filter_message):
            self.preemption_attempts += 1
            if decision.victims:
                self.victims.observe(len(decision.victims))
        if times is not None:
            times.decided(decision)

    def bound(self, queued: QueuedPod) -> None:
        """A pod was bound."""
        now, began = self.now(), queued.initial_attempt_at
        self._bound.append(
            (
                queued.pod.scheduler_name,
                now - queued.popped_at,
                None if began is None else now - began,
                queued.attempts,
            )
        )
        if queued.was_flushed:
            self.scheduled_after_flush += 1

    def fold(self) -> None:
        """Sort into buckets what was noted since the last time. For the scheduler's thread, before somebody reads."""
        decided, self._decided = self._decided, []
        self.decisions.observe_all(decided)
        bound, self._bound = self._bound, []
        attempts, durations = Seconds(list), Seconds(list)
        for profile, seconds, since_first, number in bound:
            attempts[SCHEDULED, profile].append(seconds)
            if since_first is not None:
                durations[_ATTEMPTS_LABELS[min(number, _MOST_ATTEMPTS)]].append(since_first)
        self.attempts.observe_all(attempts)
        self.pod_durations.observe_all(durations)
        self.attempts_of_pods.observe_all([number for *_, number in bound])
        let_in, self._let_in = self._let_in, []
        for times in let_in:  # nobody tells when the queue is through with one, but by now it is
            times.finish()
        plugins, points = Seconds(list), Seconds(list)
        for times in self._timed:
            times.fold(plugins, points, self.evaluated)
        self._timed.clear()
        self.plugins.observe_all(plugins)
        self.points.observe_all(points)

    def failed(self, queued: QueuedPod, result: str) -> None:
        """An attempt ended without a binding: UNSCHEDULABLE or ERROR."""
        self.attempts[result, queued.pod.scheduler_name].observe(self.now() - queued.popped_at)

    # Around it

    def permit_waited(self, code: Code, began: float) -> None:
        """A pod waits in Permit no more."""
        self.permit_waits[str(code),].observe(self.now() - began)

    def evicted(self, began: float, *, success: bool) -> None:
        """A preemption was carried out, or was not."""
        self.evictions["success" if success else "error",].observe(self.now() - began)

    def handled(self, event: str, began: float) -> None:
        """What the server told was taken over."""
        self.events[event,].observe(self.now() - began)

    def pre_enqueue_caller(self, pod: PodInfo) -> Caller:
        """Who calls the PreEnqueue plugins for a pod: a stopwatch, now and then."""
        if not self._due():
            return call
        if len(self._let_in) > _FOLD_AT:
            self.fold()
        times = PluginTimes(pod.scheduler_name, self.now, self._timed.append)
        self._let_in.append(times)
        return times.call

    def ask_hint(
        self, hint: HintFunction, plugin: str, pod: PodInfo, event: ClusterEvent, old: object, new: object, /
    ) -> object:
        """Asks a hint, and times some of them."""
        if not self._due():
            return hint(pod, old, new)
        began, label = self.now(), "Error"
        try:
            answer: object = hint(pod, old, new)
            if isinstance(answer, Hint):
                label = answer.value
            return answer
        finally:
            self.hints[plugin, event.label, label].observe(self.now() - began)

    def _due(self) -> bool:
        if self._unmeasured_hints:
            self._unmeasured_hints -= 1
            return False
        self._unmeasured_hints = self._until_next()
        return True

    def requested(self, method: str, host: str, code: str, seconds: float, sent: int, received: int) -> None:
        """A request to the API server has ended. `code` is its status, or `<error>` where no answer came. Bytes."""
        self.requests[code, method, host] += 1
        labels = method, host
        self.request_seconds[labels].observe(seconds)
        self.request_bytes[labels].observe(sent)
        self.response_bytes[labels].observe(received)

    def waited(self, method: str, host: str, seconds: float) -> None:
        """A request to the API server had its turn in the client's own rate limit."""
        self.rate_limited[method, host].observe(seconds)
