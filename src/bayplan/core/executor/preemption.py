"""Carries preemptions out, in the order that no preemptor is left behind.

Victims that wait in Permit or PreBind are rejected there, all others are deleted, the last one after the others.
Meanwhile, DefaultPreemption's PreEnqueue holds the preemptor back (`bayplan.core.cluster.preemptions`). The deletions
requeue it, or the failure of an eviction. If it is still held back when its last victim is gone, it is retried then:
the deletion that helps it may have come while it had to wait. Mirrors pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Recorder
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.changes import FORCE_ACTIVATE
from bayplan.core.queue import Place
from bayplan.core.scheduling import Preemption


class Evictions:
    """Evicts victims for each preempting pod, which PreEnqueue holds back until then.

    Victims that wait in Permit or PreBind are rejected there; all others are deleted, the last one after the others, so
    that the preemptor is released as late as possible and not too late. The deletion events requeue the preemptor; if a
    victim cannot be evicted, the preemptor is retried without it.

    When the last victim is gone, a preemptor that is still gated is retried, too: the deletion that helps it may have
    come while it had to wait. So is a group that preempts as a whole: where its members fit then may depend on plugins
    that no deletion of a pod concerns.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._state = runtime.state
        self._left: dict[str, set[str]] = {}
        """By the uid of a preemptor: the uids of its victims that are not gone yet."""
        self._preemptors: dict[str, dict[str, Preemption]] = {}
        """By the uid of a victim: the preemptions that it is a victim of, by the uid of the preemptor."""
        self._stop_following: Callable[[], None] | None = None

    def start(self, preemption: Preemption) -> None:
        """Evict the victims. None of them is terminating."""
        self._left[preemption.pod.uid] = {victim.uid for victim in preemption.victims}
        for victim in preemption.victims:
            self._preemptors.setdefault(victim.uid, {})[preemption.pod.uid] = preemption
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
            if not evicted:
                self._forget(preemption)
                self._retry(preemption)
            elif uid not in self._left:
                self._retry_without_victims(preemption)

    async def _evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Reject victims that are not bound yet, and delete the others. Returns whether all are evicted or gone."""
        bound = []
        for victim in victims:
            if self._rejected(victim, preemption.plugin):
                note = f"{preempted_note(preemption)} (in kube-scheduler memory)."
                record_preempted(self._runtime.ports.recorder, victim, preemption, note)
                self._gone(victim.uid, [preemption])
            else:
                bound.append(victim)
        return not bound or await self._runtime.ports.evictor.evict(preemption, bound)

    def _rejected(self, victim: PodInfo, plugin: str) -> bool:
        """Reject a victim that is not bound yet. Returns False for one that is bound."""
        waiting = self._runtime.waiting.get(victim.uid)
        if waiting is not None:
            return bool(waiting.preempt(plugin, "preempted"))
        return self._runtime.ports.binder.cancel_pre_bind(victim.uid, f"preempted by {plugin}")

    def _pod_changed(self, before: PodInfo | None, now: PodInfo | None) -> None:
        if before is not None and before.uid in self._preemptors and (now is None or now.uid != before.uid):
            self._gone(before.uid, list(self._preemptors[before.uid].values()))

    def _gone(self, victim_uid: str, preemptions: Sequence[Preemption]) -> None:
        """Retry the preemptors whose last victim this was, once the state shows that it is gone."""
        for preemption in preemptions:
            uid = preemption.pod.uid
            self._release(victim_uid, uid)
            left = self._left.get(uid, set())
            left.discard(victim_uid)
            if not left and self._left.pop(uid, None) is not None:
                self._runtime.intake.afterwards(partial(self._retry_without_victims, preemption))

    def _forget(self, preemption: Preemption) -> None:
        for victim_uid in self._left.pop(preemption.pod.uid, ()):
            self._release(victim_uid, preemption.pod.uid)

    def _release(self, victim_uid: str, uid: str) -> None:
        preemptions = self._preemptors.get(victim_uid, {})
        preemptions.pop(uid, None)
        if not preemptions:
            self._preemptors.pop(victim_uid, None)
        if not self._preemptors and self._stop_following is not None:
            self._stop_following()
            self._stop_following = None

    def _retry_without_victims(self, preemption: Preemption) -> None:
        """Retry a group whose last victim is gone, or a pod that is still gated then."""
        queued = self._runtime.queue.get(preemption.pod.uid)
        if preemption.pod_group_uid or (queued is not None and queued.place is Place.GATED):
            self._retry(preemption)

    def _retry(self, preemption: Preemption) -> None:
        """Retry the preemptor. Of a group, all pods: each may be gated, and the one that preempted may be gone."""
        for pod in [*self._others_of_the_group(preemption), preemption.pod]:
            self._runtime.move(FORCE_ACTIVATE, None, pod, only=partial(_is, pod.uid))
        self._runtime.ports.wake()

    def _others_of_the_group(self, preemption: Preemption) -> list[PodInfo]:
        """The other pending pods of the group that preempts as a whole; none if a pod preempts."""
        if not preemption.pod_group_uid:
            return []
        keys, uid = preemption.pod_groups or {pod_group_of(preemption.pod)}, preemption.pod.uid
        return [each.pod for each in self._runtime.queue if each.uid != uid and pod_group_of(each.pod) in keys]


def _is(uid: str, pod: PodInfo) -> bool:
    return pod.uid == uid


def preempted_note(preemption: Preemption) -> str:
    """The note of the event about a victim."""
    if preemption.pod_group_uid:
        return f"Preempted by podgroup {preemption.pod_group_uid} on node cluster"
    return f"Preempted by pod {preemption.pod.uid} on node {preemption.node}"


def record_preempted(recorder: Recorder, victim: PodInfo, preemption: Preemption, note: str = "") -> None:
    """Record the event about a victim. `note`: by default `preempted_note`."""
    note = note or preempted_note(preemption)
    recorder.record(victim, preemption.pod.scheduler_name, "Normal", "Preempted", "Preempting", note)
