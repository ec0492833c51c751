"""A scheduler without an API server: the service's handlers, queue, attempts and plans, on objects in memory.

Only what would be sent to an API server is replaced: bindings, evictions, events and statuses.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.benchmarking.templates import BenchmarkError, Unsupported
from bayplan.client import Client
from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.binding_runner import run_pre_bind, run_pre_bind_pre_flight
from bayplan.framework.events import ClusterEvent
from bayplan.framework.handle import Handle
from bayplan.framework.own_volumes import own_volumes
from bayplan.framework.profile import Profile
from bayplan.framework.status import Code, PluginError, Status
from bayplan.queue import QueuedPod, QueueProfile, SchedulingQueue
from bayplan.service.binding import Binding, BindingCycles, Ended
from bayplan.service.carry_out import PlanCarrier
from bayplan.service.driver import AttemptDriver
from bayplan.service.event_recorder import EventRecorder, Regarding
from bayplan.service.evictions import Evictions
from bayplan.service.handle import SchedulerHandle
from bayplan.service.informers import NodeHandler, ObjectHandler, PodHandler, SentNode
from bayplan.service.intake import Intake
from bayplan.service.messages import write_messages
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.runtime import Runtime
from bayplan.service.waiting_pods import AwaitedPod
from bayplan.turns import LONGEST_TURN, Turn

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
        client: Any,
        clock: Clock,
        build_profiles: Callable[[Handle], Mapping[str, Profile]],
        *,
        bound: Callable[[PodInfo], None],
        rejected: Callable[[str], None],
        spend: Callable[[float], None],
    ) -> None:
        self._runtime = runtime = _Runtime(cast("Client", client), clock)
        self._spend, self._bound, self._rejected = spend, bound, rejected
        self._attempting = False
        self._uncounted = 0.0
        """Seconds of the current attempt that don't count."""
        self._newly_bound: list[PodInfo] = []
        self._newly_rejected: list[str] = []
        self.state = runtime.state
        self.changed = runtime.work
        """Set whenever the queue may have changed."""
        runtime.intake = _Intake(runtime.work.set)
        runtime.recorder = _NoEvents(runtime.client, clock)
        runtime.status = _Statuses(runtime.client, clock, self._newly_rejected.append)
        handle = SchedulerHandle(runtime, runtime.activate)
        self.profiles = build_profiles(handle)
        self.queue = runtime.queue = SchedulingQueue(
            {name: QueueProfile.of(profile) for name, profile in self.profiles.items()},
            runtime.state.nominations,
            own=own_volumes(runtime.state.objects),
        )
        self._attempts = AttemptDriver(runtime, self.profiles, random.Random(0))
        bindings = _Bindings(runtime, self._bind)
        self._plans = PlanCarrier(runtime, self.profiles, bindings, Evictions(runtime, bindings))
        self._pods = PodHandler(runtime, self.profiles.keys())
        self._nodes = NodeHandler(runtime)
        self._others: dict[Kind, ObjectHandler] = {}
        self._turn = Turn(lambda: 0.0)  # nothing that is attempted here pauses
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
        if kind is NODE:
            self._nodes.put(key, SentNode(obj))
        else:
            self._handler(kind).put(key, obj)
        self._handled(time.perf_counter() - began)

    def removed(self, kind: Kind, key: str) -> None:
        """Handle the deletion of an object."""
        began = time.perf_counter()
        if kind is POD:
            self._pods.removed(key)
        elif kind is NODE:
            self._nodes.removed(key)
        else:
            self._handler(kind).removed(key)
        self._handled(time.perf_counter() - began)

    def work(self) -> bool:
        """Attempt pods for a few milliseconds. Returns whether the queue may have another one now."""
        left = LONGEST_TURN
        clock = time.perf_counter
        while left > 0:
            queued = self.queue.pop(self._runtime.now())
            if queued is None:
                return False
            self._uncounted, self._attempting = 0.0, True
            began = clock()
            result = self._schedule(queued)
            seconds = clock() - began - self._uncounted
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
                async with asyncio.timeout_at(self.queue.next_wakeup(self._runtime.now())):
                    await self.changed.wait()

    async def write_messages(self) -> None:
        """Report pods whose message changes without an attempt of their own, until cancelled."""
        await write_messages(self._runtime)

    def problem(self) -> str:
        """Why a pod is pending; "" if none is."""
        return next((f"pod {each.pod.key}: {each.message}" for each in self.queue if each.message), "")

    def _schedule(self, queued: QueuedPod) -> str:
        """Attempt a pod and carry the plan out, as SchedulingLoop does. Returns the result, as in the metrics."""
        taken = {queued.uid: queued}
        try:
            if self._plans.skip(queued):
                return "skipped"
            plan, _ = finished(self._attempts.plan(self._attempts.unit_of(queued), taken, self._turn))
            self._plans.carry_out(plan, taken)
        except PluginError as error:
            self._plans.fail(taken, str(error))
            return "error"
        if plan.placed:
            return "scheduled"
        return "error" if any(refusal.error for refusal in plan.refused) else "unschedulable"

    def _bind(self, binding: Binding, ended: Ended) -> None:
        """Handle the end of a binding and its event, of which only the pods that it requeues count."""
        began, moving = time.perf_counter(), self._runtime.moving
        self._pods.put(binding.pod.key, binding.pod)
        ended(binding, Status(Code.SUCCESS))
        self._newly_bound.append(binding.pod)
        self._uncounted += time.perf_counter() - began - (self._runtime.moving - moving)

    def _handled(self, seconds: float) -> None:
        """Count the handling of an event, unless the attempt that caused it counts it."""
        if not self._attempting:
            self._spend(seconds)

    def _report(self) -> None:
        for pod in self._newly_bound:
            self._bound(pod)
        for key in self._newly_rejected:
            self._rejected(key)
        self._newly_bound.clear()
        self._newly_rejected.clear()

    def _handler(self, kind: Kind) -> ObjectHandler:
        handler = self._others.get(kind)
        if handler is None:
            handler = self._others[kind] = ObjectHandler(kind, self._runtime)
        return handler


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing. Raises Unsupported for one that waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise Unsupported("a plugin that waits")


