"""The handle of plugins in an extender without a connection to the cluster. With one, it is the scheduler's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.handle import StateHandle
from bayplan.core.framework.measurements import Unmeasured
from bayplan.foundations.clock import SystemClock
from bayplan.foundations.log_fields import about_pod
from bayplan.running.service.waiting_pods import AwaitedPod, AwaitedPods

log = logging.getLogger(__name__)


class UnconnectedHandle(StateHandle):
    """Implements bayplan.core.framework.handle.Handle: has only the nodes of recent requests, and logs events.

    There are no nominations or other objects, because requests don't contain them, and no preemptions, because the
    other scheduler evicts victims.
    """

    client = None
    measurements = Unmeasured()

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        clock = SystemClock()
        self.now = clock.now
        self.monotonic = clock.monotonic
        self.waiting_pods = AwaitedPods(AwaitedPod)

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """The current result of `done`, because nothing changes while a plugin waits."""
        return done()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Do nothing, because pods are pending in the other scheduler."""

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do nothing, because there is no API server."""

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Log the event, because there is no API server."""
        log.info("event of pod %s: %s %s: %s", about_pod(pod), event_type, reason, note)
