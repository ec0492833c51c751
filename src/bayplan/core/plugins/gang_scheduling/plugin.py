"""GangScheduling: places the pods of a Kubernetes PodGroup (scheduling.k8s.io) together.

Pods name their group in `spec.schedulingGroup`. Mirrors plugins/gangscheduling/gangscheduling.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bayplan.core.api.kinds import POD
from bayplan.core.api.pod_groups import POD_GROUPS, spec_of
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_groups import PodsByGroup
from bayplan.core.cluster.pod_groups import pod_group_of as key_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import events
from bayplan.core.framework.events import Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.gangs import PLACED_WITH, Gang, GangOutcome, several_schedulers
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import Answer, CycleState, Wait
from bayplan.core.framework.near_names import near_name
from bayplan.core.framework.remedies import Details, Remedy
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import Status
from bayplan.core.plugins.gang_scheduling.conditions import PodGroupConditions
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

PERMIT_SECONDS = 300.0
_POLICY = (__name__, "preemptionPolicy")
_PREEMPTS = "PreemptLowerPriority"
_ALL = "all pods in a single pod group should have the same"
TOO_FEW = Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")


class GangScheduling(OnlyPlaces):
    """Gates the pods of a gang until enough exist, and makes them wait in Permit until enough have a node.

    Groups without a gang policy are not restricted. The outcome of every group is written to its status.
    """

    name = "GangScheduling"

    def __init__(self, handle: Handle, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._handle = handle
        self._may_shrink = gates.enabled("PodGroupMinCountCanChange")
        self._must_agree = gates.enabled("OnePriorityInAPodGroup")
        self._one_turn = gates.enabled("PodGroupsInTheQueue")
        self._whole = gates.enabled("WholePodGroups")
        self._has_policy = gates.enabled("PodGroupPreemptionPolicy")
        self._whose = "pod" if gates.enabled("PodGroupGateMessage") else "pods"
        self._pod_groups = handle.objects(POD_GROUPS)
        self._complete: set[str] = set()
        """The keys of gangs that had enough pods at their last change."""
        self._members = PodsByGroup(handle.objects(POD), key_of)
        self._members.listen(self._wake)
        self._conditions = PodGroupConditions(handle, self._pod_groups)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod if its group does not exist, or has too few pods."""
        key = key_of(pod)
        if key is None:
            return None
        if key not in self._pod_groups:
            name = key.partition("/")[2]
            return Status.unresolvable(f'waiting for {self._whose}\'s pod group "{name}" to appear in scheduling queue')
        try:
            least = self._least(key)
        except msgspec.ValidationError as error:
            return Status.unresolvable(f"PodGroup {key} is invalid: {error}")
        return TOO_FEW if least is not None and len(self._members[key].remaining) < least else None

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Which group is missing, or how many of its pods exist."""
        key = key_of(pod)
        if key is None:
            return None
        if key not in self._pod_groups:
            near = near_name(key, self._pod_groups)
            return Details(f"PodGroup {key} does not exist{f'; did you mean {near}?' if near else ''}")
        try:
            least = self._least(key)
        except msgspec.ValidationError:
            return None
        exist = len(self._members[key].remaining)
        return Details(
            f"{exist} of the {least} pods exist that PodGroup {key} needs; {(least or 0) - exist} more must be created"
        )

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the pod's group with its pending members; None if the group does not exist.

        A gang that has enough assigned pods, and a group without a gang policy, need no members.
        """
        key = key_of(pod)
        least = None if key is None else self._least(key)
        if key is None or least is None:
            return None
        assigned = self._members.assigned(key)
        pending = tuple(other for other in self._members[key].pending if other.uid not in assigned)
        placed = (other for other in self._members[key].remaining if other.uid in assigned)
        return Gang(
            key.partition("/")[2],
            pending,
            needed=max(least - len(assigned), 0),
            placed=len(assigned),
            nodes=self._members.nodes(key),
            together=True,
            pod_group=key,
            gated=tuple(self._members[key].gated),
            problem=self._disagreement(key, pod, pending, placed) if self._must_agree else "",
            whole=self._whole,
        )

    def fewer_members(self, gang: Gang, number: int) -> Remedy | None:
        """Return a lower minCount, which can be changed since 1.37."""
        pod_group = self._pod_groups.get(gang.pod_group)
        if pod_group is None or not self._may_shrink or not 0 < number < spec_of(pod_group).least:
            return None
        policy = pod_group["spec"]["schedulingPolicy"]
        changed = {**policy, "gang": {**policy["gang"], "minCount": number}}
        document = {**pod_group, "spec": {**pod_group["spec"], "schedulingPolicy": changed}}
        return Remedy(f"lower minCount of PodGroup {gang.name} to {number}", apply=(document,))

    def queued_with(self, pod: PodInfo) -> str | None:
        """Return the pod's group, which is one entry of the queue since 1.37."""
        return key_of(pod) if self._one_turn else None

    def _disagreement(self, key: str, pod: PodInfo, pending: Sequence[PodInfo], placed: Iterable[PodInfo]) -> str:
        """How the pods of a group differ in what must be the same; "" if they don't.

        Mirrors validatePodGroup in pkg/scheduler/schedule_one_podgroup.go of 1.37.
        """
        spec = spec_of(self._pod_groups[key])
        priority, policy, whose = spec.priority or 0, "", ""
        if self._has_policy:
            policy, whose = spec.preemptionPolicy or _PREEMPTS, " as the pod group's preemption policy"
        waiting = len(pending)
        for number, other in enumerate((*pending, *placed)):
            policy = policy or _preemption_policy(other)
            if self._whole and number >= waiting and other.scheduler_name != pod.scheduler_name:
                return several_schedulers(other, pod)
            if other.priority != priority:
                return f"{_ALL} priority as the pod group's priority, got {other.priority} and {priority}"
            if _preemption_policy(other) != policy:
                return f"{_ALL} preemption policy{whose}, got {_preemption_policy(other)} and {policy}"
        return ""

    def gang_decided(self, gang: Gang, outcome: GangOutcome, message: str) -> None:
        """Report the outcome in the status of the group."""
        self._conditions.report(gang.pod_group, outcome, message)

    async def background(self) -> None:
        """Write the conditions of groups."""
        await self._conditions.run()

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer:
        """Do nothing."""
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Stop counting the pod as assigned."""
        key = key_of(pod)
        if key is not None:
            self._members.forget(key, pod.uid)

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Wait:
        """Allow all waiting pods of the gang if enough are assigned; otherwise wait, and activate the other members."""
        key = key_of(pod)
        if key is None:
            return None
        if key not in self._pod_groups:
            return Status.error(f"failed to get podGroup {key}: it does not exist")
        least = self._least(key)
        self._members.permit(key, pod.uid, node_name)
        if not least:
            return None
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
        """Register new members, new groups, and since 1.37 groups that need fewer members than before."""
        yield EventHint(ClusterEvent(events.POD, Action.ADD), after_pod_added)
        yield EventHint(ClusterEvent(POD_GROUPS, Action.ADD), after_pod_group_added)
        if self._may_shrink:
            yield EventHint(ClusterEvent(POD_GROUPS, Action.UPDATE), after_pod_group_updated)

    def _wake(self, key: str) -> None:
        """Activate the members of a gang that has just got enough pods: pods without a node cause no event."""
        members = self._members[key]
        try:
            least = self._least(key)
        except msgspec.ValidationError:
            least = None
        if not least or len(members.remaining) < least:
            self._complete.discard(key)
        elif key not in self._complete:
            self._complete.add(key)
            self._handle.activate(members.pending)

    def _least(self, key: str) -> int | None:
        """Return how many pods of a group have to be placed together; None if the group does not exist.

        Raises msgspec.ValidationError.
        """
        pod_group: Any = self._pod_groups.get(key)
        return None if pod_group is None else spec_of(pod_group).least


def after_pod_added(pod: PodInfo, old: None, new: PodInfo) -> Hint:
    """Requeue the pods of the new pod's group."""
    return Hint.QUEUE if key_of(pod) is not None and key_of(pod) == key_of(new) else Hint.SKIP


def after_pod_group_added(pod: PodInfo, old: None, new: dict[str, Any]) -> Hint:
    """Requeue the pods of the new group."""
    return Hint.QUEUE if _is_in(pod, new) else Hint.SKIP


def after_pod_group_updated(pod: PodInfo, old: dict[str, Any], new: dict[str, Any]) -> Hint:
    """Requeue the pods of a gang that needs fewer members than before."""
    if not _is_in(pod, new):
        return Hint.SKIP
    before, now = spec_of(old).schedulingPolicy.gang, spec_of(new).schedulingPolicy.gang
    return Hint.QUEUE if before is not None and now is not None and now.minCount < before.minCount else Hint.SKIP


def _preemption_policy(pod: PodInfo) -> str:
    """The pod's preemptionPolicy. Cached with the pod, because its decoded object may have been released."""
    if _POLICY not in pod.cache:
        pod.cache[_POLICY] = pod.spec.preemptionPolicy or _PREEMPTS
    policy: str = pod.cache[_POLICY]
    return policy


def _is_in(pod: PodInfo, pod_group: dict[str, Any]) -> bool:
    metadata = pod_group["metadata"]
    return key_of(pod) == f"{metadata.get('namespace')}/{metadata.get('name')}"
