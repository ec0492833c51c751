"""SchedulerHandle: the handle that plugins of a running scheduler get.

It belongs to the scheduler's event loop. Kinds that plugins ask for while they are made are watched; after `freeze`,
a new kind is an error. Its counterpart without a scheduler is `bayplan.answers.simulation.handle`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from bayplan.core.api.kinds import NODE, POD, Kind, kind_of
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.handle import StateHandle
from bayplan.core.framework.measurements import Measurements
from bayplan.running.service.background import StartedWork
from bayplan.running.service.services import Services


class SchedulerHandle(StateHandle):
    """Implements bayplan.core.framework.handle.Handle.

    `activate` moves pods to the active queue. `watched`: the kinds that plugins asked for before `freeze`. `started`:
    the work that plugins start, for the scheduler to run.
    """

    def __init__(self, services: Services, activate: Callable[[Iterable[PodInfo]], None]) -> None:
        super().__init__(services.state)
        self.client = services.client
        self.waiting_pods = services.waiting
        self.activate = activate
        self.started = StartedWork(services.failures)
        self.start = self.started.start
        self.now = services.clock.now
        self.monotonic = services.clock.monotonic
        self.measurements: Measurements = services.metrics.plugin_measurements
        self.watched: set[Kind] = {POD, NODE}
        self._recorder = services.recorder
        self._frozen = False
        self._slice = services.slice

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The objects of a kind by `namespace/name`. Raises RuntimeError for a new kind after `freeze`."""
        if isinstance(kind, str):
            kind = kind_of(kind)
        if kind not in self.watched:
            if self._frozen:
                raise RuntimeError(f"{kind.plural} are not watched: call handle.objects in __init__")
            self.watched.add(kind)
        return super().objects(kind)

    def give_way(self, *, long: bool = False) -> None:
        """Raise GiveWay if the current attempt has worked for too long."""
        self._slice.check(long=long)

    def freeze(self) -> None:
        """Watch no more kinds from now on."""
        self._frozen = True

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """Wait until `done()`, called now and after every change of the stores. Returns False after `seconds`."""
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
        """Record an event about a pod, with its scheduler as the reporting controller."""
        self._recorder.record(pod, pod.scheduler_name, event_type, reason, action, note)
