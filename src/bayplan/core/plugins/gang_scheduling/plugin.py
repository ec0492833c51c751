"""GangScheduling: places the pods of a Kubernetes PodGroup (scheduling.k8s.io) together.

Pods name their group in `spec.schedulingGroup`. With the feature gate CompositePodGroup, the pods of all groups in one
tree are placed together. Mirrors plugins/gangscheduling/gangscheduling.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bayplan.core.api.kinds import POD
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS, GroupSpec, spec_of
from bayplan.core.cluster.group_trees import Child, GroupTrees, Path
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
from bayplan.core.plugins.gang_scheduling.conditions import CompositeConditions, PodGroupConditions
from bayplan.core.plugins.gang_scheduling.forest import Forest, gang_of_pods
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
        composites = handle.objects(COMPOSITES) if gates.enabled("CompositePodGroup") else None
        self._trees = GroupTrees(self._pod_groups, composites)
        self._complete: set[Hashable] = set()
        """The keys of gangs, and of trees, that had enough pods at their last change."""
        self._members = PodsByGroup(handle.objects(POD), key_of)
        self._forest = Forest(self._trees, self._members, whole=self._whole)
        self._members.listen(self._wake)
        self._conditions = PodGroupConditions(handle, self._pod_groups)
        self._of_composites = None if composites is None else CompositeConditions(handle, composites)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod if its group does not exist, or has too few pods; or if its tree of groups has too few groups."""
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
        path = self._trees.path(key)
        if path.problem:
            return Status.unresolvable(path.problem)
        if path.root:
            name = path.root.partition("/")[2]
            waiting = f'waiting for composite pod group "{name}" tree to meet quorum'
            return None if self._forest.is_ready(path.root) else Status.unresolvable(waiting)
        return TOO_FEW if least is not None and self._members.number(key) < least else None

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Which group is missing, or how many of its pods exist, or of the groups of its tree."""
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
        path = self._trees.path(key)
        if path.above:
            return self._explain_tree(path)
        exist = self._members.number(key)
        return Details(
            f"{exist} of the {least} pods exist that PodGroup {key} needs; {(least or 0) - exist} more must be created"
        )

    def _explain_tree(self, path: Path) -> Details | None:
        """Which composite group is missing, or which groups don't have enough pods."""
        if path.problem:
            missing = next((key for key in path.above if key not in self._trees.composites), None)
            near = near_name(missing, self._trees.composites) if missing else ""
            absent = f"CompositePodGroup {missing} does not exist{f'; did you mean {near}?' if near else ''}"
            return Details(absent if missing else path.problem)
        exist, least = self._forest.ready_groups(path.root), self._forest.least(Child(path.root, composite=True))
        if exist >= least:
            return None
        return Details(
            f"{exist} of the {least} groups that CompositePodGroup {path.root} needs have the pods that they need; "
            f"{least - exist} more must get them"
        )

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the pod's group, or its tree of groups, with its pending members; None if the group does not exist.

        A gang that has enough assigned pods, and a group without a gang policy, need no members.
        """
        key = key_of(pod)
        least = None if key is None else self._least(key)
        if key is None or least is None:
            return None
        path = self._trees.path(key)
        spec: GroupSpec = spec_of(self._pod_groups[key])
        if path.root:
            gang, spec = self._forest.gang(path.root), self._trees.composite_spec(path.root)
        else:
            gang = gang_of_pods(key, self._members, least, whole=self._whole)
        problem = path.problem
        if self._must_agree and not problem:
            problem = self._disagreement(spec, pod, gang.members, self._placed(gang))
        return replace(gang, problem=problem)

    def _placed(self, gang: Gang) -> Iterator[PodInfo]:
        """Yield the pods of a gang that have a node or are permitted."""
        for key in sorted(gang.pod_groups):
            assigned = self._members.assigned(key)
            yield from (other for other in self._members[key].remaining if other.uid in assigned)

    def fewer_members(self, gang: Gang, number: int) -> Remedy | None:
        """Return a lower minCount, which can be changed since 1.37."""
        pod_group = self._pod_groups.get(gang.pod_group)
        if pod_group is None or not self._may_shrink or not 0 < number < spec_of(pod_group).least:
            return None
        policy = pod_group["spec"]["schedulingPolicy"]
        changed = {**policy, "gang": {**policy["gang"], "minCount": number}}
        document = {**pod_group, "spec": {**pod_group["spec"], "schedulingPolicy": changed}}
        return Remedy(f"lower minCount of PodGroup {gang.name} to {number}", apply=(document,))

    def queued_with(self, pod: PodInfo) -> Hashable:
        """Return the pod's group, or the root of its tree, which is one entry of the queue since 1.37."""
        root = self._trees.path_of(pod).root if self._one_turn else ""
        if root:
            return COMPOSITES, root
        return key_of(pod) if self._one_turn else None

    def _disagreement(
        self, spec: GroupSpec, pod: PodInfo, pending: Sequence[PodInfo], placed: Iterable[PodInfo]
    ) -> str:
        """How the pods of a group, or of a tree, differ in what must be the same; "" if they don't.

        `spec`: of the group, or of the root. Mirrors validatePodGroup in pkg/scheduler/schedule_one_podgroup.go of
        1.37.
        """
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
        if self._of_composites is not None and gang.composite:
            self._of_composites.report(gang.composite, outcome, message)
        else:
            self._conditions.report(gang.pod_group, outcome, message)

    async def background(self) -> None:
        """Write the conditions of groups."""
        both = (self._conditions, self._of_composites)
        await asyncio.gather(*(each.run() for each in both if each is not None))

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
        if root := self._trees.path(key).root:
            return self._permit_in_tree(cycle, key, root)
        if not least:
            return None
        if self._members.number_assigned(key) < least:
            if PLACED_WITH not in cycle.data:
                assigned = self._members.assigned(key)
                self._handle.activate(other for other in self._members[key].pending if other.uid not in assigned)
            return Wait(PERMIT_SECONDS)
        for waiting in self._handle.waiting_pods:
            if key_of(waiting.pod) == key:
                waiting.allow(self.name)
        return None

    def _permit_in_tree(self, cycle: CycleState, key: str, root: str) -> Wait | None:
        """Allow the waiting pods whose group has enough assigned pods, with all groups above it; otherwise wait."""
        if not self._is_placed(key):
            if PLACED_WITH not in cycle.data:
                self._handle.activate(self._pending_in(root))
            return Wait(PERMIT_SECONDS)
        for waiting in self._handle.waiting_pods:
            other = key_of(waiting.pod)
            if other is not None and self._trees.path(other).root == root and (other == key or self._is_placed(other)):
                waiting.allow(self.name)
        return None

    def _is_placed(self, key: str) -> bool:
        """Return whether a PodGroup and all groups above it have what they need on nodes."""
        above = self._trees.path(key).above
        groups = (Child(key, composite=False), *(Child(each, composite=True) for each in above))
        return all(map(self._forest.is_placed, groups))

    def _pending_in(self, root: str) -> Iterator[PodInfo]:
        """Yield the pods in a tree that have no node and aren't permitted."""
        for key in self._trees.leaves(root):
            assigned = self._members.assigned(key)
            yield from (pod for pod in self._members[key].pending if pod.uid not in assigned)

    def events(self) -> Iterable[EventHint]:
        """Register new members, new groups, and since 1.37 groups that need fewer members than before."""
        if self._trees.enabled:
            yield EventHint(ClusterEvent(events.POD, Action.ADD), self.after_pod_added_in_tree)
            yield EventHint(ClusterEvent(POD_GROUPS, Action.ADD), self.after_group_added_in_tree)
            yield EventHint(ClusterEvent(POD_GROUPS, Action.UPDATE), self.after_group_updated_in_tree)
            yield EventHint(ClusterEvent(COMPOSITES, Action.ADD), self.after_composite_added)
            return
        yield EventHint(ClusterEvent(events.POD, Action.ADD), after_pod_added)
        yield EventHint(ClusterEvent(POD_GROUPS, Action.ADD), after_pod_group_added)
        if self._may_shrink:
            yield EventHint(ClusterEvent(POD_GROUPS, Action.UPDATE), after_pod_group_updated)

    def after_pod_added_in_tree(self, pod: PodInfo, old: None, new: PodInfo) -> Hint:
        """Requeue the pods of the new pod's group, and of its tree."""
        root = self._trees.path_of(new).root
        return self._in_tree(pod, root) if root else after_pod_added(pod, old, new)

    def after_group_added_in_tree(self, pod: PodInfo, old: None, new: dict[str, Any]) -> Hint:
        """Requeue the pods of the new group, and of its tree."""
        root = self._trees.root_of(new, composite=False)
        return self._in_tree(pod, root) if root else after_pod_group_added(pod, old, new)

    def after_group_updated_in_tree(self, pod: PodInfo, old: dict[str, Any], new: dict[str, Any]) -> Hint:
        """Requeue the pods of a gang that needs fewer members than before, and of its tree."""
        root = self._trees.root_of(new, composite=False)
        if not root:
            return after_pod_group_updated(pod, old, new)
        return self._in_tree(pod, root) if _needs_fewer(old, new) else Hint.SKIP

    def after_composite_added(self, pod: PodInfo, old: None, new: dict[str, Any]) -> Hint:
        """Requeue the pods of the tree that the new group is in."""
        return self._in_tree(pod, self._trees.root_of(new, composite=True))

    def _in_tree(self, pod: PodInfo, root: str) -> Hint:
        return Hint.QUEUE if root and self._trees.path_of(pod).root == root else Hint.SKIP

    def _wake(self, key: str) -> None:
        """Activate the members of a gang that has just got enough pods: pods without a node cause no event."""
        if root := self._trees.path(key).root:
            self._wake_tree(root)
            return
        try:
            least = self._least(key)
        except msgspec.ValidationError:
            least = None
        if not least or self._members.number(key) < least:
            self._complete.discard(key)
        elif key not in self._complete:
            self._complete.add(key)
            self._handle.activate(self._members[key].pending)

    def _wake_tree(self, root: str) -> None:
        """Activate the pods of a tree that has just got enough groups with enough pods."""
        if not self._forest.is_ready(root):
            self._complete.discard((COMPOSITES, root))
        elif (COMPOSITES, root) not in self._complete:
            self._complete.add((COMPOSITES, root))
            self._handle.activate(self._pending_in(root))

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
    return Hint.QUEUE if _is_in(pod, new) and _needs_fewer(old, new) else Hint.SKIP


def _needs_fewer(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a gang needs fewer members than before."""
    before, now = spec_of(old).schedulingPolicy.gang, spec_of(new).schedulingPolicy.gang
    return before is not None and now is not None and now.minCount < before.minCount


def _preemption_policy(pod: PodInfo) -> str:
    """The pod's preemptionPolicy. Cached with the pod, because its decoded object may have been released."""
    if _POLICY not in pod.cache:
        pod.cache[_POLICY] = pod.spec.preemptionPolicy or _PREEMPTS
    policy: str = pod.cache[_POLICY]
    return policy


def _is_in(pod: PodInfo, pod_group: dict[str, Any]) -> bool:
    metadata = pod_group["metadata"]
    return key_of(pod) == f"{metadata.get('namespace')}/{metadata.get('name')}"
