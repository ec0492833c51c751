"""The pods of groups: who belongs together, kept up to date as pods come, change and go.

Mirrors pkg/scheduler/backend/cache/podgroupstate.go, for groups of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property

from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo


class Members:
    """The pods of one group that are not done, as the server told of them. Never changes."""

    def __init__(self, pods: Mapping[str, PodInfo]) -> None:
        self.pods = pods

    def with_pod(self, pod: PodInfo) -> Members:
        """The same with a pod, or a new version of it."""
        return Members({**self.pods, pod.uid: pod})

    def without(self, uid: str) -> Members:
        """The same without a pod."""
        return Members({other: pod for other, pod in self.pods.items() if other != uid})

    @cached_property
    def staying(self) -> list[PodInfo]:
        """Those that are not being deleted: the others will not be there for long."""
        return [pod for pod in self.pods.values() if not pod.terminating]

    @cached_property
    def bound(self) -> frozenset[str]:
        """Those with a node, by uid."""
        return frozenset(pod.uid for pod in self.staying if pod.node_name)

    @cached_property
    def gated(self) -> int:
        """How many have scheduling gates."""
        return sum(1 for pod in self.staying if pod.scheduling_gates)

    @cached_property
    def pending(self) -> list[PodInfo]:
        """Those that have neither a node nor gates, in the order in which to try them.

        By priority, so that no member preempts one that was placed before.
        """
        waiting = [pod for pod in self.staying if not pod.node_name and not pod.scheduling_gates]
        return sorted(waiting, key=lambda pod: (-pod.priority, pod.key))

    @cached_property
    def oldest(self) -> datetime | None:
        """When the first of them was created."""
        return min((pod.creation_timestamp for pod in self.pods.values() if pod.creation_timestamp), default=None)


_NOBODY = Members({})
_KEY = (__name__, "PodGroup")


def pod_group_of(pod: PodInfo) -> str | None:
    """`namespace/name` of a pod's own PodGroup of Kubernetes (`spec.schedulingGroup`); None for a pod without one.

    Kept with the pod, for its object may have been released.
    """
    if _KEY not in pod.cache:
        group = pod.spec.schedulingGroup
        pod.cache[_KEY] = f"{pod.namespace}/{group.podGroupName}" if group and group.podGroupName else None
    key: str | None = pod.cache[_KEY]
    return key


class PodsByGroup:
    """The pods of a store by the keys that `key_of` gives them; None for a pod of no group.

    A pod counts as permitted, on its node, from `permit` until it is given back with `settle`, is gone, or has a node.
    Listeners are told of groups whose pods have changed.
    """

    def __init__(self, pods: ObjectStore, key_of: Callable[[PodInfo], str | None]) -> None:
        self._key_of = key_of
        self._members: dict[str, Members] = {}
        self._permitted: dict[str, dict[str, str]] = {}
        """By key, the nodes by uid."""
        self._listeners: list[Callable[[str], None]] = []
        pods.listen(self._changed)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Have a listener told of each group that a pod comes to, changes in or leaves."""
        self._listeners.append(listener)

    def __getitem__(self, key: str) -> Members:
        """The pods of a group, which may be none."""
        return self._members.get(key, _NOBODY)

    def assigned(self, key: str) -> frozenset[str]:
        """The pods of a group that have a node, or are about to get one, by uid."""
        return self[key].bound | self._permitted.get(key, {}).keys()

    def nodes(self, key: str) -> tuple[str, ...]:
        """The names of the nodes of these, each once."""
        members = self[key]
        names = [pod.node_name for pod in members.staying if pod.node_name]
        return tuple(dict.fromkeys([*names, *self._permitted.get(key, {}).values()]))

    def permit(self, key: str, uid: str, node_name: str) -> None:
        """A pod is about to get a node."""
        self._permitted.setdefault(key, {})[uid] = node_name

    def settle(self, key: str, uid: str) -> None:
        """Forget that a pod was permitted: it was given back, or the server says where it is, or is not."""
        permitted = self._permitted.get(key)
        if permitted is not None:
            permitted.pop(uid, None)
            if not permitted:
                del self._permitted[key]

    def _changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        old_key, new_key = (self._key_of(pod) if pod is not None else None for pod in (old, new))
        replaced = old is not None and (new is None or new_key != old_key or new.uid != old.uid)
        if old is not None and old_key is not None and replaced:
            self.settle(old_key, old.uid)
            left = self[old_key].without(old.uid)
            if left.pods:
                self._members[old_key] = left
            else:
                self._members.pop(old_key, None)
        if new is not None and new_key is not None:
            self._members[new_key] = self[new_key].with_pod(new)
            if new.node_name:
                self.settle(new_key, new.uid)
        for key in {old_key, new_key} - {None}:
            for listener in self._listeners:
                listener(str(key))
