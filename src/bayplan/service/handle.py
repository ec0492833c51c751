"""The handle that plugins of a running scheduler get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from bayplan.api.kinds import NODE, POD, Kind, kind_of
from bayplan.client import Client
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.measurements import Measurements, Unmeasured
from bayplan.service.background import StartedWork
from bayplan.service.clock import Clock
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.waiting_pods import WaitingPods


class SchedulerHandle:
    """Implements framework.handle.Handle. `watched` are the kinds that plugins asked for before `freeze`."""

    def __init__(
        self,
        state: ClusterState,
        client: Client,
        waiting_pods: WaitingPods,
        recorder: EventRecorder,
        activate: Callable[[Iterable[PodInfo]], None],
        clock: Clock,
        measurements: Measurements | None = None,
    ) -> None:
        self.client = client
        self.waiting_pods = waiting_pods
        self.activate = activate
        self.started = StartedWork()
        """What plugins start, for the scheduler to run."""
        self.start = self.started.start
        self.now = clock.now
        self.monotonic = clock.monotonic
        self.measurements: Measurements = measurements or Unmeasured()
        self.watched: set[Kind] = {POD, NODE}
        self._state = state
        self._recorder = recorder
        self._frozen = False

    @property
    def nodes(self) -> Nodes:
        """All nodes as they are now."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """Which pods are nominated where."""
        return self._state.nominations

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The known objects of a kind by `namespace/name`."""
        if isinstance(kind, str):
            kind = kind_of(kind)
        if kind not in self.watched:
            if self._frozen:
                raise RuntimeError(f"{kind.plural} are not watched: ask the handle for them in __init__")
            self.watched.add(kind)
        return self._state.objects[kind]

    def freeze(self) -> None:
        """From now on no more kinds are watched."""
        self._frozen = True

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are still being evicted."""
        return self._state.preemptions.going_on(uid)

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """Wait until `done` says so, asked at once and after every change of the stores; False when time is up."""
        changed = asyncio.Event()
        with ExitStack() as stack:
            for store in stores:
                stack.enter_context(store.waking(changed.set))
            try:
                async with asyncio.timeout(seconds):
                    while not done():
                        changed.clear()
                        await changed.wait()
            except TimeoutError:
                return False
        return True

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Write an event about a pod, in the name of its scheduler."""
        self._recorder.record(pod, pod.scheduler_name, event_type, reason, action, note)
