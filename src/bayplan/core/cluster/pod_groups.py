"""An index of pods by group. Mirrors pkg/scheduler/backend/cache/podgroupstate.go, for groups of any kind.

GangScheduling and Coscheduling name groups in different ways, and share this index. A change of a pod costs as much in
a group of thousands as in a small one: numbers are kept up to date. Who needs the pods themselves gets `Members`, which
are a copy: a reader keeps what it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo


class Members:
    """The pods of one group that have not terminated, as the API server reports them. Immutable. `pods`: by UID."""

    def __init__(self, pods: Mapping[str, PodInfo]) -> None:
        self.pods = pods

    @cached_property
    def remaining(self) -> list[PodInfo]:
        """The members that are not being deleted. The following properties count only these."""
        return [pod for pod in self.pods.values() if not pod.terminating]

    @cached_property
    def bound(self) -> frozenset[str]:
        """The UIDs of the members with a node."""
        return frozenset(pod.uid for pod in self.remaining if pod.node_name)

    @cached_property
    def gated(self) -> list[PodInfo]:
        """The members with scheduling gates, sorted by key."""
        return sorted((pod for pod in self.remaining if pod.scheduling_gates), key=attrgetter("key"))

    @cached_property
    def pending(self) -> list[PodInfo]:
        """The members that have neither a node nor scheduling gates, in the order in which they are attempted.

        They are sorted by priority, so that no member preempts one that was placed before it.
        """
        waiting = [pod for pod in self.remaining if not pod.node_name and not pod.scheduling_gates]
        return sorted(waiting, key=lambda pod: (-pod.priority, pod.key))


_NO_MEMBERS = Members({})
_NOBODY: frozenset[str] = frozenset()
_KEY = (__name__, "PodGroup")


def pod_group_of(pod: PodInfo) -> str | None:
    """Return `namespace/name` of the PodGroup that `spec.schedulingGroup` names; None for a pod without one.

    Cached with the pod, because its decoded object may have been released.
    """
    if _KEY not in pod.cache:
        group = pod.spec.schedulingGroup
        pod.cache[_KEY] = f"{pod.namespace}/{group.podGroupName}" if group and group.podGroupName else None
    key: str | None = pod.cache[_KEY]
    return key


@dataclass(slots=True)
class _Group:
    """The pods of one group, and those that are permitted, by UID.

    `remaining`: how many pods are not being deleted. `assigned`: those of them with a node, and the permitted ones.
    `oldest`: the earliest creation time; None if it isn't known. `members`: a copy of the pods, until the next change.
    """

    pods: dict[str, PodInfo] = field(default_factory=dict)
    permitted: dict[str, str] = field(default_factory=dict)
    """The names of their nodes."""
    remaining: int = 0
    assigned: set[str] = field(default_factory=set)
    oldest: datetime | None = None
    members: Members | None = None

    def put(self, pod: PodInfo) -> None:
        """Add a pod, or replace it by its new version."""
        self._leave(pod.uid, pod.creation_timestamp)
        self.pods[pod.uid] = pod
        self.remaining += not pod.terminating
        if self.oldest is not None and pod.creation_timestamp is not None:
            self.oldest = min(self.oldest, pod.creation_timestamp)
        if pod.node_name:
            self.permitted.pop(pod.uid, None)
        self.count(pod.uid)

    def remove(self, uid: str) -> None:
        """Remove a pod, which isn't permitted any more either."""
        self._leave(uid, None)
        self.pods.pop(uid, None)
        self.permitted.pop(uid, None)
        self.count(uid)

    def count(self, uid: str) -> None:
        """Count a pod among the assigned ones, or not."""
        pod = self.pods.get(uid)
        if uid in self.permitted or (pod is not None and pod.node_name and not pod.terminating):
            self.assigned.add(uid)
        else:
            self.assigned.discard(uid)

    def _leave(self, uid: str, created: datetime | None) -> None:
        """Stop counting a pod. `created`: the creation time of its new version."""
        self.members = None
        before = self.pods.get(uid)
        if before is not None:
            self.remaining -= not before.terminating
            if before.creation_timestamp == self.oldest != created:
                self.oldest = None


