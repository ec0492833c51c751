"""GangScheduling: pods of one of Kubernetes' own PodGroups (scheduling.k8s.io/v1alpha2) are placed together.

Mirrors plugins/gangscheduling/gangscheduling.go. Pods say which group they belong to by `spec.schedulingGroup`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.api.kinds import POD
from bayplan.cluster.pod_groups import PodsByGroup
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import events
from bayplan.framework.events import Action, ClusterEvent, EventHint, Hint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import PLACED_WITH, Answer, CycleState, Gang, Plugin, Wait
from bayplan.framework.status import Status

POD_GROUPS = "podgroups.v1alpha2.scheduling.k8s.io"
PERMIT_SECONDS = 300.0
TOO_FEW = Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")

_KEY = (__name__, "group")


class GangPolicy(msgspec.Struct):
    """`gang` of a scheduling policy."""

    minCount: int


class SchedulingPolicy(msgspec.Struct):
    """`schedulingPolicy` of a PodGroup; without `gang`, its pods are placed one by one."""

    gang: GangPolicy | None = None


class PodGroupSpec(msgspec.Struct):
    """As much of the `spec` of a PodGroup as is heeded."""

    schedulingPolicy: SchedulingPolicy


class GangScheduling(Plugin):
    """Holds pods of a gang back until there are enough, and lets them be bound when enough have a place."""

    name = "GangScheduling"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._pod_groups = handle.objects(POD_GROUPS)
        self._complete: set[str] = set()
        """The gangs that have pods enough, as far as anybody looked."""
        self._members = PodsByGroup(handle.objects(POD), key_of)
        self._members.listen(self._wake)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold a pod back whose group is not there, or lacks pods."""
        key = key_of(pod)
        if key is None:
            return None
        if key not in self._pod_groups:
            name = key.partition("/")[2]
            return Status.unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        try:
            least = self._least(key)
        except msgspec.ValidationError as error:
            return Status.unresolvable(f"PodGroup {key} cannot be understood: {error}")
        return TOO_FEW if least is not None and len(self._members[key].staying) < least else None

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """The pod's gang, while it lacks members and enough wait to fill it."""
        key = key_of(pod)
        least = None if key is None else self._least(key)
        if key is None or least is None:
            return None
        assigned = self._members.assigned(key)
        members = tuple(other for other in self._members[key].pending if other.uid not in assigned)
        needed = least - len(assigned)
        if needed <= 0 or len(members) < needed:
            return None
        return Gang(key.partition("/")[2], members, needed, placed=len(assigned))

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer:
        """Nothing is set aside."""
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """The pod will not be bound: it counts no more."""
        key = key_of(pod)
        if key is not None:
            self._members.settle(key, pod.uid)

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Wait:
        """Let all pods of the gang go once there are enough; until then they wait, and others are tried."""
        key = key_of(pod)
        if key is None:
            return None
        if key not in self._pod_groups:
            return Status.error(f"failed to get podGroup {key}: it does not exist")
        least = self._least(key)
        if least is None:
            return None
        self._members.permit(key, pod.uid)
        assigned = self._members.assigned(key)
        if len(assigned) < least:
            if PLACED_WITH not in cycle.data:
                self._handle.activate(other for other in self._members[key].pending if other.uid not in assigned)
            return Wait(PERMIT_SECONDS)
        for waiting in self._handle.waiting_pods:
            if key_of(waiting.pod) == key:
                waiting.allow(self.name)
        return None

    def events(self) -> Iterable[EventHint]:
        """New members, and groups that are new. A group never changes."""
        yield EventHint(ClusterEvent(events.POD, Action.ADD), after_pod_added)
        yield EventHint(ClusterEvent(POD_GROUPS, Action.ADD), after_pod_group_added)

    def _wake(self, key: str) -> None:
        """A gang that has just become complete may enter the queue: no event tells of pods that have no node yet."""
        members = self._members[key]
        try:
            least = self._least(key)
        except msgspec.ValidationError:
            least = None
        if least is None or len(members.staying) < least:
            self._complete.discard(key)
        elif key not in self._complete:
            self._complete.add(key)
            self._handle.activate(members.pending)

    def _least(self, key: str) -> int | None:
        """How many pods of a group have to be placed together; None for a group that is no gang, or is not there."""
        pod_group: Any = self._pod_groups.get(key)
        if pod_group is None:
            return None
        gang = msgspec.convert(pod_group.get("spec") or {}, PodGroupSpec).schedulingPolicy.gang
        return None if gang is None else gang.minCount


def key_of(pod: PodInfo) -> str | None:
    """`namespace/name` of a pod's group; None for a pod without one.

    Kept with the pod, for its object may have been released.
    """
    if _KEY not in pod.cache:
        group = pod.spec.schedulingGroup
        pod.cache[_KEY] = f"{pod.namespace}/{group.podGroupName}" if group and group.podGroupName else None
    key: str | None = pod.cache[_KEY]
    return key


def after_pod_added(pod: PodInfo, old: None, new: PodInfo) -> Hint:
    """A pod helps those of its group."""
    return Hint.QUEUE if key_of(pod) is not None and key_of(pod) == key_of(new) else Hint.SKIP


def after_pod_group_added(pod: PodInfo, old: None, new: dict[str, Any]) -> Hint:
    """A group helps its own pods."""
    metadata = new["metadata"]
    return Hint.QUEUE if key_of(pod) == f"{metadata.get('namespace')}/{metadata.get('name')}" else Hint.SKIP
