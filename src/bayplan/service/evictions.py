"""Evicts the victims of preemptions, as far as it is awaited.

Mirrors pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bayplan.api.kinds import POD
from bayplan.api.objects import UndecodableObject
from bayplan.client import ApiError, ConfigError, TransportError
from bayplan.client.errors import InvalidNameError
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.changes import FORCE_ACTIVATE
from bayplan.log_fields import about_pod
from bayplan.queue import Place
from bayplan.scheduling import Preemption
from bayplan.service.binding import BindingCycles
from bayplan.service.pod_status import patch_status, pod_condition
from bayplan.service.runtime import Runtime

log = logging.getLogger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
_RETRY_SECONDS = (0.01, 0.05, 0.25)


class Evictions:
    """Evicts victims in a task per preempting pod, which PreEnqueue holds back until then.

    Victims that wait in Permit or PreBind are rejected there; all others are deleted, the last one after the others, so
    that the preemptor is released as late as possible and not too late. The deletion events requeue the preemptor; if a
    victim cannot be evicted, the preemptor is retried without it. A group that preempts as a whole is retried when its
    last victim is gone: where its members fit then may depend on plugins that no deletion of a pod concerns.
    """

    def __init__(self, runtime: Runtime, bindings: BindingCycles) -> None:
        self._runtime = runtime
        self._state = runtime.state
        self._bindings = bindings
        self._groups: dict[str, tuple[PodInfo, set[str]]] = {}
        """The members that preempt for their groups, by uid, with the uids of the victims that are not gone yet."""
        runtime.state.objects[POD].listen(self._pod_changed)

    def start(self, preemption: Preemption) -> None:
        """Evict the victims, none of which is terminating."""
        if preemption.pod_group_uid:
            self._groups[preemption.pod.uid] = preemption.pod, {victim.uid for victim in preemption.victims}
        self._runtime.tasks.start("preemption for", preemption.pod, self._run(preemption))

    async def _run(self, preemption: Preemption) -> None:
        uid, metrics = preemption.pod.uid, self._runtime.metrics
        began, evicted = metrics.now(), False
        try:
            *others, last = preemption.victims
            evicted = await self._evict_all(preemption, others)
            if evicted:
                self._state.preemptions.only_left(uid, last.uid)
                evicted = await self._evict_all(preemption, [last])
        finally:
            metrics.evicted(began, success=evicted)
            self._state.preemptions.end(uid)
            if not evicted or self._missed_the_events(preemption):
                self._retry(preemption.pod)

    async def _evict_all(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Evict victims concurrently. Returns whether all are evicted or gone."""
        evictions = (self._evict(preemption, victim) for victim in victims)
        results = await asyncio.gather(*evictions, return_exceptions=True)
        preemptor = about_pod(preemption.pod, "preemptor")
        for victim, problem in zip(victims, results, strict=True):
            if isinstance(problem, ApiError | TransportError | ConfigError):
                log.warning("pod %s could not be evicted for pod %s: %s", about_pod(victim), preemptor, problem)
            elif isinstance(problem, BaseException):
                expected = isinstance(problem, UndecodableObject | InvalidNameError)
                self._runtime.failures.record("evicting a pod", problem, f"pod {about_pod(victim)}", expected=expected)
        return not any(isinstance(problem, BaseException) for problem in results)

    async def _evict(self, preemption: Preemption, victim: PodInfo) -> None:
        pod, group = preemption.pod, preemption.pod_group_uid
        note = f"Preempted by pod {pod.uid} on node {preemption.node}"
        if group:
            note = f"Preempted by podgroup {group} on node cluster"
        if self._rejected(victim, preemption.plugin):
            note += " (in kube-scheduler memory)."
        elif not await self._deleted(victim, pod.scheduler_name, "podgroup" if group else "pod"):
            return
        self._runtime.recorder.record(victim, pod.scheduler_name, "Normal", "Preempted", "Preempting", note)

    def _rejected(self, victim: PodInfo, plugin: str) -> bool:
        """Reject a victim that is not bound yet. Returns False for one that is bound."""
        waiting = self._runtime.waiting.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        return self._bindings.cancel_pre_bind(victim.uid, f"preempted by {plugin}")

    async def _deleted(self, victim: PodInfo, scheduler_name: str, preemptor: str) -> bool:
        """Write the reason into the victim's status, and delete the victim. Returns False if it was already gone."""
        client, status = self._runtime.client, self._disruption(victim, scheduler_name, preemptor)
        try:
            if status is not None:
                await _retried(lambda: patch_status(client, victim, status))
            await _retried(lambda: client.delete(POD, victim.name, victim.namespace, uid=victim.uid))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _disruption(self, victim: PodInfo, scheduler_name: str, preemptor: str) -> dict[str, Any] | None:
        """A patch of the victim's status with the reason for the eviction; None where the status has it already."""
        message = f"{scheduler_name}: preempting to accommodate a higher priority {preemptor}"
        pod = victim.object  # read once: it may have to be decoded
        conditions = (pod.status.conditions if pod.status else None) or ()
        generation = pod.metadata.generation if pod.metadata else None
        old = next((each for each in conditions if each.type == DISRUPTION_TARGET), None)
        changed = self._runtime.clock.now() if old is None or old.status != "True" else None
        condition = pod_condition(DISRUPTION_TARGET, "True", PREEMPTED, message, generation, changed)
        if old is not None and all(getattr(old, name) == value for name, value in condition.items()):
            return None
        order = dict.fromkeys([*(each.type for each in conditions), DISRUPTION_TARGET])
        return {"$setElementOrder/conditions": [{"type": name} for name in order], "conditions": [condition]}

    def _missed_the_events(self, preemption: Preemption) -> bool:
        """Whether the pod was gated while its victims were deleted, so that no event will requeue it."""
        queued = self._runtime.queue.get(preemption.pod.uid)
        gated = queued is not None and queued.place is Place.GATED
        return gated and all(self._state.pod(victim.uid) is None for victim in preemption.victims)

    def _pod_changed(self, before: PodInfo | None, now: PodInfo | None) -> None:
        """Retry the groups whose last victim this was."""
        if not self._groups or before is None or (now is not None and now.uid == before.uid):
            return
        for uid, (pod, victims) in list(self._groups.items()):
            victims.discard(before.uid)
            if not victims:
                del self._groups[uid]
                asyncio.get_running_loop().call_soon(self._retry, pod)  # once the state shows that it is gone

    def _retry(self, pod: PodInfo) -> None:
        self._runtime.move(FORCE_ACTIVATE, None, pod, only=lambda other: other.uid == pod.uid)
        self._runtime.work.set()


async def _retried(request: Callable[[], Awaitable[object]]) -> None:
    """Repeat a request a few times while the API server fails. Raises the last error."""
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
