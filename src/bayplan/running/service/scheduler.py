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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from bayplan.core.api.kinds import NODE, POD, Kind, kind_of
from bayplan.core.api.older_versions import OLDER
from bayplan.core.api.provisioning import is_provisioned
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.binding import BINDING
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.extenders import Extenders
from bayplan.core.executor.handlers import Receiver, SentNode
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework import events
from bayplan.core.framework.extenders import EXTENDER
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.profile import Profile
from bayplan.core.queue import QueueProfile, RetryTimes, SchedulingQueue
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.collector import Collector
from bayplan.foundations.lazy import on_use
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError
from bayplan.running.client.list_watch import ListWatch
from bayplan.running.client.pace import IDLE_SECONDS, Pace
from bayplan.running.client.permissions import missing_permissions
from bayplan.running.service.background import start_background
from bayplan.running.service.debugging.debugger import CacheDebugger
from bayplan.running.service.fenced_client import FencedClient
from bayplan.running.service.handle import SchedulerHandle
from bayplan.running.service.informers import LIVE_PODS, NodeInformer, ObjectInformer, PodInformer
from bayplan.running.service.leader_election import Leadership, LeaseLostError
from bayplan.running.service.loop import SchedulingLoop
from bayplan.running.service.loop_reader import LoopReader
from bayplan.running.service.messages import write_messages
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.metrics.snapshot import MetricsSnapshot
from bayplan.running.service.services import Services
from bayplan.running.service.supervisor import Supervisor, outcome
from bayplan.running.service.tasks import first
from bayplan.running.service.waiting_pods import AwaitedPod, AwaitedPods
from bayplan.running.service.watch_failures import WatchFailures, report
from bayplan.running.service.watchdog import Watchdog

with on_use():
    from bayplan.running.recording import recorder as recorders
    from bayplan.running.recording import turns
if TYPE_CHECKING:
    from bayplan.running.provisioning.desk import Desk

log = logging.getLogger(__name__)

DRAIN_WRITES = 0.5
"""Seconds on exit for writing statuses and events that are pending."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a scheduler other than its plugins. Times are seconds.

    `blocked_after`: report a plugin that blocks the event loop for this long. `drain`: how long to wait on exit for
    bindings, evictions and work that plugins started. `look_for_kind`: how often to ask for a kind that the API server
    lacks. `delay_cache_until_active`: list the cluster only once this instance leads. `seed` makes the choice among
    nodes with equal scores repeatable. `freeze` lets the garbage collector visit only new objects after the first
    synchronization, in the whole process (see `collector`). `watch_idle`: how long a watch may be silent before its
    connection counts as dead. `clock`: the source of time.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable_timeout: float = 300.0
    blocked_after: float = 2.0
    drain: float = 10.0
    look_for_kind: float = 10.0
    watch_idle: float = IDLE_SECONDS
    delay_cache_until_active: bool = False
    seed: int | None = None
    freeze: bool = False
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class Peers:
    """Other processes that a scheduler works with. The caller opens and closes them.

    `extenders`: the services that decide with the plugins. `leadership`: set if several instances share the work, of
    which only the leader schedules. `events`: a client for writing events, so that they don't wait behind the bindings
    of a burst for a connection or the rate limit, as in kube-scheduler; None to use the scheduler's client. `recorder`:
    notes what decisions rest on; it has a seed, then, as the settings do. `provisioning`: answers the provisioning
    requests of the cluster.
    """

    extenders: Extenders | None = None
    leadership: Leadership | None = None
    events: Client | None = None
    recorder: recorders.DecisionRecorder | None = None
    provisioning: Desk | None = None


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
        settings: Settings = Settings(),
        peers: Peers = Peers(),
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
            recorder.records(
                recorders.RecordedScheduler(self.state, self.queue, rng, self._attempts.rotation, *requests)
            )
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
        self._readers = self._plugins_by_kind()
        self._watch_failures = WatchFailures(client, self._readers, self.synced.is_set)
        self._listing: ListWatch[Any] | None = None
        """The kind that is being listed for the first time."""
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
        return "" if self._listing is None or self.synced.is_set() else self._listing.problem

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
        missing = await missing_permissions(self._services.client, self._readers)
        return report(missing, self._readers, denied, synced=False) if missing else ""

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
        services.start("the reports of failing watches", self._watch_failures.run)
        try:
            if self._settings.delay_cache_until_active:
                await self._lead(stop)
            for list_watch in self._list_watches():
                self._listing = list_watch
                services.start(f"the watch of {list_watch.kind.plural}", list_watch.run)
                await first(list_watch.synced.wait(), stop.wait())
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

    def _list_watches(self) -> list[ListWatch[Any]]:
        """Nodes, every other kind that a plugin of any profile needs, and last the pods that depend on all of these."""
        runtime = self._runtime
        receiver = Receiver.of(runtime)
        for kind, feed in self._handle.feeds.items():
            feed.sink = self._noted(kind, ObjectInformer(kind, receiver))
        whole = self._extenders is not None and self._extenders.want_nodes
        decode = SentNode.keep if whole else SentNode.read
        follow = partial(
            ListWatch[Any],
            self._services.client,
            pace=Pace(idle_seconds=self._settings.watch_idle, clock=self._services.clock.monotonic),
            failures=runtime.failures,
            reports=self._watch_failures,
        )
        list_watches = [follow(NODE, self._noted(NODE, NodeInformer(receiver)), decode=decode)]
        for kind in sorted(self._readers.keys() - {POD, NODE}, key=lambda kind: kind.resource):
            handler, again = self._noted(kind, ObjectInformer(kind, receiver)), self._settings.look_for_kind
            list_watches.append(follow(kind, handler, look_for_kind=again, older=OLDER.get(kind, ())))
        pods = self._noted(POD, PodInformer(receiver, runtime.ports.recorder))
        list_watches.append(follow(POD, pods, field_selector=LIVE_PODS, decode=PodDecoder().decode))
        return list_watches

    def _noted(self, kind: Kind, sink: Any) -> Any:
        return sink if self._recorder is None else self._recorder.sink(kind, sink)

    def _plugins_by_kind(self) -> dict[Kind, set[str]]:
        """The kinds that plugins read or register events of, with the names of the plugins that register them."""
        plugins: dict[Kind, set[str]] = {kind: set() for kind in self._handle.watched}
        read = {kind.kind: kind for kind in plugins}  # an event doesn't say whether its custom kind has namespaces
        for profile in self.profiles.values():
            for name, hints in profile.events().items():
                for hint in hints:
                    if hint.event.resource != events.ANY:
                        kind = read.get(hint.event.resource) or kind_of(hint.event.resource)
                        plugins.setdefault(kind, set()).add(name)
        return plugins

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
