"""Scheduler: assembles a running scheduler from its parts, and starts and stops them in order.

    scheduler = Scheduler(client, build_profiles, Settings(), Peers())
    await scheduler.run(stop)             # until `stop` is set; then in-flight bindings are finished

First all kinds are listed, then it waits for the lease if there is one, then it schedules (`loop.py`). It is used for
one run. Its state and queue belong to the thread of its event loop. Several schedulers can live in one process.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn

from bayplan.core.api.kinds import POD
from bayplan.core.api.provisioning import is_provisioned
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.binding import BINDING
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.extenders import EXTENDER
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.profile import Profile
from bayplan.core.queue import QueueProfile, RetryTimes, SchedulingQueue
from bayplan.foundations.collector import Collector
from bayplan.foundations.lazy import on_use
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError
from bayplan.running.service.background import start_background
from bayplan.running.service.cluster_watches import ClusterWatches
from bayplan.running.service.debugging.debugger import CacheDebugger
from bayplan.running.service.fenced_client import FencedClient
from bayplan.running.service.handle import SchedulerHandle
from bayplan.running.service.leader_election import LeaseLostError
from bayplan.running.service.loop import SchedulingLoop
from bayplan.running.service.loop_reader import LoopReader
from bayplan.running.service.messages import write_messages
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.metrics.snapshot import MetricsSnapshot
from bayplan.running.service.services import Services
from bayplan.running.service.settings import Peers, Settings
from bayplan.running.service.supervisor import Supervisor, outcome
from bayplan.running.service.tasks import first
from bayplan.running.service.waiting_pods import AwaitedPod, AwaitedPods
from bayplan.running.service.watchdog import Watchdog

with on_use():
    from bayplan.running.recording import recorder as recorders
    from bayplan.running.recording import turns

log = logging.getLogger(__name__)

DRAIN_WRITES = 0.5
"""Seconds on exit for writing statuses and events that are pending."""


BuildProfiles = Callable[[Handle], Mapping[str, Profile]]
"""Makes the profiles, by scheduler name, for a handle."""


class SchedulingEndedError(Exception):
    """The scheduling loop has ended by itself, because of a bug."""


class Scheduler:
    """A scheduler on one cluster, for one call of `run`. Several can live in one process."""

    def __init__(
        self,
        client: Client,
        build_profiles: BuildProfiles,
        settings: Settings = Settings(),  # noqa: B008 - immutable
        peers: Peers = Peers(),  # noqa: B008 - immutable
        metrics: Metrics | None = None,
    ) -> None:
        self._settings = settings
        self._recorder = recorder = peers.recorder
        self._extenders = peers.extenders if recorder is None else recorder.extenders(peers.extenders)
        self.leadership = leadership = peers.leadership
        """Decides when this instance schedules; None if it is the only one."""
        fenced, events_client = client, peers.events or client
        if leadership is not None:
            fenced, events_client = (FencedClient(each, leadership.leads) for each in (fenced, events_client))
        services = Services.of(fenced, settings.clock, metrics, events=events_client)
        if recorder is not None:
            services = replace(services, waiting=AwaitedPods(recorder.waiting(AwaitedPod)))
        self._services = services
        self._handle = SchedulerHandle(services, self._activate)
        if recorder is not None:
            recorder.handle(self._handle)
        self._provisioning = provisioning = peers.provisioning
        if provisioning is not None:
            build_profiles = provisioning.profiles(build_profiles)
        self.profiles = build_profiles(self._handle)
        self._handle.freeze()
        ports = services.ports(self._extenders, (lambda: True) if leadership is None else leadership.leads)
        if recorder is not None:
            ports = recorder.ports(ports)
        if provisioning is not None:
            ports = provisioning.ports(ports)
        self.metrics, self.state, self.waiting = services.metrics, services.state, services.waiting
        self.queue = self._new_queue()
        self._runtime = runtime = Runtime(
            self.profiles, self.state, self.queue, self.waiting, services.intake, ports, services.failures
        )
        if provisioning is not None:
            provisioning.connect(runtime)
        self._executor = Executor(runtime) if recorder is None else turns.RecordedExecutor(recorder, runtime)
        rng = random.Random(settings.seed)
        self._attempts = AttemptDriver(runtime, rng, self._extenders, services.slice.limited)
        if provisioning is not None:
            self._attempts.lending = provisioning.lending
        if recorder is not None:
            requests = () if provisioning is None else (provisioning.recorded,)
            recorder.records(recorders.RecordedScheduler(runtime, rng, self._attempts.rotation, *requests))
        self._loop = SchedulingLoop(runtime, self._attempts, self._executor, services.work, services.slice)
        self._collector = Collector()
        self.watchdog = Watchdog(settings.blocked_after)
        self.reader = LoopReader()
        """Reads the scheduler's state from other threads."""
        self.synced = asyncio.Event()
        """Set once the scheduler knows the cluster and schedules."""
        self.dump_asked = asyncio.Event()
        """Set it to log the scheduler's state."""
        self.ended_because = ""
        """Why the scheduling loop has ended by itself; "" while it has not."""
        self._watches = ClusterWatches(client, self._handle, self.profiles.values(), peers, self.synced.is_set)
        self._stop: asyncio.Event | None = None

    def _new_queue(self) -> SchedulingQueue:
        services, settings = self._services, self._settings
        any_event = () if self._extenders is None else (EXTENDER,)
        make = SchedulingQueue if self._recorder is None else partial(turns.RecordedQueue, self._recorder)
        return make(
            {name: QueueProfile.of(profile, any_event=any_event) for name, profile in self.profiles.items()},
            services.state.nominations,
            times=RetryTimes(settings.initial_backoff, settings.max_backoff, settings.unschedulable_timeout),
            own=own_volumes(services.state.objects),
            caller=services.metrics.pre_enqueue_caller,
            ask_hint=services.metrics.ask_hint,
            failures=services.failures,
        )

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self._runtime.activate(pods)

    @property
    def stopping(self) -> bool:
        """Whether the scheduler is stopping."""
        return self._stop is not None and self._stop.is_set()

    @property
    def not_synced_because(self) -> str:
        """Why the scheduler has not synced yet; "" if nothing has failed."""
        return "" if self.synced.is_set() else self._watches.problem

    @property
    def decisions(self) -> int:
        """Pods decided so far, whatever the outcome."""
        return self._attempts.decisions

    @property
    def bound(self) -> int:
        """Pods bound so far."""
        return self._executor.bound

    def snapshot(self) -> MetricsSnapshot:
        """The state that metrics report. Call it in the scheduler's thread; see `reader` for others."""
        services, state, queue = self._services, self.state, self.queue
        self.metrics.fold()
        return MetricsSnapshot(
            profiles=self.profiles,
            pending=queue.pending_pods(),
            incoming=dict(queue.incoming),
            waiting=queue.waiting(),
            in_flight_events=queue.in_flight_events(),
            nodes=state.table.live_count,
            pods=state.pod_count,
            assumed_pods=state.assumed_count,
            binding=services.tasks.count(BINDING),
            sharing={name: (each.used, each.unused) for name, each in self._attempts.sharing.items()},
            dropped_events=services.recorder.dropped,
            event_lag=services.recorder.lag,
            recording=None if (made := self._recorder) is None else (not made.problem, made.written),
            entities=(queue.entries(), queue.incoming_entries()),
            provisioning=None if self._provisioning is None else self._provisioning.counts(),
        )

    def pods(self) -> list[PodInfo]:
        """All pods that have not terminated. Call it in the scheduler's thread."""
        return [pod for pod in self.state.objects[POD].values() if not is_provisioned(pod)]

    async def report_permissions(self, denied: ApiError) -> str:
        """Return the message about all kinds that may not be listed or watched, for one denied request.

        "" if the API server doesn't report the missing permission.
        """
        return await self._watches.report_permissions(denied)

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; then finish in-flight bindings and pending writes, and return.

        Raises LeaseLostError, and finishes nothing, when the lease is lost. Raises SchedulingEndedError when the
        scheduling loop has ended by itself.
        """
        if self._settings.freeze:
            self._collector.pause()  # until the first synchronization: it would visit the growing cluster repeatedly
        self._stop = stop
        self.watchdog.start()
        self.reader.open()
        try:
            await self._run(stop)
        finally:
            self.reader.close()
            self.watchdog.stop()
            if self._settings.freeze:
                self._collector.end()

    async def _run(self, stop: asyncio.Event) -> None:
        own, services = self._services, Supervisor(self._services.failures)
        debugger = CacheDebugger(self._runtime, own.client, self.synced)
        services.start("the cache debugger", lambda: debugger.run(self.dump_asked))
        services.start("the runner of plugins' work", self._handle.started.run)
        services.start("the event recorder", own.recorder.run)
        services.start("the writer of pod statuses", own.status.run)
        services.start("the messages of pods that were not attempted", self._write_messages)
        services.start("the reports of failing watches", self._watches.failures.run)
        try:
            if self._settings.delay_cache_until_active:
                await self._lead(stop)
            await self._watches.start(self._runtime, self._settings, services, stop)
            if not stop.is_set():
                self._synchronized()
                if self._settings.freeze:
                    services.start("the garbage collector", lambda: self._collector.run(self._idle))
                start_background(services, self.profiles.values())
                await self._schedule_until(stop, services)
                await self._drain(self._settings.drain)
        finally:
            await asyncio.gather(own.tasks.cancel(), self._handle.started.cancel(), services.stop())

    async def _write_messages(self) -> None:
        await write_messages(self.queue, self._runtime.ports.statuses)

    async def _drain(self, seconds: float) -> None:
        """Finish bindings, evictions and work that plugins started within `seconds`, then writes about pods.

        Statuses and events get DRAIN_WRITES only: nothing depends on them, and after a burst there are thousands.
        kube-scheduler drops them.
        """
        for waiting in self.waiting:
            waiting.reject("", "the scheduler is stopping")
        now = asyncio.get_running_loop().time
        end = now() + seconds
        if await self._services.tasks.drain(seconds) and self.leadership is not None:
            self.leadership.let_expire()
        await self._handle.started.drain(max(0.0, end - now()))
        await asyncio.gather(self._services.status.drain(DRAIN_WRITES), self._services.recorder.drain(DRAIN_WRITES))

    async def _schedule_until(self, stop: asyncio.Event, services: Supervisor) -> None:
        await self._lead(stop)
        if self._provisioning is not None:
            run = partial(self._provisioning.run, self._settings.clock.now, self._request_due)
            services.start("the answers to provisioning requests", run)
        lost = asyncio.Event() if self.leadership is None else self.leadership.lost
        if not stop.is_set():
            scheduling = asyncio.create_task(outcome(self._loop.run), name="scheduling-loop")
            try:
                await first(stop.wait(), lost.wait(), asyncio.wait({scheduling}))
                if scheduling.done():
                    self._scheduling_ended(scheduling.result())
            finally:
                scheduling.cancel()
                await asyncio.wait({scheduling})
        if lost.is_set():
            raise LeaseLostError("the lease was lost")

    def _request_due(self, key: str) -> None:
        """A deadline of a provisioning request has come."""
        if self._recorder is not None:
            self._recorder.request_due(key)
        if self._provisioning is not None:
            self._provisioning.due(key)

    def _scheduling_ended(self, error: BaseException | None) -> NoReturn:
        """Raise: the loop runs until it is cancelled, and has ended by itself because of a bug."""
        problem = "it returned" if error is None else f"{type(error).__name__}: {error}"
        self.ended_because = f"the scheduling loop ended: {problem}"
        log.critical("%s", self.ended_because, exc_info=error)
        raise SchedulingEndedError(self.ended_because) from error

    async def _lead(self, stop: asyncio.Event) -> None:
        """Wait until this instance leads, or `stop` is set."""
        if self.leadership is not None:
            await first(self.leadership.acquired.wait(), self.leadership.lost.wait(), stop.wait())

    def _synchronized(self) -> None:
        table = self.state.table
        log.info("synchronized: %d nodes, %d pods on them; scheduling", table.live_count, self.state.pod_count)
        if self._provisioning is not None:
            if self._recorder is not None:
                self._recorder.requests_opened()
            self._provisioning.open()
        if self._settings.freeze:
            self._collector.begin()
        self.synced.set()

    def _idle(self) -> bool:
        pending = self.queue.pending_pods()
        return not pending.active and not pending.in_flight
