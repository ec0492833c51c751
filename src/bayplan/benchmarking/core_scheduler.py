"""A scheduler without an API server: the service's handlers, queue, attempts and plans, on objects in memory.

Only what would be sent to an API server is replaced: bindings, evictions, events and statuses.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

from bayplan.benchmarking.templates import BenchmarkError, Unsupported
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.binding import BINDING
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.handlers import Handlers, PodHandler, Receiver, SentNode
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.ports import Binding, Ports
from bayplan.core.executor.runtime import MoveOnEvent, Only, Runtime
from bayplan.core.executor.silent_ports import SilentPorts
from bayplan.core.framework.binding_runner import run_pre_bind
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import Code, Status, success
from bayplan.core.queue import QueuedPod, QueueProfile, SchedulingQueue
from bayplan.foundations.clock import Clock
from bayplan.foundations.turns import LONGEST_TURN
from bayplan.running.client.client import Client
from bayplan.running.service.evictions import ApiEvictor
from bayplan.running.service.handle import SchedulerHandle
from bayplan.running.service.messages import write_messages
from bayplan.running.service.services import Services

T = TypeVar("T")


class CoreScheduler:
    """The scheduler of one benchmark. `put` and `removed` report changes; `work` attempts pods.

    `spend` is called with the seconds of work that count: decoding, events and what they requeue, and attempts with
    all that plugins do until a pod is bound. The entry of a new pod into the queue, its exit, and the bookkeeping when
    it is bound don't count. `bound` is called with each pod that was bound, and `rejected` with the key of each pod
    that was attempted and stays pending. `attempts`: their durations by result.
    """

    def __init__(
        self,
        state: ClusterState,
        client: Any,
        clock: Clock,
        build_profiles: Callable[[Handle], Mapping[str, Profile]],
        *,
        bound: Callable[[PodInfo], None],
        rejected: Callable[[str], None],
        spend: Callable[[float], None],
    ) -> None:
        services = Services.of(cast("Client", client), clock, state=state)
        handle = SchedulerHandle(services, self._activate)
        self.profiles = build_profiles(handle)
        self.state = state
        self.changed = services.work
        """Set whenever the queue may have changed."""
        self.queue = SchedulingQueue(
            {name: QueueProfile.of(profile) for name, profile in self.profiles.items()},
            services.state.nominations,
            own=own_volumes(services.state.objects),
        )
        self._services = services
        self._spend, self._bound, self._rejected = spend, bound, rejected
        self._attempting = False
        self._counter = counter = Counter(services, lambda pod: self._pods.put(pod.key, pod))
        self._runtime = runtime = Runtime(
            self.profiles,
            services.state,
            self.queue,
            services.waiting,
            Intake(services.work.set),
            counter.ports(),
            services.failures,
        )
        self._attempts = AttemptDriver(runtime, random.Random(0))
        self._executor = Executor(runtime)
        self._pods = PodHandler(Receiver.of(runtime, counter.timed(runtime.move)))
        self._handlers = Handlers(Receiver.of(runtime), pods=self._pods)
        self.attempts: dict[str, list[float]] = defaultdict(list)

    def put_pod(self, raw: bytes) -> PodInfo:
        """Decode a new or changed pod, and handle it."""
        began = time.perf_counter()
        pod = PodInfo.from_raw(raw)
        known = pod.key in self.state.objects[POD]
        decoded = time.perf_counter()
        self._pods.put(pod.key, pod)
        self._handled((time.perf_counter() if known else decoded) - began)
        return pod

    def put(self, kind: Kind, key: str, obj: Any) -> None:
        """Handle a new or changed object that isn't a pod."""
        began = time.perf_counter()
        self._handlers.of(kind).put(key, SentNode(obj) if kind is NODE else obj)
        self._handled(time.perf_counter() - began)

    def removed(self, kind: Kind, key: str) -> None:
        """Handle the deletion of an object."""
        began = time.perf_counter()
        self._handlers.of(kind).removed(key)
        self._handled(time.perf_counter() - began)

    def work(self) -> bool:
        """Attempt pods for a few milliseconds. Returns whether the queue may have another one now."""
        left = LONGEST_TURN
        clock, counter = time.perf_counter, self._counter
        while left > 0:
            queued = self.queue.pop(self._runtime.ports.now())
            if queued is None:
                return False
            counter.uncounted, self._attempting = 0.0, True
            began = clock()
            result = self._schedule(queued)
            seconds = clock() - began - counter.uncounted
            self._attempting = False
            self.attempts[result].append(seconds)
            self._spend(seconds)
            self._report()
            left -= seconds
        return True

    async def run(self) -> None:
        """Attempt pods whenever there are some, until cancelled. It waits by the event loop's clock."""
        while True:
            self.changed.clear()
            if self.work():
                await asyncio.sleep(0)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self.queue.next_wakeup(self._runtime.ports.now())):
                    await self.changed.wait()

    async def write_messages(self) -> None:
        """Report pods whose message changes without an attempt of their own, until cancelled."""
        await write_messages(self.queue, self._runtime.ports.statuses)

    def problem(self) -> str:
        """Why a pod is pending; "" if none is."""
        return next((f"pod {each.pod.key}: {each.message}" for each in self.queue if each.message), "")

    def _schedule(self, queued: QueuedPod) -> str:
        """Attempt a pod and carry the plan out. Returns the result, as in the metrics."""
        plan = finished(self._executor.schedule(queued, self._attempts))
        if self._counter.problem is not None:
            raise self._counter.problem
        if plan is None:
            return "skipped" if queued.place is None else "error"
        if plan.placed:
            return "scheduled"
        return "error" if any(refusal.error for refusal in plan.refused) else "unschedulable"

    def _handled(self, seconds: float) -> None:
        """Count the handling of an event, unless the attempt that caused it counts it."""
        if not self._attempting:
            self._spend(seconds)

    def _report(self) -> None:
        for pod in self._counter.bound:
            self._bound(pod)
        for key in self._counter.rejected:
            self._rejected(key)
        self._counter.bound.clear()
        self._counter.rejected.clear()

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self._runtime.activate(pods)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing. Raises Unsupported for one that waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise Unsupported("a plugin that waits")


