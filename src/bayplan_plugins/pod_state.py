"""PodState: prefers nodes with terminating pods, and avoids those that are kept for nominated pods.

Mirrors pkg/podstate/pod_state.go of scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bayplan.plugin import MAX_NODE_SCORE, CycleState, Handle, NodeInfo, Nodes, ObjectStore, Plugin, PodInfo
from bayplan_plugins.go_arithmetic import Scores, scaled


class PodState(Plugin):
    """Scores a node by the number of its terminating pods, without that of the pods that are nominated there."""

    name = "PodState"

    def __init__(self, handle: Handle) -> None:
        self._nominations = handle.nominations
        self._leaving = handle.objects("Pod").view(TerminatingPods)

    def sign(self, pod: PodInfo) -> Hashable:
        """Read nothing of the pod: the scores are the same for all pods."""
        return ()

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return the version of the nominations."""
        return self._nominations.version

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Count the pods of each node: those that leave it count for it, those that will come to it against it."""
        leaving, coming = self._leaving.by_node, self._nominations.nodes
        scores = np.zeros(len(nodes), dtype=np.int64)
        for name, position in nodes.positions({*leaving, *coming}).items():
            scores[position] = len(leaving.get(name, ())) - len(coming.get(name, ()))
        return scores

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node: as `score_nodes`."""
        name = node.name
        return len(self._leaving.by_node.get(name, ())) - len(self._nominations.nodes.get(name, ()))

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Scale the scores from the lowest to the highest one; nodes that are all alike get 0."""
        return scaled(scores, 0, MAX_NODE_SCORE)


class TerminatingPods:
    """An index of the pods that are being deleted: their keys, by the names of their nodes."""

    def __init__(self, pods: ObjectStore) -> None:
        self.by_node: dict[str, set[str]] = {}
        pods.listen(self._changed)

    def _changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        if old is not None and old.terminating:
            others = self.by_node.get(old.node_name, set())
            others.discard(old.key)
            if not others:
                self.by_node.pop(old.node_name, None)
        if new is not None and new.terminating:
            self.by_node.setdefault(new.node_name, set()).add(new.key)
