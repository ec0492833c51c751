"""What happens to a pod whose attempt failed: back to the queue, an event, a condition.

Mirrors handleSchedulingFailure in pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from bayplan.clock import Clock
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.log_fields import about_pod
from bayplan.queue import QueuedPod, SchedulingQueue
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.metrics import measuring
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.pod_status import PodStatusWriter

log = logging.getLogger(__name__)

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


class Failures:
    """Puts pods back whose attempt failed. `current` looks up a pod as the server last told it, by key."""

    def __init__(
        self,
        queue: SchedulingQueue,
        nominations: Nominations,
        recorder: EventRecorder,
        status: PodStatusWriter,
        clock: Clock,
        current: Callable[[str], PodInfo | None],
        metrics: Metrics | None = None,
    ) -> None:
        self._queue = queue
        self._nominations = nominations
        self._recorder = recorder
        self._status = status
        self._clock = clock
        self._current = current
        self._metrics = metrics or Metrics(clock)

    def unschedulable(
        self,
        queued: QueuedPod,
        message: str,
        *,
        plugins: frozenset[str] = frozenset(),
        pending: frozenset[str] = frozenset(),
        nominated_node: str | None = None,
    ) -> None:
        """No place now: the pod waits for what the plugins that turned it down are waiting for.

        `nominated_node`: where the pod is nominated to from now on; "" clears a nomination, None leaves it.
        """
        self._metrics.failed(queued, measuring.UNSCHEDULABLE)
        queued.clear_rejectors()
        queued.unschedulable_plugins |= plugins
        queued.pending_plugins |= pending
        self._put_back(queued, UNSCHEDULABLE, message, nominated_node)

    def error(self, queued: QueuedPod, message: str) -> None:
        """The attempt broke: the pod is tried again after a backoff."""
        self._metrics.failed(queued, measuring.ERROR)
        queued.clear_rejectors()
        log.error("pod %s: %s", about_pod(queued.pod), message)
        self._put_back(queued, SCHEDULER_ERROR, message, "")

    def current(self, queued: QueuedPod) -> PodInfo | None:
        """The pod as the server last told it; None if it is not ours to place any more.

        That is one that was deleted, replaced by another of its name, or bound by somebody.
        """
        pod = self._current(queued.pod.key)
        return None if pod is None or pod.uid != queued.pod.uid or pod.node_name else pod

    def _put_back(self, queued: QueuedPod, reason: str, message: str, nominated_node: str | None) -> None:
        pod = self.current(queued)
        if pod is None:
            self._queue.done(queued.pod.uid)
            return
        queued.pod = pod
        queued.message = message
        self._queue.add_unschedulable(queued, self._clock.monotonic())
        if nominated_node:
            self._nominations.add(pod, nominated_node)
        elif nominated_node == "":
            self._nominations.remove(pod.uid)
        else:
            self._nominations.update(pod, pod)
        if log.isEnabledFor(logging.INFO):
            log.info("pod %s waits: %s", about_pod(pod), message)
        self._recorder.record(pod, pod.scheduler_name, "Warning", "FailedScheduling", "Scheduling", message)
        self._status.not_scheduled(pod, reason, message, nominated_node)
