"""The handle of plugins where there is no connection to the cluster; where there is one, it is the scheduler's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from bayplan.api.kinds import Kind, kind_of
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.measurements import Unmeasured
from bayplan.log_fields import about_pod
from bayplan.service.clock import SystemClock
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)


class UnconnectedHandle:
    """Implements framework.handle.Handle: there are nodes, as they were sent, and nothing else. Events are logged."""

    client = None
    measurements = Unmeasured()

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._clock = SystemClock()
        self.waiting_pods = WaitingPods()

    @property
    def nodes(self) -> Nodes:
        """All nodes that were sent lately."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """Which pods are nominated where: nobody tells an extender."""
        return self._state.nominations

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The known objects of a kind: none."""
        return self._state.objects[kind_of(kind) if isinstance(kind, str) else kind]

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are still being evicted: that is the business of the scheduler in front."""
        return self._state.preemptions.going_on(uid)

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """What `done` says now: nothing changes while a plugin waits."""
        return done()

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds by the monotonic clock."""
        return self._clock.monotonic()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Nothing: pods wait in the scheduler in front."""

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Nothing: there is no server to write to."""

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Log the event, as there is no place to write it."""
        log.info("event of pod %s: %s %s: %s", about_pod(pod), event_type, reason, note)
