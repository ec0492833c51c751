"""What the scheduler counts and times while it works. Nothing here is ever looked at by a decision.

Names, labels and buckets mirror pkg/scheduler/metrics/metrics.go.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import call
from bayplan.framework.events import ClusterEvent, Hint, HintFunction
from bayplan.framework.interface import CycleState
from bayplan.framework.status import Code
from bayplan.queue import QueuedPod
from bayplan.scheduling import Decision
from bayplan.service.clock import Clock, SystemClock
from bayplan.service.metrics.instruments import Histogram, Histograms, exponential_buckets
from bayplan.service.metrics.plugin_times import PluginTimes

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
"""How an attempt ended."""

_SAMPLED = 0.1
"""The share of cycles, hints and PreEnqueue calls in which plugins are timed."""
_MOST_ATTEMPTS = 15
_ATTEMPTS_LABELS = [*((str(number),) for number in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",)]

_ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
_PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
_LONG_BUCKETS = exponential_buckets(0.01, 2, 20)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REQUEST_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


@dataclass(slots=True)
class Evaluated:
    """How many decisions came as far as each other, and left out the same plugins."""

    filtered: bool
    scored: bool
    skip_filter: frozenset[str]
    skip_score: frozenset[str]
    number: int = 0

    def same(self, cycle: CycleState, filtered: bool, scored: bool) -> bool:
        """Whether a decision is of this kind."""
        return (
            self.skip_filter == cycle.skip_filter
            and self.skip_score == cycle.skip_score
            and self.scored is scored
            and self.filtered is filtered
        )


class Metrics:
    """One scheduler's measurements, all made in its event loop's thread. Times are seconds.

    `now` is the clock that they are made by; `sampled` the share of what is measured in some cases only.
    """

    def __init__(
        self, clock: Clock | None = None, *, sampled: float = _SAMPLED, rng: random.Random | None = None
    ) -> None:
        self.now = (clock or SystemClock()).monotonic
        self._sampled = sampled
        self._random = (rng or random.Random()).random
        self._unmeasured = self._until_next()
        """How many attempts or hints are not to be timed before the next one is."""
        self.attempts = Histograms(_ATTEMPT_BUCKETS)
        """Attempts to schedule a pod, by result and profile: from the queue to the end of its binding."""
        self.decisions = Histogram(_ATTEMPT_BUCKETS)
        """Decisions, from the queue to the decision."""
        self.evaluated: dict[str, list[Evaluated]] = {}
        """By profile, which plugins decisions asked."""
        self._latest: dict[str, Evaluated] = {}
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
        self.leading: dict[str, bool] = {}
        """Whether this process leads, by the name of the lease."""

    # An attempt

    def sample(self, profile: str) -> PluginTimes | None:
        """A stopwatch for the plugins of an attempt; None for most attempts, in which they are not timed."""
        if not self._due():
            return None
        return PluginTimes(self.plugins, self.points, profile, self.now)

    def _due(self) -> bool:
        if self._unmeasured:
            self._unmeasured -= 1
            return False
        self._unmeasured = self._until_next()
        return True

    def _until_next(self) -> int:
        """Drawn so that each attempt has the same chance: a random number a gap, not one an attempt."""
        if self._sampled >= 1:
            return 0
        return int(math.log(1.0 - self._random()) / math.log(1.0 - self._sampled))

    def decided(self, queued: QueuedPod, decision: Decision) -> None:
        """A decision was made about a pod."""
        self.decisions.observe(self.now() - queued.popped_at)
        diagnosis = decision.diagnosis
        self._evaluated(
            queued.pod.scheduler_name,
            decision.cycle,
            decision.node != "" or diagnosis.verdicts is not None,
            decision.scores is not None,
        )
        if decision.victims or diagnosis.post_filter_message:
            self.preemption_attempts += 1
            if decision.victims:
                self.victims.observe(len(decision.victims))

    def _evaluated(self, profile: str, cycle: CycleState, filtered: bool, scored: bool) -> None:
        """Note which plugins had a say. Most decisions are like the one before: looking for that costs least."""
        kind = self._latest.get(profile)
        if kind is None or not kind.same(cycle, filtered, scored):
            kinds = self.evaluated.setdefault(profile, [])
            kind = next((kind for kind in kinds if kind.same(cycle, filtered, scored)), None)
            if kind is None:
                kind = Evaluated(filtered, scored, frozenset(cycle.skip_filter), frozenset(cycle.skip_score))
                kinds.append(kind)
            self._latest[profile] = kind
        kind.number += 1

    def bound(self, queued: QueuedPod) -> None:
        """A pod was bound."""
        now, attempts = self.now(), queued.attempts
        self.attempts[SCHEDULED, queued.pod.scheduler_name].observe(now - queued.popped_at)
        self.attempts_of_pods.observe(attempts)
        if queued.initial_attempt_at is not None:
            self.pod_durations[_ATTEMPTS_LABELS[min(attempts, _MOST_ATTEMPTS)]].observe(now - queued.initial_attempt_at)
        if queued.was_flushed:
            self.scheduled_after_flush += 1

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

    def call_pre_enqueue(self, plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
        """A `Caller` for PreEnqueue plugins, whose one argument is the pod: times some of the calls."""
        times = self.sample(arguments[0].scheduler_name)
        if times is None:
            return call(plugin, point, method, *arguments)
        try:
            return times.call(plugin, point, method, *arguments)
        finally:
            times.finish()

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
