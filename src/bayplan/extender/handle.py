"""The handle of plugins in an extender without a connection to the cluster. With one, it is the scheduler's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from bayplan.api.kinds import Kind, kind_of
from bayplan.clock import SystemClock
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.measurements import Unmeasured
from bayplan.log_fields import about_pod
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)


class UnconnectedHandle:
    """Implements framework.handle.Handle: has only the nodes from requests, and logs events."""

    client = None
    measurements = Unmeasured()

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._clock = SystemClock()
        self.waiting_pods = WaitingPods()

    @property
    def nodes(self) -> Nodes:
        """The nodes of recent requests."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """The nominated nodes of pods: empty, because requests don't contain them."""
        return self._state.nominations

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The objects of a kind: none."""
        return self._state.objects[kind_of(kind) if isinstance(kind, str) else kind]

    def preempting(self, uid: str) -> bool:
        """Whether victims of the pod are being evicted: no, because the other scheduler evicts them."""
        return self._state.preemptions.going_on(uid)

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """The current result of `done`, because nothing changes while a plugin waits."""
        return done()

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds by the monotonic clock."""
        return self._clock.monotonic()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Do nothing, because pods are pending in the other scheduler."""

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do nothing, because there is no API server."""

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Log the event, because there is no API server."""
        log.info("event of pod %s: %s %s: %s", about_pod(pod), event_type, reason, note)
