"""Carries preemptions out: evicts the victims, beside everything else that the scheduler does.

Mirrors pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.kinds import POD
from bayplan.api.times import rfc3339
from bayplan.client import ApiError, Client, ConfigError, PatchType, TransportError
from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.changes import FORCE_ACTIVATE
from bayplan.log_fields import about_node, about_pod
from bayplan.queue import Place, SchedulingQueue
from bayplan.scheduling import Decision
from bayplan.service.binding import BindingCycles
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
_RETRY_SECONDS = (0.01, 0.05, 0.25)


class Evictions:
    """Evicts victims, in a task of `tasks` for each pod that preempts, which is held back meanwhile.

    Victims that still wait in Permit or PreBind are turned down there, all others are deleted: the last one after the
    others, so that it is known when the pod need not be held back any more. The news that victims are gone is what
    brings the pod back to the queue; if one cannot be evicted, the pod is tried again without it.
    """

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        client: Client,
        state: ClusterState,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        bindings: BindingCycles,
        recorder: EventRecorder,
        status: PodStatusWriter,
        wake: Callable[[], None],
        clock: Clock,
        metrics: Metrics | None = None,
    ) -> None:
        self._tasks = tasks
        self._client = client
        self._state = state
        self._queue = queue
        self._waiting = waiting
        self._bindings = bindings
        self._recorder = recorder
        self._status = status
        self._wake = wake
        self._clock = clock
        self._metrics = metrics or Metrics(clock)
        self._running: dict[asyncio.Task[None], PodInfo] = {}

    def start(self, decision: Decision, pod_group_uid: str = "") -> None:
        """Evict the victims of a decision. To be called before its pod goes back to the queue.

        `pod_group_uid`: of the PodGroup that they go for, if they do not go for the pod alone.
        """
        victims = [victim for victim in decision.victims if not victim.terminating]
        if not victims:
            return
        log.info(
            "pod %s preempts %d pods on node %s",
            about_pod(decision.pod),
            len(victims),
            about_node(decision.nominated_node or ""),
        )
        self._state.preemptions.begin(decision.pod.uid)
        self._clear_lower_nominations(decision)
        task = self._tasks.create_task(
            self._run(decision, victims, pod_group_uid), name=f"preempt for {decision.pod.key}"
        )
        self._running[task] = decision.pod
        task.add_done_callback(self._running.pop)

    async def drain(self, seconds: float) -> None:
        """Let evictions that have begun come to their end, so many seconds at most."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                log.warning("preemption for pod %s was not finished in time", about_pod(self._running[task]))
                task.cancel()

    def _clear_lower_nominations(self, decision: Decision) -> None:
        """Pods of lower priority that were to have the node will hardly find room: they had better look elsewhere."""
        for other in self._state.nominations.on(decision.nominated_node or ""):
            if other.priority < decision.pod.priority:
                self._state.nominations.remove(other.uid)
                self._status.clear_nomination(other)

    async def _run(self, decision: Decision, victims: list[PodInfo], pod_group_uid: str) -> None:
        uid = decision.pod.uid
        began, evicted = self._metrics.now(), False
        try:
            *others, last = victims
            evicted = await self._evict_all(decision, others, pod_group_uid)
            if evicted:
                self._state.preemptions.only_left(uid, last.uid)
                evicted = await self._evict_all(decision, [last], pod_group_uid)
        finally:
            self._metrics.evicted(began, success=evicted)
            self._state.preemptions.end(uid)
            if not evicted or self._slept_through(decision, victims):
                self._try_again(decision.pod)

    async def _evict_all(self, decision: Decision, victims: list[PodInfo], pod_group_uid: str) -> bool:
        """Evict victims at once. Returns whether all are evicted, or gone anyway."""
        evictions = (self._evict(decision, victim, pod_group_uid) for victim in victims)
        results = await asyncio.gather(*evictions, return_exceptions=True)
        preemptor = about_pod(decision.pod, "preemptor")
        for victim, problem in zip(victims, results, strict=True):
            if isinstance(problem, ApiError | TransportError | ConfigError):
                log.warning("pod %s could not be evicted for pod %s: %s", about_pod(victim), preemptor, problem)
            elif isinstance(problem, BaseException):
                log.error("evicting pod %s for pod %s broke", about_pod(victim), preemptor, exc_info=problem)
        return not any(isinstance(problem, BaseException) for problem in results)

    async def _evict(self, decision: Decision, victim: PodInfo, pod_group_uid: str) -> None:
        pod = decision.pod
        note = f"Preempted by pod {pod.uid} on node {decision.nominated_node}"
        if pod_group_uid:
            note = f"Preempted by podgroup {pod_group_uid} on node cluster"
        if self._turned_down(victim, decision.preempted_by):
            note += " (in kube-scheduler memory)."
        elif not await self._deleted(victim, pod.scheduler_name, "podgroup" if pod_group_uid else "pod"):
            return
        self._recorder.record(victim, pod.scheduler_name, "Normal", "Preempted", "Preempting", note)

    def _turned_down(self, victim: PodInfo, plugin: str) -> bool:
        """Whether the victim was still waiting to be bound, and is not going to be any more."""
        waiting = self._waiting.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        return self._bindings.cancel_pre_bind(victim.uid, f"preempted by {plugin}")

    async def _deleted(self, victim: PodInfo, scheduler_name: str, preemptor: str) -> bool:
        """Say in the victim's status why it goes, and delete it. Returns False for one that was gone before."""
        condition = self._disruption(victim, scheduler_name, preemptor)
        try:
            if condition is not None:
                patch = {"metadata": {"uid": victim.uid}, "status": _last_among(victim, condition)}
                await _persistently(lambda: self._patch_status(victim, patch))
            await _persistently(lambda: self._client.delete(POD, victim.name, victim.namespace, uid=victim.uid))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def _patch_status(self, victim: PodInfo, patch: dict[str, Any]) -> None:
        await self._client.patch(
            POD, victim.name, patch, victim.namespace, type=PatchType.STRATEGIC, subresource="status"
        )

    def _disruption(self, victim: PodInfo, scheduler_name: str, preemptor: str) -> dict[str, Any] | None:
        """The condition that tells why the victim goes; None where its status says so already."""
        said: dict[str, Any] = {
            "status": "True",
            "reason": PREEMPTED,
            "message": f"{scheduler_name}: preempting to accommodate a higher priority {preemptor}",
        }
        generation = victim.metadata.generation
        if generation is not None:
            said["observedGeneration"] = generation
        old = next((each for each in victim.status.conditions or () if each.type == DISRUPTION_TARGET), None)
        if old is not None and all(getattr(old, name) == value for name, value in said.items()):
            return None
        condition: dict[str, Any] = {"type": DISRUPTION_TARGET, "lastProbeTime": None, **said}
        if old is None or old.status != "True":
            condition["lastTransitionTime"] = rfc3339(self._clock.now())
        return condition

    def _slept_through(self, decision: Decision, victims: list[PodInfo]) -> bool:
        """Whether the pod was held back while the last of its victims went, so that no news will wake it."""
        queued = self._queue.get(decision.pod.uid)
        held_back = queued is not None and queued.place is Place.GATED
        return held_back and all(self._state.pod(victim.uid) is None for victim in victims)

    def _try_again(self, pod: PodInfo) -> None:
        now = self._clock.monotonic()
        self._queue.move_on_event(FORCE_ACTIVATE, None, pod, now, only=lambda other: other.uid == pod.uid)
        self._wake()


def _last_among(pod: PodInfo, condition: dict[str, Any]) -> dict[str, Any]:
    """A patch of a pod's status that adds a condition behind those that it has, or changes it in its place."""
    types = dict.fromkeys([*(each.type for each in pod.status.conditions or ()), condition["type"]])
    return {"$setElementOrder/conditions": [{"type": name} for name in types], "conditions": [condition]}


async def _persistently(request: Callable[[], Awaitable[None]]) -> None:
    """Repeat a request a few times while the server seems to be out of order. Raises what it said the last time."""
    for delay in _RETRY_SECONDS:
        try:
            await request()
        except ApiError as error:
            if error.status < 500 and error.status != 429:
                raise
            await asyncio.sleep(error.retry_after or delay)
        except TransportError:
            await asyncio.sleep(delay)
        else:
            return
    await request()
