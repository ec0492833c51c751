"""The binding cycle: from an assumed pod to a bound one, or back to the queue.

Mirrors bindingCycle in pkg/scheduler/schedule_one.go. Runs as a task a pod, beside the scheduling cycles of others.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from bayplan.api.kinds import POD
from bayplan.api.objects import UndecodableObject
from bayplan.client import ApiError, Client, ConfigError, TransportError
from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.changes import ASSIGNED_POD_DELETE
from bayplan.framework.extenders import ExtenderError
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Profile
from bayplan.framework.runner import (
    run_bind,
    run_post_bind,
    run_pre_bind,
    run_pre_bind_pre_flight,
    run_unreserve,
)
from bayplan.framework.status import Code, PluginError, Status
from bayplan.log_fields import about_node, about_pod
from bayplan.queue import QueuedPod, SchedulingQueue
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.extenders import Extenders
from bayplan.service.failures import Failures
from bayplan.service.informers import Intake
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.metrics.plugin_times import PluginTimes
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPod, WaitingPods

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod on its way to a node. `pod` is the assumed one."""

    queued: QueuedPod
    pod: PodInfo
    node_name: str
    profile: Profile
    cycle: CycleState
    times: PluginTimes | None = None
    """Where the plugins' times are noted, if they are measured this time."""


@dataclass(slots=True)
class _PreBinding:
    """A PreBind under way, and why it was broken off, if it was."""

    task: asyncio.Task[Status]
    cancelled_because: str = ""