class _Runtime(Runtime):
    """Measures how long events take to requeue pods. `moving`: seconds so far."""

    moving = 0.0

    def move(
        self, event: ClusterEvent, old: object, new: object, only: Callable[[PodInfo], bool] | None = None
    ) -> None:
        began = time.perf_counter()
        super().move(event, old, new, only)
        self.moving += time.perf_counter() - began


class _Bindings(BindingCycles):
    """Binds a pod at once, in the caller's turn."""

    def __init__(self, runtime: Runtime, bind: Callable[[Binding, Ended], None]) -> None:
        super().__init__(runtime)
        self._bind_now = bind

    def start(self, binding: Binding, waiting: AwaitedPod | None, ended: Ended) -> None:
        pod, node_name, profile, cycle = binding.pod, binding.node_name, binding.profile, binding.cycle
        if waiting is not None:
            raise Unsupported("a Permit plugin that lets pods wait")
        self._runtime.queue.stop_recording(pod.uid)
        if plugins := run_pre_bind_pre_flight(profile, cycle, pod, node_name):
            status = finished(run_pre_bind(plugins, cycle, pod, node_name))
            if status.code is not Code.SUCCESS:
                raise BenchmarkError(f"pod {pod.key} on node {node_name}: {status.message}")
        self._bind_now(binding, ended)


class _Intake(Intake):
    """Applies changes without measuring each."""

    def take(self, event: str, change: Callable[..., None], *arguments: Any) -> None:
        if self._holders:
            super().take(event, change, *arguments)
        else:
            change(*arguments)
            self._wake()


class _NoEvents(EventRecorder):
    """Records nothing."""

    def record(self, pod: Regarding, controller: str, event_type: str, reason: str, action: str, note: str) -> None:
        pass


class _Statuses(PodStatusWriter):
    """Reports the pods that stay pending, and writes nothing."""

    def __init__(self, client: Client, clock: Clock, rejected: Callable[[str], None]) -> None:
        super().__init__(client, clock)
        self._rejected = rejected

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        self._rejected(pod.key)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        pass

    def clear_nomination(self, pod: PodInfo) -> None:
        pass
