"""Coscheduling: makes the pods of a group wait in Permit until enough of them have a node.

Mirrors pkg/coscheduling/coscheduling.go and core/core.go of scheduler-plugins. docs/gangs.md lists the differences.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.plugin import (
    PLACED_WITH,
    POD_GROUPS,
    Action,
    Answer,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EventHint,
    FailedPreemption,
    Gang,
    Handle,
    Hint,
    Nodes,
    Plugin,
    PodInfo,
    PodsByGroup,
    PostFilterResult,
    Status,
    Wait,
    WhatIf,
)
from bayplan_plugins.coscheduling.arguments import CoschedulingArgs
from bayplan_plugins.coscheduling.groups import Group, Groups, key_of, succeeded
from bayplan_plugins.coscheduling.status import PodGroupStatuses
from bayplan_plugins.definitions import definition, permissions

DEFAULT_WAIT = 60
"""Seconds that a member waits in Permit if neither its group nor the arguments specify it."""

_DEFAULT_ARGUMENTS = CoschedulingArgs()
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class GroupMemory(msgspec.Struct):
    """What is remembered of groups, by key.

    `failed`: when one last failed to fit, until it is placed; it is sorted by this time. `backed_off`: when its backoff
    ends. `enough`: until when its minResources are known to be available. `permitted`: as of PodsByGroup.
    """

    failed: dict[str, Time] = {}
    backed_off: dict[str, Time] = {}
    enough: dict[str, Time] = {}
    permitted: Mapping[str, Mapping[str, str]] = {}


class Coscheduling(Plugin):
    """Binds the pods of a group together or not at all.

    A member is assigned if it is bound, or from Permit on. Members that are being deleted are not counted.
    """

    name = "Coscheduling"
    arguments = CoschedulingArgs
    permissions = permissions("podgroups")

    def __init__(self, handle: Handle, args: CoschedulingArgs = _DEFAULT_ARGUMENTS) -> None:
        self._handle = handle
        self._wait = args.permitWaitingTimeSeconds or DEFAULT_WAIT
        self._backoff = timedelta(seconds=args.podGroupBackoffSeconds)
        self._reject_percentage = args.podGroupRejectPercentage
        self._memory = GroupMemory()
        pods, pod_groups = handle.objects("Pod"), handle.objects(POD_GROUPS)
        self._members = PodsByGroup(pods, key_of)
        self._members.listen(self._forget_empty)
        self._groups = Groups(self._members, pod_groups)
        self._statuses = PodGroupStatuses(handle, pods, pod_groups)

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """Return the definition of the resource that it reads."""
        return (definition("podgroups"),)

    # Queueing

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, datetime, str, str]:
        """Sort by priority, then by the creation time of the group, then by the group's key.

        A group that did not fit is sorted by the time of its failure, so that it does not delay others. A pod without a
        group is sorted by its own creation time, because `queued_at` cannot be compared with creation times.
        """
        key = key_of(pod)
        created = self._memory.failed.get(key) if key is not None else None
        created = created or self._groups.created(pod) or pod.creation_timestamp or _LONG_AGO
        return -pod.priority, created, key or pod.key, pod.key

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the pod's group if it still needs members, and enough of them are pending."""
        group = self._groups.of(pod)
        if group is None or group.problem:
            return None
        assigned = self._members.assigned(group.key)
        needed = group.needed - len(assigned)
        members = tuple(other for other in self._members[group.key].pending if other.uid not in assigned)
        if needed <= 0 or len(members) < needed:
            return None
        return Gang(group.name, members, needed, placed=len(assigned))

    # Filtering

    def sign(self, pod: PodInfo) -> Hashable:
        """Read nothing of a pod without a group. The results for a member depend on the other members."""
        return () if key_of(pod) is None else None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Reject a member if its group cannot be placed now on any nodes."""
        group = self._groups.of(pod)
        if group is None:
            return None
        problem = group.problem or self._missing(group, pod, nodes)
        return Status.unresolvable(problem) if problem else None

    def explain_post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> tuple[FailedPreemption, ...]:
        """Nothing: no pod is evicted for a group."""
        return ()

    def post_filter(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf) -> PostFilterResult:
        """Reject the waiting members of a group if one is unschedulable, unless few members are missing."""
        group = self._groups.of(pod)
        if group is None:
            named = key_of(pod) is not None
            return PostFilterResult(Status.unschedulable(*(["can not find pod group"] if named else [])))
        missing = group.needed - self._members.number_assigned(group.key)
        if missing <= 0 or missing * 100 <= self._reject_percentage * group.min_member:
            return PostFilterResult(Status.unschedulable())
        self._reject_waiting(group.key, "optimistic rejection in PostFilter")
        if self._backoff and self._members.number(group.key) >= group.min_member:
            self._memory.backed_off[group.key] = self._handle.now() + self._backoff
        self._did_not_fit(group.key)
        message = f"PodGroup {group.key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return PostFilterResult(Status.unschedulable(message))

    # Binding

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer:
        """Do nothing."""
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Reject the waiting members of the group, because this one will not be bound."""
        key = key_of(pod)
        if key is None:
            return
        self._members.forget(key, pod.uid)
        if self._groups.of(pod) is not None:
            self._reject_waiting(key, "rejection in Unreserve")
            self._did_not_fit(key)

    def release(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Do nothing: the end of a what-if rejects no pods."""

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer | Wait:
        """Allow all waiting members if enough are assigned; otherwise wait.

        The first member activates the others, unless they are placed together with it.
        """
        key = key_of(pod)
        if key is None:
            return None
        group = self._groups.of(pod)
        if group is None:
            return "PodGroup not found"
        self._members.permit(key, pod.uid, node_name)
        assigned = self._members.number_assigned(key)
        if assigned >= group.needed:
            self._memory.failed.pop(key, None)
            for waiting in self._handle.waiting_pods:
                if key_of(waiting.pod) == key:
                    waiting.allow(self.name)
            return None
        if assigned == 1 and PLACED_WITH not in cycle.data:
            self._handle.activate(other for other in self._members[key].pending if other.uid != pod.uid)
        return Wait(group.timeout or self._wait)

    # Events and background tasks

    def events(self) -> Iterable[EventHint]:
        """Register new members, pods whose labels change, new or changed groups, and room for minResources."""
        yield EventHint(ClusterEvent("Pod", Action.ADD), after_pod_added)
        yield EventHint(ClusterEvent("Pod", Action.UPDATE_POD_LABEL), after_pod_label_changed)
        yield EventHint(ClusterEvent(POD_GROUPS, Action.ADD | Action.UPDATE), after_pod_group_changed)
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), self._after_node_changed)
        yield EventHint(ClusterEvent("Pod", Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), self._after_pod_left)

    def _after_node_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        """Requeue the pods of groups that ask how much the cluster has free."""
        group = self._groups.of(pod)
        return Hint.QUEUE if group is not None and group.min_resources else Hint.SKIP

    def _after_pod_left(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        """The same where a pod of another group leaves room: what members request counts as free anyway."""
        return self._after_node_changed(pod, old, new) if key_of(old) != key_of(pod) else Hint.SKIP

    async def background(self) -> None:
        """Keep the statuses of PodGroups up to date, and requeue groups when their backoff ends."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._statuses.run())
            if self._backoff:
                tasks.create_task(self._wake())

    async def _wake(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.wake_groups()

    def wake_groups(self) -> None:
        """Activate the groups whose backoff has ended, because no event requeues them."""
        now = self._handle.now()
        for key in [key for key, until in self._memory.backed_off.items() if until <= now]:
            del self._memory.backed_off[key]
            self._handle.activate(self._members[key].pending)

    def _missing(self, group: Group, pod: PodInfo, nodes: Nodes) -> str:
        """Return why a group cannot be placed now; "" if it can."""
        now = self._handle.now()
        if self._memory.backed_off.get(group.key, now) > now:
            return f"podGroup {group.key} failed recently"
        count = self._members.number(group.key)
        if count < group.needed:
            return (
                f"pre-filter pod {pod.name} cannot find enough sibling pods, current pods number: {count}, "
                f"minMember of group: {group.min_member}"
            )
        if count - len(self._members[group.key].gated) < group.needed:
            return f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
        if not group.min_resources or self._memory.enough.get(group.key, now) > now:
            return ""
        gap = self._gap(group, nodes)
        if gap:
            return f"resource gap of PodGroup {group.key}: {', '.join(f'{name}: {gap[name]}' for name in sorted(gap))}"
        self._memory.enough[group.key] = now + timedelta(seconds=self._wait)
        return ""

    def _gap(self, group: Group, nodes: Nodes) -> dict[str, str]:
        """Return how much of minResources is not free in the cluster. Requests of assigned members count as free.

        A node on which more is requested than it has leaves nothing, and takes nothing from the others.
        """
        members = list(self._members_there(group.key, nodes))
        gap = {}
        for resource, least in group.min_resources.items():
            left = nodes.allocatable(resource) - nodes.requested(resource)
            for position, pod in members:
                left[position] += pod.requested.get(resource, 0)
            if (missing := least - _sum(left, nodes)) > 0:
                gap[resource] = f"{missing}m" if resource == "cpu" else str(missing)
        left = nodes.allowed_pods - nodes.pod_count
        for position, _ in members:
            left[position] += 1
        if (missing := group.min_member - _sum(left, nodes)) > 0:
            gap["pods"] = str(missing)
        return gap

    def _members_there(self, key: str, nodes: Nodes) -> Iterator[tuple[int, PodInfo]]:
        """Yield the assigned members of a group on the nodes, with the positions of these."""
        assigned = self._members.assigned(key)
        for position in nodes.positions(self._members.nodes(key)).values():
            for pod in nodes.info(position).pods:
                if pod.uid in assigned:
                    yield position, pod

    def _reject_waiting(self, key: str, message: str) -> None:
        for waiting in self._handle.waiting_pods:
            if key_of(waiting.pod) == key:
                waiting.reject(self.name, message)

    def _did_not_fit(self, key: str) -> None:
        self._memory.enough.pop(key, None)
        # Without fractions, as the creation times with which it is compared.
        self._memory.failed[key] = self._handle.now().replace(microsecond=0)

    def _forget_empty(self, key: str) -> None:
        """Drop the state of a group that has no pods any more."""
        if key not in self._members:
            for times in (self._memory.failed, self._memory.backed_off, self._memory.enough):
                times.pop(key, None)

    # Checkpoints

    def checkpoint(self) -> GroupMemory:
        """Return what is remembered of groups."""
        return msgspec.structs.replace(self._memory, permitted=self._members.permitted)

    def restore(self, checkpoint: Any) -> None:
        """Remember what `checkpoint` returned. Raises ValueError."""
        self._memory = msgspec.convert(checkpoint, GroupMemory)
        self._members.permitted = self._memory.permitted


def _sum(left: NDArray[np.int64], nodes: Nodes) -> int:
    """What is left on all nodes together."""
    return int(left[nodes.live].clip(0).sum())


def after_pod_added(pod: PodInfo, old: None, new: PodInfo) -> Hint:
    """Requeue the pods of the new pod's group."""
    return Hint.QUEUE if key_of(pod) is not None and key_of(pod) == key_of(new) else Hint.SKIP


def after_pod_label_changed(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
    """Requeue the pod whose labels changed, and the pods of a group that it joined."""
    if new.uid == pod.uid:
        return Hint.QUEUE
    joined = key_of(new) is not None and key_of(new) == key_of(pod) != key_of(old)
    return Hint.QUEUE if joined else Hint.SKIP


def after_pod_group_changed(pod: PodInfo, old: dict[str, object] | None, new: dict[str, object]) -> Hint:
    """Requeue the pods of a group that is new, whose spec changed, or of which another member has succeeded."""
    metadata = new["metadata"]
    assert isinstance(metadata, dict)
    mine = key_of(pod) == f"{metadata.get('namespace')}/{metadata.get('name')}"
    changed = old is None or old.get("spec") != new.get("spec") or succeeded(old) < succeeded(new)
    return Hint.QUEUE if mine and changed else Hint.SKIP
