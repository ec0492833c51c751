"""Assembles a running scheduler from its parts, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import NODE, POD, Kind, kind_of
from bayplan.client import Client, Reflector
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework import events
from bayplan.framework.extenders import EXTENDER
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Profile
from bayplan.queue import QueueProfile, SchedulingQueue
from bayplan.service.background import background_tasks
from bayplan.service.binding import BindingCycles
from bayplan.service.clock import Clock, SystemClock
from bayplan.service.debugging.debugger import CacheDebugger
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.evictions import Evictions
from bayplan.service.extenders import Extenders, FencedExtenders
from bayplan.service.failures import Failures
from bayplan.service.fenced_client import FencedClient
from bayplan.service.handle import SchedulerHandle
from bayplan.service.informers import LIVE_PODS, Intake, NodeHandler, ObjectHandler, PodHandler, SentNode
from bayplan.service.leader_election import Leadership, LeaseLostError
from bayplan.service.loop import SchedulingLoop
from bayplan.service.loop_reader import LoopReader
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.metrics.snapshot import Snapshot
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPods
from bayplan.service.watchdog import Watchdog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set of a scheduler beside its plugins. Times are seconds.

    `look_for_kind`: how often to ask for a kind that the server lacked at the start. `delay_cache_until_active`: get to
    know the cluster only when this is the leader. `seed` makes the choice among
    equally good nodes repeatable. `freeze` takes everything that is alive after the first synchronisation out of the
    garbage collector's sight; it concerns the whole process.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable_timeout: float = 300.0
    blocked_after: float = 2.0
    drain: float = 10.0
    look_for_kind: float = 10.0
    delay_cache_until_active: bool = False
    seed: int | None = None
    freeze: bool = False


BuildProfiles = Callable[[Handle], Mapping[str, Profile]]
"""Makes the profiles, by scheduler name, for a handle."""


class Scheduler:
    """A scheduler on one cluster, from `run` to the end of it. Several may live in one process.

    `extenders` are asked beside the plugins; opening and closing them is the caller's. With a `leadership` it knows the
    cluster, but decides only while it leads. Whenever `dump_asked` is set, it writes what it knows to the log.
    """

    def __init__(
        self,
        client: Client,
        build_profiles: BuildProfiles,
        settings: Settings = Settings(),
        *,
        extenders: Extenders | None = None,
        leadership: Leadership | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        dump_asked: asyncio.Event | None = None,
    ) -> None:
        if leadership is not None:
            client = FencedClient(client, leadership.leads)
            extenders = FencedExtenders(extenders, leadership.leads) if extenders is not None else None
        self._client = client
        self._settings = settings
        self._extenders = extenders
        self._leadership = leadership
        self._clock = clock or SystemClock()
        self.metrics = metrics or Metrics(self._clock)
        self.watchdog = Watchdog(settings.blocked_after)
        self.reader = LoopReader()
        """How other threads look into the scheduler."""
        self._dump_asked = dump_asked or asyncio.Event()
        self._work = asyncio.Event()
        self._recorder = EventRecorder(client, self._clock)
        self.state = ClusterState()
        self.waiting = WaitingPods()
        self._handle = SchedulerHandle(
            self.state,
            client,
            self.waiting,
            self._recorder,
            self._activate,
            self._clock,
            self.metrics.of_plugins,
        )
        self.profiles = build_profiles(self._handle)
        self._handle.freeze()
        self.queue = SchedulingQueue(
            {
                name: QueueProfile.of(profile, any_event=() if extenders is None else (EXTENDER,))
                for name, profile in self.profiles.items()
            },
            self.state.nominations,
            initial_backoff=settings.initial_backoff,
            max_backoff=settings.max_backoff,
            unschedulable_timeout=settings.unschedulable_timeout,
            caller=self.metrics.pre_enqueue_caller,
            ask_hint=self.metrics.ask_hint,
        )
        self.synced = asyncio.Event()
        """Set when the scheduler knows the cluster and decides."""
        self._awaited: Reflector[Any] | None = None
        """What is being listed for the first time."""
        self._stop: asyncio.Event | None = None
        self._loop: SchedulingLoop | None = None
        self._bindings: BindingCycles | None = None

    @property
    def stopping(self) -> bool:
        """Whether it has been asked to stop."""
        return self._stop is not None and self._stop.is_set()

    @property
    def not_synced_because(self) -> str:
        """What keeps it from knowing the cluster, as far as something does."""
        return "" if self._awaited is None or self.synced.is_set() else self._awaited.problem

    @property
    def decisions(self) -> int:
        """Pods decided so far, whatever became of them."""
        return self._loop.decisions if self._loop else 0

    @property
    def bound(self) -> int:
        """Pods bound so far."""
        return self._bindings.bound if self._bindings else 0

    def snapshot(self) -> Snapshot:
        """What metrics tell of the present state. For the scheduler's thread only; see `reader` for others."""
        self.metrics.fold()
        state = self.state
        return Snapshot(
            profiles=self.profiles,
            pending=self.queue.pending_pods(),
            incoming=dict(self.queue.incoming),
            waiting=self.queue.waiting(),
            in_flight_events=self.queue.in_flight_events(),
            nodes=state.table.live_count,
            pods=state.pod_count,
            assumed_pods=state.assumed_count,
            binding=self._bindings.under_way if self._bindings else 0,
            templates=self._loop.templates_used() if self._loop else {},
            dropped_events=self._recorder.dropped,
        )

    def pods(self) -> list[PodInfo]:
        """All pods that are not done. For the scheduler's thread only."""
        return list(self.state.objects[POD].values())

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; then finish what is being bound, and end.

        Raises LeaseLostError, and finishes nothing, when the lead is lost.
        """
        if self._settings.freeze:
            gc.disable()  # until the cluster is known: all of it would be looked at again and again while it comes in
        self._stop = stop
        self.watchdog.start()
        self.reader.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._run(tasks, stop)
        except* LeaseLostError as lost:
            raise LeaseLostError(str(lost.exceptions[0])) from None
        finally:
            self.reader.close()
            self.watchdog.stop()

    async def _run(self, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        work, recorder = self._work, self._recorder
        intake = Intake(work.set, self.metrics)
        status = PodStatusWriter(self._client, self._clock)
        pods = Reflector(
            self._client,
            POD,
            PodHandler(
                intake, self.state, self.queue, self.waiting, status, recorder, self._clock, self.profiles.keys()
            ),
            field_selector=LIVE_PODS,
            decode=PodInfo.from_raw,
        )
        failures = Failures(
            self.queue, self.state.nominations, recorder, status, self._clock, pods.store.get, self.metrics
        )
        self._bindings = BindingCycles(
            tasks,
            self._client,
            self.state,
            self.queue,
            self.waiting,
            failures,
            recorder,
            status,
            intake,
            self._clock,
            self._extenders,
            self.metrics,
        )
        evictions = Evictions(
            tasks,
            self._client,
            self.state,
            self.queue,
            self.waiting,
            self._bindings,
            recorder,
            status,
            work.set,
            self._clock,
            self.metrics,
        )
        self._loop = SchedulingLoop(
            self.profiles,
            self.state,
            self.queue,
            self._bindings,
            evictions,
            self.waiting,
            failures,
            recorder,
            intake,
            work,
            self._clock,
            random.Random(self._settings.seed),
            self._extenders,
            metrics=self.metrics,
        )
        debugger = CacheDebugger(
            self._client,
            self.state,
            self.queue,
            self.waiting,
            intake,
            self._clock,
            self.profiles.keys(),
            self.synced,
        )
        services = [
            tasks.create_task(debugger.run(self._dump_asked), name="cache-debugger"),
            tasks.create_task(self._handle.started.run(), name="started-work"),
            tasks.create_task(recorder.run(), name="event-recorder"),
            tasks.create_task(status.run(), name="pod-status-writer"),
        ]
        try:
            if self._settings.delay_cache_until_active:
                await self._lead(stop)
            # Nodes and the rest first, pods last: what is decided about a pod rests on all of it.
            for reflector in (*self._reflectors(intake), pods):
                self._awaited = reflector
                services.append(tasks.create_task(reflector.run(), name="reflector"))
                await _first(reflector.synced.wait(), stop.wait())
            if not stop.is_set():
                self._synchronised()
                services += background_tasks(tasks, self.profiles.values())
                await self._decide_until(stop, tasks, self._loop)
                await self._bindings.drain(self._settings.drain)
                await evictions.drain(self._settings.drain)
                await self._handle.started.drain(self._settings.drain)
                await status.drain(self._settings.drain)
                await recorder.drain(self._settings.drain)
        finally:
            for service in services:
                service.cancel()

    def _reflectors(self, intake: Intake) -> list[Reflector[Any]]:
        """Nodes, and every other kind that a plugin of any profile needs."""
        whole = self._extenders is not None and self._extenders.want_nodes
        nodes = NodeHandler(intake, self.state, self.queue, self._clock)
        reflectors: list[Reflector[Any]] = [
            Reflector(self._client, NODE, nodes, decode=SentNode.keep if whole else SentNode.read)
        ]
        for kind in sorted(self._kinds() - {POD, NODE}, key=lambda kind: kind.resource):
            handler = ObjectHandler(kind, intake, self.state, self.queue, self._clock)
            reflectors.append(Reflector(self._client, kind, handler, look_for_kind=self._settings.look_for_kind))
        return reflectors

    def _kinds(self) -> set[Kind]:
        """What plugins look up, and what they register events of."""
        kinds = set(self._handle.watched)
        for profile in self.profiles.values():
            for hints in profile.events().values():
                kinds |= {kind_of(hint.event.resource) for hint in hints if hint.event.resource != events.ANY}
        return kinds

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self.queue.activate(pods, self._clock.monotonic())
        self._work.set()

    async def _decide_until(self, stop: asyncio.Event, tasks: asyncio.TaskGroup, loop: SchedulingLoop) -> None:
        await self._lead(stop)
        lost = asyncio.Event() if self._leadership is None else self._leadership.lost
        if not stop.is_set():
            deciding = tasks.create_task(loop.run(), name="scheduling-loop")
            await _first(stop.wait(), lost.wait())
            deciding.cancel()
        if lost.is_set():
            raise LeaseLostError("the lease was lost")

    async def _lead(self, stop: asyncio.Event) -> None:
        """Wait until this is the leader, unless `stop` is set before."""
        if self._leadership is not None:
            await _first(self._leadership.acquired.wait(), self._leadership.lost.wait(), stop.wait())

    def _synchronised(self) -> None:
        table = self.state.table
        log.info("know %d nodes and %d pods on them; scheduling", table.live_count, self.state.pod_count)
        if self._settings.freeze:
            gc.collect()
            gc.freeze()
            gc.enable()
        self.synced.set()


async def _first(*awaitables: Coroutine[Any, Any, object]) -> None:
    """Wait for whichever comes first, and drop the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
