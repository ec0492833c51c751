"""Carries preemptions out, in the order that no preemptor is left behind.

Mirrors pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bayplan.api.kinds import POD
from bayplan.cluster.pod_info import PodInfo
from bayplan.executor.ports import Recorder
from bayplan.executor.runtime import Runtime
from bayplan.framework.changes import FORCE_ACTIVATE
from bayplan.queue import Place
from bayplan.scheduling import Preemption


class Evictions:
    """Evicts victims for each preempting pod, which PreEnqueue holds back until then.

    Victims that wait in Permit or PreBind are rejected there; all others are deleted, the last one after the others, so
    that the preemptor is released as late as possible and not too late. The deletion events requeue the preemptor; if a
    victim cannot be evicted, the preemptor is retried without it. A group that preempts as a whole is retried when its
    last victim is gone: where its members fit then may depend on plugins that no deletion of a pod concerns.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._state = runtime.state
        self._groups: dict[str, tuple[PodInfo, set[str]]] = {}
        """The members that preempt for their groups, by uid, with the uids of the victims that are not gone yet."""
        self._stop_following: Callable[[], None] | None = None

    def start(self, preemption: Preemption) -> None:
        """Evict the victims, none of which is terminating."""
        if preemption.pod_group_uid:
            self._groups[preemption.pod.uid] = preemption.pod, {victim.uid for victim in preemption.victims}
            if self._stop_following is None:
                self._stop_following = self._state.objects[POD].follow(self._pod_changed)
        self._runtime.ports.run("preemption for", preemption.pod, self._run(preemption))

    async def _run(self, preemption: Preemption) -> None:
        uid, measures = preemption.pod.uid, self._runtime.ports.measures
        began, evicted = measures.now(), False
        try:
            *others, last = preemption.victims
            evicted = await self._evict(preemption, others)
            if evicted:
                self._state.preemptions.only_left(uid, last.uid)
                evicted = await self._evict(preemption, [last])
        finally:
            measures.evicted(began, success=evicted)
            self._state.preemptions.end(uid)
            if not evicted or self._missed_the_events(preemption):
                self._retry(preemption.pod)

    async def _evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Reject victims that are not bound yet, and delete the others. Returns whether all are evicted or gone."""
        bound = []
        for victim in victims:
            if self._rejected(victim, preemption.plugin):
                note = f"{preempted_note(preemption)} (in kube-scheduler memory)."
                record_preempted(self._runtime.ports.recorder, victim, preemption, note)
            else:
                bound.append(victim)
        return not bound or await self._runtime.ports.evictor.evict(preemption, bound)

    def _rejected(self, victim: PodInfo, plugin: str) -> bool:
        """Reject a victim that is not bound yet. Returns False for one that is bound."""
        waiting = self._runtime.waiting.get(victim.uid)
        if waiting is not None:
            return bool(waiting.preempt(plugin, "preempted"))
        return self._runtime.ports.binder.cancel_pre_bind(victim.uid, f"preempted by {plugin}")

    def _missed_the_events(self, preemption: Preemption) -> bool:
        """Whether the pod was gated while its victims were deleted, so that no event will requeue it."""
        queued = self._runtime.queue.get(preemption.pod.uid)
        gated = queued is not None and queued.place is Place.GATED
        return gated and all(self._state.pod(victim.uid) is None for victim in preemption.victims)

    def _pod_changed(self, before: PodInfo | None, now: PodInfo | None) -> None:
        """Retry the groups whose last victim this was."""
        if before is None or (now is not None and now.uid == before.uid):
            return
        for uid, (pod, victims) in list(self._groups.items()):
            victims.discard(before.uid)
            if not victims:
                del self._groups[uid]
                self._runtime.intake.afterwards(partial(self._retry, pod))  # once the state shows that it is gone
        if not self._groups and self._stop_following is not None:
            self._stop_following()
            self._stop_following = None

    def _retry(self, pod: PodInfo) -> None:
        self._runtime.move(FORCE_ACTIVATE, None, pod, only=lambda other: other.uid == pod.uid)
        self._runtime.ports.wake()


def preempted_note(preemption: Preemption) -> str:
    """The note of the event about a victim."""
    if preemption.pod_group_uid:
        return f"Preempted by podgroup {preemption.pod_group_uid} on node cluster"
    return f"Preempted by pod {preemption.pod.uid} on node {preemption.node}"


def record_preempted(recorder: Recorder, victim: PodInfo, preemption: Preemption, note: str = "") -> None:
    """Record the event about a victim. `note`: by default `preempted_note`."""
    note = note or preempted_note(preemption)
    recorder.record(victim, preemption.pod.scheduler_name, "Normal", "Preempted", "Preempting", note)