class PodsByGroup:
    """An index of a store's pods by group. `key_of` returns the key of a pod's group, or None.

    A pod counts as permitted from `permit` until `forget`, its deletion, or an update that shows its node. Listeners
    are called with the keys of groups whose pods have changed.
    """

    def __init__(self, pods: ObjectStore, key_of: Callable[[PodInfo], str | None]) -> None:
        self._key_of = key_of
        self._groups: dict[str, _Group] = {}
        """Those with pods, or with permitted ones."""
        self._listeners: list[Callable[[str], None]] = []
        pods.listen(self._changed)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the key of a group whenever one of its pods is added, updated or removed."""
        self._listeners.append(listener)

    def __getitem__(self, key: str) -> Members:
        """Return the pods of a group; a key without pods has empty Members."""
        group = self._groups.get(key)
        if group is None:
            return _NO_MEMBERS
        if group.members is None:
            group.members = Members(group.pods.copy())
        return group.members

    def __contains__(self, key: str) -> bool:
        """Whether a group has pods."""
        group = self._groups.get(key)
        return group is not None and bool(group.pods)

    def oldest(self, key: str) -> datetime | None:
        """Return the earliest creation time of a group's pods; None if none of them has one."""
        group = self._groups.get(key)
        if group is None:
            return None
        if group.oldest is None:
            times = (pod.creation_timestamp for pod in group.pods.values() if pod.creation_timestamp)
            group.oldest = min(times, default=None)
        return group.oldest

    def number(self, key: str) -> int:
        """Return how many pods of a group are not being deleted."""
        group = self._groups.get(key)
        return 0 if group is None else group.remaining

    def number_assigned(self, key: str) -> int:
        """Return how many pods `assigned` has."""
        group = self._groups.get(key)
        return 0 if group is None else len(group.assigned)

    def assigned(self, key: str) -> frozenset[str]:
        """Return the UIDs of a group's pods that have a node or are permitted."""
        group = self._groups.get(key)
        return _NOBODY if group is None else frozenset(group.assigned)

    def nodes(self, key: str) -> tuple[str, ...]:
        """Return the distinct names of the nodes of these pods."""
        group = self._groups.get(key)
        if group is None or not group.assigned:
            return ()
        names = [pod.node_name for pod in self[key].remaining if pod.node_name]
        return tuple(dict.fromkeys([*names, *group.permitted.values()]))

    @property
    def permitted(self) -> Mapping[str, Mapping[str, str]]:
        """The node names of permitted pods, by key and UID. It can be set, for a plugin that is restored."""
        return {key: dict(group.permitted) for key, group in self._groups.items() if group.permitted}

    @permitted.setter
    def permitted(self, permitted: Mapping[str, Mapping[str, str]]) -> None:
        for key, group in list(self._groups.items()):
            for uid in list(group.permitted):
                self.forget(key, uid)
        for key, pods in permitted.items():
            for uid, node_name in pods.items():
                self.permit(key, uid, node_name)

    def permit(self, key: str, uid: str, node_name: str) -> None:
        """Record that a pod has reached Permit and is going to be bound to a node."""
        group = self._group(key)
        group.permitted[uid] = node_name
        group.count(uid)

    def forget(self, key: str, uid: str) -> None:
        """Undo `permit`. Unknown pods are ignored."""
        group = self._groups.get(key)
        if group is not None and group.permitted.pop(uid, None) is not None:
            group.count(uid)
            self._drop_if_empty(key, group)

    def _group(self, key: str) -> _Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        return group

    def _drop_if_empty(self, key: str, group: _Group) -> None:
        if not group.pods and not group.permitted:
            del self._groups[key]

    def _changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        old_key = None if old is None else self._key_of(old)
        new_key = None if new is None else self._key_of(new)
        if old_key is None and new_key is None:
            return
        if old is not None and old_key is not None and (new is None or new_key != old_key or new.uid != old.uid):
            group = self._group(old_key)
            group.remove(old.uid)
            self._drop_if_empty(old_key, group)
        if new is not None and new_key is not None:
            self._group(new_key).put(new)
        for key in {old_key, new_key} - {None}:
            for listener in self._listeners:
                listener(str(key))
