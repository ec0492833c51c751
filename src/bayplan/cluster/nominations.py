"""Nominated pods: preemption reserves a node for them until their victims are deleted.

Mirrors pkg/scheduler/backend/queue/nominator.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.pod_info import PodInfo


class Nominations:
    """Nominated pods by node. A pod is nominated to at most one node."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change."""
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        """By node with nominated pods: `version` after the last change there."""

    def add(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod to a node, by default that of its status. Replaces its earlier nomination."""
        self.remove(pod.uid)
        node_name = node_name or pod.nominated_node_name
        if node_name:
            self._by_node.setdefault(node_name, {})[pod.uid] = pod
            self._node_of[pod.uid] = node_name
            self.version += 1
            self._versions[node_name] = self.version

    def remove(self, uid: str) -> None:
        """Remove a pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._by_node[node_name]
        del pods[uid]
        self.version += 1
        self._versions[node_name] = self.version
        if not pods:
            del self._by_node[node_name], self._versions[node_name]

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

    def version_on(self, node_name: str) -> int:
        """A number that changes with the nominations to a node; 0 if there are none."""
        return self._versions.get(node_name, 0)

    def node_of(self, uid: str) -> str | None:
        """The node that a pod is nominated to."""
        return self._node_of.get(uid)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """Every node with nominated pods: node name to pods by uid."""
        return self._by_node