class BindingCycles:
    """Runs binding cycles, each in a task of `tasks`.

    What they change of the state goes through `intake`: a scheduling cycle may be waiting for extenders. One of the
    `extenders` may bind instead of the profile's Bind plugins.
    """

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        client: Client,
        state: ClusterState,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        failures: Failures,
        recorder: EventRecorder,
        status: PodStatusWriter,
        intake: Intake,
        clock: Clock,
        extenders: Extenders | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._tasks = tasks
        self._client = client
        self._state = state
        self._queue = queue
        self._waiting = waiting
        self._failures = failures
        self._recorder = recorder
        self._status = status
        self._intake = intake
        self._clock = clock
        self._extenders = extenders
        self._metrics = metrics or Metrics(clock)
        self._running: dict[asyncio.Task[None], PodInfo] = {}
        self._pre_binding: dict[str, _PreBinding] = {}
        self.bound = 0
        """Pods bound so far."""

    def start(self, binding: Binding, waiting: WaitingPod | None) -> None:
        """Go on with a pod that is assumed and reserved; `waiting` if a Permit plugin wants it to wait first."""
        task = self._tasks.create_task(self._run(binding, waiting), name=f"bind {binding.pod.key}")
        self._running[task] = binding.pod
        task.add_done_callback(self._running.pop)

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        """Break off a pod's PreBind, and its binding with it. Returns False for a pod that is not in PreBind."""
        pre_binding = self._pre_binding.get(uid)
        if pre_binding is None:
            return False
        pre_binding.cancelled_because = why
        pre_binding.task.cancel()
        return True

    @property
    def under_way(self) -> int:
        """How many pods are being bound."""
        return len(self._running)

    async def drain(self, seconds: float) -> None:
        """Let the pods that are on their way arrive, so many seconds at most; turn down those that wait in Permit."""
        for waiting in self._waiting:
            waiting.reject("", "the scheduler is stopping")
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                log.warning("binding pod %s was not finished in time", about_pod(self._running[task]))
                task.cancel()

    async def _run(self, binding: Binding, waiting: WaitingPod | None) -> None:
        try:
            status = await self._bind(binding, waiting)
        except Exception as error:  # whatever breaks, the pod must get back to the queue
            if not isinstance(error, PluginError):
                log.debug("binding pod %s broke", about_pod(binding.pod), exc_info=error)
            status = Status(Code.ERROR, (_told(error),))
        if status.code is Code.SUCCESS:
            self._bound(binding)
        else:
            self.undo(binding, status)
        if binding.times is not None:
            binding.times.finish()

    async def _bind(self, binding: Binding, waiting: WaitingPod | None) -> Status:
        pod, node_name, profile, cycle = binding.pod, binding.node_name, binding.profile, binding.cycle
        works = run_pre_bind_pre_flight(profile, cycle, pod, node_name)
        if works or waiting is not None:
            self._status.nominate(binding.queued.pod, node_name)
        if waiting is not None:
            began = self._metrics.now()
            try:
                status = await waiting.verdict()
            finally:
                self._waiting.remove(pod.uid)
            self._metrics.permit_waited(status.code, began)
            if status.code is not Code.SUCCESS:
                return status
        # From here on no plugin turns the pod down for what the cluster is like, so that no event can help it.
        self._queue.stop_recording(pod.uid)
        status = await (self._pre_bind(binding) if works else run_pre_bind(profile, cycle, pod, node_name))
        if status.code is not Code.SUCCESS:
            return status if status.code is Code.ERROR else Status(Code.ERROR, status.reasons, status.plugin)
        await self._status.withdraw(pod.uid)
        try:
            if self._extenders is not None and await self._extenders.bind(pod, node_name):
                return Status(Code.SUCCESS)
            return await run_bind(profile, cycle, pod, node_name)
        except (ApiError, TransportError, ExtenderError) as error:
            return await self._look(binding, error)

    async def _pre_bind(self, binding: Binding) -> Status:
        """Run PreBind in a task of its own: a pod of higher priority may need the room before it is done."""
        pod = binding.pod
        task = asyncio.create_task(
            run_pre_bind(binding.profile, binding.cycle, pod, binding.node_name), name=f"pre-bind {pod.key}"
        )
        pre_binding = self._pre_binding[pod.uid] = _PreBinding(task)
        try:
            status = await task
        except asyncio.CancelledError:
            if not pre_binding.cancelled_because:
                raise
            return Status(Code.ERROR, (pre_binding.cancelled_because,))
        finally:
            del self._pre_binding[pod.uid]
        if pre_binding.cancelled_because:  # and the plugin took no notice
            return Status(Code.ERROR, (pre_binding.cancelled_because,))
        return status

    async def _look(self, binding: Binding, error: ApiError | TransportError | ExtenderError) -> Status:
        """After a binding that may or may not have been carried out: the pod itself says which.

        The pod stays assumed until that is known, however long it takes: forgetting it too early would let its node
        be filled twice.
        """
        failed = Status(Code.ERROR, (f"binding to node {binding.node_name} failed: {error}",))
        if isinstance(error, ApiError) and error.status == 404:
            return failed
        attempt = 0
        while True:
            try:
                pod = await self._client.get(POD, binding.pod.name, binding.pod.namespace)
            except ApiError as answer:
                if answer.status == 404:
                    return failed
                if answer.status in {401, 403}:
                    log.warning("cannot see whether pod %s was bound: %s", about_pod(binding.pod), answer)
            except (TransportError, UndecodableObject, ConfigError) as problem:
                log.debug("cannot see yet whether pod %s was bound: %s", about_pod(binding.pod), problem)
            else:
                ours = pod.metadata.uid == binding.pod.uid and pod.spec.nodeName == binding.node_name
                return Status(Code.SUCCESS) if ours else failed
            await asyncio.sleep(_LOOK_AGAIN_SECONDS[min(attempt, len(_LOOK_AGAIN_SECONDS) - 1)])
            attempt += 1

    def _bound(self, binding: Binding) -> None:
        pod, profile = binding.pod, binding.profile
        self.bound += 1
        self._metrics.bound(binding.queued)
        self._queue.done(pod.uid)
        self._status.forget(pod.uid)
        if log.isEnabledFor(logging.INFO):
            log.info("pod %s bound to node %s", about_pod(pod), about_node(binding.node_name))
        note = f"Successfully assigned {pod.key} to {binding.node_name}"
        self._recorder.record(binding.queued.pod, profile.scheduler_name, "Normal", "Scheduled", "Binding", note)
        for error in run_post_bind(profile, binding.cycle, pod, binding.node_name):
            log.error("pod %s is bound, but %s", about_pod(pod), error)

    def undo(self, binding: Binding, status: Status) -> None:
        """Give back what was reserved, forget the pod, wake those that its room may help, and put it back.

        Where a scheduling cycle is open, that has to wait for its end.
        """
        self._intake.take(ASSIGNED_POD_DELETE.label, self._undo, binding, status)

    def _undo(self, binding: Binding, status: Status) -> None:
        pod = binding.pod
        for error in run_unreserve(binding.profile, binding.cycle, pod, binding.node_name):
            log.error("giving back what pod %s had reserved: %s", about_pod(pod), error)
        self._state.forget(pod.uid)
        if status.rejected:
            message = f"0/1 nodes are available: 1 {status.message}."
            self._failures.unschedulable(
                binding.queued, message, plugins=frozenset({status.plugin} - {""}), nominated_node=""
            )
        else:
            self._failures.error(binding.queued, status.message)
        now = self._clock.monotonic()
        self._queue.move_on_event(ASSIGNED_POD_DELETE, pod, None, now, only=lambda other: other.uid != pod.uid)


def _told(error: Exception) -> str:
    notes = "; ".join(getattr(error, "__notes__", ()))
    return f"{error} ({notes})" if notes else str(error)
