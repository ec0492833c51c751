"""An index of pods by group. Mirrors pkg/scheduler/backend/cache/podgroupstate.go, for groups of any kind.

GangScheduling and Coscheduling name groups in different ways, and share this index. `Members` are immutable: a change
makes new ones, so a reader keeps what it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from operator import attrgetter

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo


class Members:
    """The pods of one group that have not terminated, as the API server reports them. Immutable. `pods`: by UID."""

    def __init__(self, pods: Mapping[str, PodInfo]) -> None:
        self.pods = pods

    def with_pod(self, pod: PodInfo) -> Members:
        """Return the members with a pod added, or replaced by its new version."""
        return Members({**self.pods, pod.uid: pod})

    def without(self, uid: str) -> Members:
        """Return the members without a pod."""
        return Members({other: pod for other, pod in self.pods.items() if other != uid})

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

    @cached_property
    def oldest(self) -> datetime | None:
        """The earliest creation time of all members."""
        return min((pod.creation_timestamp for pod in self.pods.values() if pod.creation_timestamp), default=None)


_NO_MEMBERS = Members({})
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


class PodsByGroup:
    """An index of a store's pods by group. `key_of` returns the key of a pod's group, or None.

    A pod counts as permitted from `permit` until `forget`, its deletion, or an update that shows its node. Listeners
    are called with the keys of groups whose pods have changed.
    """

    def __init__(self, pods: ObjectStore, key_of: Callable[[PodInfo], str | None]) -> None:
        self._key_of = key_of
        self._members: dict[str, Members] = {}
        self._permitted: dict[str, dict[str, str]] = {}
        """By key: the node names of permitted pods, by UID."""
        self._listeners: list[Callable[[str], None]] = []
        pods.listen(self._changed)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the key of a group whenever one of its pods is added, updated or removed."""
        self._listeners.append(listener)

    def __getitem__(self, key: str) -> Members:
        """Return the pods of a group; a key without pods has empty Members."""
        return self._members.get(key, _NO_MEMBERS)

    def assigned(self, key: str) -> frozenset[str]:
        """Return the UIDs of a group's pods that have a node or are permitted."""
        return self[key].bound | self._permitted.get(key, {}).keys()

    def nodes(self, key: str) -> tuple[str, ...]:
        """Return the distinct names of the nodes of these pods."""
        members = self[key]
        names = [pod.node_name for pod in members.remaining if pod.node_name]
        return tuple(dict.fromkeys([*names, *self._permitted.get(key, {}).values()]))

    @property
    def permitted(self) -> Mapping[str, Mapping[str, str]]:
        """The node names of permitted pods, by key and UID. It can be set, for a plugin that is restored."""
        return self._permitted

    @permitted.setter
    def permitted(self, permitted: Mapping[str, Mapping[str, str]]) -> None:
        self._permitted = {key: dict(pods) for key, pods in permitted.items()}

    def permit(self, key: str, uid: str, node_name: str) -> None:
        """Record that a pod has reached Permit and is going to be bound to a node."""
        self._permitted.setdefault(key, {})[uid] = node_name

    def forget(self, key: str, uid: str) -> None:
        """Undo `permit`. Unknown pods are ignored."""
        permitted = self._permitted.get(key)
        if permitted is not None:
            permitted.pop(uid, None)
            if not permitted:
                del self._permitted[key]

    def _changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        old_key = None if old is None else self._key_of(old)
        new_key = None if new is None else self._key_of(new)
        if old_key is None and new_key is None:
            return
        replaced = old is not None and (new is None or new_key != old_key or new.uid != old.uid)
        if old is not None and old_key is not None and replaced:
            self.forget(old_key, old.uid)
            others = self[old_key].without(old.uid)
            if others.pods:
                self._members[old_key] = others
            else:
                self._members.pop(old_key, None)
        if new is not None and new_key is not None:
            self._members[new_key] = self[new_key].with_pod(new)
            if new.node_name:
                self.forget(new_key, new.uid)
        for key in {old_key, new_key} - {None}:
            for listener in self._listeners:
                listener(str(key))
