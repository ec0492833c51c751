"""Nominated pods: preemption reserves a node for them until their victims are deleted.

Mirrors pkg/scheduler/backend/queue/nominator.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import islice

from bayplan.core.cluster.pod_info import PodInfo

_REMEMBERED = 1024
"""For how many changes `changed_since` knows the nodes."""


class Nominations:
    """Nominated pods by node. A pod is nominated to at most one node."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change."""
        self.counts_as: dict[str, PodInfo] = {}
        """By the uid of a pod: the pod that counts while it is nominated; for most, the pod itself does."""
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self._changes: deque[str] = deque(maxlen=_REMEMBERED)
        """The nodes of the latest changes, one for each version."""

    def add(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod to a node, by default that of its status. Replaces its earlier nomination.

        A pod that has a node is never nominated.
        """
        self.remove(pod.uid)
        node_name = node_name or pod.nominated_node_name
        if node_name and not pod.node_name:
            self._by_node.setdefault(node_name, {})[pod.uid] = self.counts_as.get(pod.uid, pod)
            self._node_of[pod.uid] = node_name
            self._changed(node_name)

    def remove(self, uid: str) -> None:
        """Remove a pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._by_node[node_name]
        del pods[uid]
        self._changed(node_name)
        if not pods:
            del self._by_node[node_name]

    def update(self, old: PodInfo | None, new: PodInfo) -> None:
        """Update a nominated pod.

        An update without a nominated node keeps a nomination that this scheduler is still writing. It removes one that
        the API server has already reported.
        """
        node_name = new.nominated_node_name
        if not node_name and (old is None or not old.nominated_node_name):
            node_name = self._node_of.get(new.uid, "")
        self.remove(new.uid)
        self.add(new, node_name)

    def on(self, node_name: str) -> list[PodInfo]:
        """The pods nominated to a node."""
        return list(self._by_node.get(node_name, {}).values())

    def changed_since(self, version: int) -> AbstractSet[str] | None:
        """Return the nodes whose nominations have changed since a version; None if it is too old to know."""
        number = self.version - version
        if number > len(self._changes):
            return None
        return set(islice(reversed(self._changes), number))

    def node_of(self, uid: str) -> str | None:
        """The node that a pod is nominated to."""
        return self._node_of.get(uid)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """Every node with nominated pods: node name to pods by uid."""
        return self._by_node

    def _changed(self, node_name: str) -> None:
        self.version += 1
        self._changes.append(node_name)
