"""What the scheduler counts and times while it works. Nothing here is ever looked at by a decision.

Names, labels and buckets mirror pkg/scheduler/metrics/metrics.go.
"""

from __future__ import annotations

import math
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import TypeVar

import numpy as np

from bayplan.clock import Clock, SystemClock
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import Caller, call
from bayplan.framework.events import ClusterEvent, Hint, HintFunction
from bayplan.framework.status import Code
from bayplan.queue import QueuedPod
from bayplan.scheduling import Decision, Plan
from bayplan.service.metrics.instruments import Histogram, Histograms, exponential_buckets
from bayplan.service.metrics.of_plugins import PluginMeasurements
from bayplan.service.metrics.plugin_times import Evaluated, PluginTimes, Seconds, Timed, fold

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
"""How an attempt ended."""

_SAMPLED = 0.05
"""The share of cycles, hints and PreEnqueue calls in which plugins are timed."""
_FOLD_AT = 1000
"""So many decisions are noted, or calls of PreEnqueue timed, before they are sorted into buckets."""
_AT_ONCE = 20
"""So many stopwatches are made at a time."""
_MOST_ATTEMPTS = 15
_ATTEMPTS_LABELS = [*((str(number),) for number in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",)]

_ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
_PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
_LONG_BUCKETS = exponential_buckets(0.01, 2, 20)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REQUEST_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


T = TypeVar("T")


class Metrics:
    """One scheduler's measurements, all made in its event loop's thread. Times are seconds.

    `now` is the clock that they are made by; `sampled` the share of what is measured in some cases only. What happens
    with every decision is noted as it is, and sorted into buckets many at a time, by `fold`, which costs less: at the
    latest when somebody scrapes, so that every count is right then.
    """

    def __init__(
        self, clock: Clock | None = None, *, sampled: float = _SAMPLED, rng: random.Random | None = None
    ) -> None:
        self.now = (clock or SystemClock()).monotonic
        self._sampled = sampled
        self._random = (rng or random.Random()).random
        self.stopwatches = self._sampling(lambda number: PluginTimes(self.now, self._timed.append, number))
        """For each attempt a stopwatch for its plugins; None for most attempts, in which they are not timed."""
        self._due = self._sampling(bool)
        """Whether to time a hint, or a call of PreEnqueue."""
        self.new_decisions: list[float] = []
        """Seconds of each decision since the last `fold`."""
        self._bound: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        """Of pods that were bound, by profile: seconds since the attempt began and since the first one did, attempts.

        One after the other, and nothing else of these pods: what is kept is cold when it is looked at again.
        """
        self._timed: list[Timed] = []
        self._let_in: list[PluginTimes] = []
        """Stopwatches of PreEnqueue."""
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
        self.of_plugins = PluginMeasurements()
        """What plugins measure of their own."""
        self.leading: dict[str, Callable[[], bool]] = {}
        """How to find out, in any thread, whether this process leads, by the name of the lease."""

    # An attempt

    def _sampling(self, make: Callable[[int], T]) -> Iterator[T | None]:
        """None for most; for the others what `make` makes of how many there were since the last, with it."""

        def blocks() -> Iterator[Iterator[Iterable[T | None]]]:
            while True:  # some at once, which costs a fraction
                gaps = [self._gap() for _ in range(_AT_ONCE)]
                made: list[tuple[T | None]] = [(make(gap + 1),) for gap in gaps]
                yield chain.from_iterable(zip((repeat(None, gap) for gap in gaps), made, strict=True))

        return chain.from_iterable(chain.from_iterable(blocks()))

    def _gap(self) -> int:
        """How many are not timed before one is: drawn so that each has the same chance."""
        if self._sampled >= 1:
            return 0
        return int(math.log(1.0 - self._random()) / math.log(1.0 - self._sampled))

    def attempted(self, plan: Plan, taken: Mapping[str, QueuedPod], times: PluginTimes | None) -> None:
        """Record an attempt. `taken`: the pods in flight, by uid; `times`: measures the plugins, for some pods."""
        now = self.now()
        for decision in plan.decisions:
            self.new_decisions.append(now - taken[decision.pod.uid].popped_at)
        if plan.unit.gang is None:
            decision = plan.decisions[0]
            if times is not None:
                self.timed(taken[decision.pod.uid], decision, times)
            if not decision.node:
                self.not_placed(decision)

    def timed(self, queued: QueuedPod, decision: Decision, times: PluginTimes) -> None:
        """A decision was made about a pod, and `times` is its stopwatch."""
        times.profile = profile = queued.pod.scheduler_name
        filtered, scored = decision.node != "" or decision.diagnosis.verdicts is not None, decision.scores is not None
        skipped = frozenset(decision.cycle.skip_filter), frozenset(decision.cycle.skip_score)
        self.evaluated[Evaluated(profile, filtered, scored, *skipped)] += times.stands_for

    def not_placed(self, decision: Decision) -> None:
        """A decision was that a pod cannot be placed now."""
        if decision.victims or decision.diagnosis.post_filter_message:
            self.preemption_attempts += 1
            if decision.victims:
                self.victims.observe(len(decision.victims))

    def bound(self, queued: QueuedPod) -> None:
        """A pod was bound."""
        now, began = self.now(), queued.initial_attempt_at
        since_first = math.nan if began is None else now - began
        self._bound[queued.pod.scheduler_name].extend((now - queued.popped_at, since_first, queued.attempts))
        if queued.was_flushed:
            self.scheduled_after_flush += 1
        self._fold_if_many()

    def failed(self, queued: QueuedPod, result: str) -> None:
        """An attempt ended without a binding: UNSCHEDULABLE or ERROR."""
        self.attempts[result, queued.pod.scheduler_name].observe(self.now() - queued.popped_at)
        self._fold_if_many()

    def _fold_if_many(self) -> None:
        if len(self.new_decisions) >= _FOLD_AT:
            self.fold()

    def fold(self) -> None:
        """Sort into buckets what was noted since the last time. For the scheduler's thread, before somebody reads."""
        self.decisions.observe_all(self.new_decisions)
        self.new_decisions.clear()
        self._fold_bound()
        for times in self._let_in:  # nobody tells when the queue is through with one, but by now it is
            times.finish()
        self._let_in.clear()
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
        if not next(self._due):
            return call
        if len(self._let_in) >= _FOLD_AT:
            self.fold()
        times = PluginTimes(self.now, self._timed.append)
        times.profile = pod.scheduler_name
        self._let_in.append(times)
        return times.call

    def ask_hint(
        self, hint: HintFunction, plugin: str, pod: PodInfo, event: ClusterEvent, old: object, new: object, /
    ) -> object:
        """Asks a hint, and times some of them."""
        if not next(self._due):
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