class Counter(SilentPorts):
    """The ports of a benchmark: pods are bound at once, and counted. Victims are deleted, and nothing else is written.

    `bound` and `rejected`: the pods that were bound, and the keys of those that stay pending. `uncounted`: seconds of
    the current attempt that don't count. `problem`: why the benchmark can't go on; None if it can. `confirm` handles
    the event of a binding.
    """

    def __init__(self, services: Services, confirm: Callable[[PodInfo], None]) -> None:
        self.bound: list[PodInfo] = []
        self.rejected: list[str] = []
        self.uncounted = 0.0
        self.problem: Exception | None = None
        self._services = services
        self._confirm = confirm
        self._moving = 0.0
        """Seconds that events took to requeue pods."""
        self._binding_began: tuple[float, float] | None = None

    def ports(self) -> Ports:
        """The ports."""
        services = self._services
        evictor = ApiEvictor(services.client, services.clock, self, services.failures)
        return replace(services.ports(), run=self.run, binder=self, evictor=evictor, statuses=self, recorder=self)

    def timed(self, move: MoveOnEvent) -> MoveOnEvent:
        """Return what `move` does, measured."""

        def timed(event: ClusterEvent, old: object, new: object, only: Only | None = None) -> None:
            began = time.perf_counter()
            move(event, old, new, only)
            self._moving += time.perf_counter() - began

        return timed

    def run(self, what: str, pod: PodInfo, work: Coroutine[Any, Any, None]) -> None:
        """Finish a binding at once. The handling of its end and its event counts only as far as it requeues pods.

        A pod that waits in Permit, as those of a gang do for the last one, is bound by a task.
        """
        if what != BINDING or self._services.waiting.get(pod.uid) is not None:
            self._services.tasks.start(what, pod, work)
            return
        try:
            finished(work)
        except Unsupported as error:
            self.problem = error
        if self._binding_began is not None:
            began, moving = self._binding_began
            self.uncounted += time.perf_counter() - began - (self._moving - moving)
            self._binding_began = None

    async def pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
        """Run PreBind plugins, which have to succeed without waiting."""
        status = await run_pre_bind(plugins, binding.cycle, binding.pod, binding.node_name)
        if status.code is not Code.SUCCESS:
            self.problem = BenchmarkError(f"pod {binding.pod.key} on node {binding.node_name}: {status.message}")
        return status

    async def bind(self, binding: Binding) -> Status:
        """Count the pod."""
        self._binding_began = time.perf_counter(), self._moving
        self._confirm(binding.pod)
        self.bound.append(binding.pod)
        return success()

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        """Count a pod that stays pending."""
        self.rejected.append(pod.key)
