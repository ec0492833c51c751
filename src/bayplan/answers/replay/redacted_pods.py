"""The pods of a recording that is being redacted, for plugins whose objects rest on the names of pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.core.cluster.pod_info import PodInfo


class SeenPods:
    """Implements bayplan.core.framework.redacting.RedactedPods. `new_key`: of a pod, given its key."""

    def __init__(self, new_key: Callable[[str], str]) -> None:
        self._new_key = new_key
        self._pods: dict[str, PodInfo] = {}
        self._of_node: dict[str, dict[str, PodInfo]] = {}

    def put(self, key: str, raw: bytes) -> None:
        """Take in a pod as it is now."""
        self.removed(key)
        pod = self._pods[key] = PodInfo.from_raw(raw)
        if pod.node_name:
            self._of_node.setdefault(pod.node_name, {})[key] = pod

    def removed(self, key: str) -> None:
        """Forget a pod."""
        pod = self._pods.pop(key, None)
        if pod is not None and pod.node_name:
            there = self._of_node[pod.node_name]
            del there[key]
            if not there:
                del self._of_node[pod.node_name]

    def on(self, node: str) -> Sequence[PodInfo]:
        """Return the pods on a node, with their own names."""
        return list(self._of_node.get(node, {}).values())

    def renamed(self, pod: PodInfo) -> tuple[str, str]:
        """Return the new namespace and name of a pod."""
        namespace, _, name = self._new_key(pod.key).partition("/")
        return namespace, name
