"""NetworkOverhead: rejects nodes from which most dependencies of a pod are too far, and prefers those near to them.

Mirrors pkg/networkaware/networkoverhead/networkoverhead.go of scheduler-plugins. Costs depend on the region and the
zone of two nodes only, so that they are computed for each pair of these, and not for each pair of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayplan.plugin import (
    MAX_NODE_SCORE,
    SKIP,
    Action,
    Answer,
    ClusterEvent,
    CycleState,
    Details,
    EventHint,
    Handle,
    Hint,
    NodeColumn,
    NodeInfo,
    Nodes,
    OnlyNow,
    Plugin,
    PodInfo,
    Rejections,
    Status,
    pods_with,
)
from bayplan_plugins.definitions import definition
from bayplan_plugins.go_arithmetic import Scores
from bayplan_plugins.network_aware.groups import (
    APP_GROUPS,
    GROUP_LABEL,
    NETWORK_TOPOLOGIES,
    PERMISSIONS,
    REGION,
    WORKLOAD_LABEL,
    ZONE,
    AppGroups,
    Costs,
    NamespacesArgs,
    costs_of,
    found,
)

_MOST_COST = 100
_SAME_ZONE = 1
Place = tuple[str, str]
"""A region and a zone."""


class NetworkOverheadArgs(NamespacesArgs, kw_only=True):
    """Arguments of NetworkOverhead. `weightsName`: which costs of the NetworkTopology count."""

    weightsName: str = "UserDefined"
    networkTopologyName: str = "nt-default"


class Overhead(NamedTuple):
    """What is known about each node for a pod: arrays of int64, one value per row of the node table."""

    satisfied: Scores
    violated: Scores
    cost: Scores


class NetworkOverhead(Plugin):
    """Compares the cost to each placed pod that a pod depends on with the most that the dependency allows."""

    name = "NetworkOverhead"
    arguments = NetworkOverheadArgs
    permissions = PERMISSIONS

    def __init__(self, args: NetworkOverheadArgs, handle: Handle) -> None:
        self._namespaces = tuple(args.namespaces)
        self._weights, self._topology_name = args.weightsName, args.networkTopologyName
        self._groups = AppGroups(handle, args.namespaces)
        self._topologies = handle.objects(NETWORK_TOPOLOGIES)
        self._costs: tuple[int, Costs | None] = (-1, None)
        self._places: list[Place] = []
        self._code_of: dict[Place, int] = {}
        self._pairs_of = (-1, 0)
        """Which version of the costs, and how many places, the pairs are of."""
        self._kept_pairs: dict[int, Scores] = {}
        """By the most cost that is allowed."""
        self._codes = NodeColumn(self._code, np.int64, reads_pods=False)

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """Return the definitions of the resources that it reads."""
        return definition("appgroups"), definition("networktopologies")

    def sign(self, pod: PodInfo) -> Hashable:
        """Return the pod's AppGroup and workload."""
        return pod.labels.get(GROUP_LABEL, ""), pod.labels.get(WORKLOAD_LABEL, "")

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return nothing for a pod without an AppGroup. That of others rests on where all of its pods are."""
        return OnlyNow((self._groups.version, self._topologies.version)) if pod.labels.get(GROUP_LABEL) else ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Count the dependencies of each node that are satisfied and violated, and add their costs up."""
        overhead = self._overhead(pod, nodes)
        if overhead is None:
            return SKIP
        cycle.data[self.name] = overhead
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with more violated than satisfied dependencies."""
        overhead = self._of(cycle, nodes)
        positions = np.flatnonzero((overhead.violated > overhead.satisfied) & nodes.live)
        if not len(positions):
            return None
        index = np.zeros(len(nodes), dtype=np.int64)
        index[positions] = np.arange(1, len(positions) + 1)
        numbers = zip(overhead.satisfied[positions].tolist(), overhead.violated[positions].tolist(), strict=True)
        names = map(nodes.name, positions.tolist())
        return Rejections(index, tuple(_rejection(name, *each) for name, each in zip(names, numbers, strict=True)))

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Skip scoring for pods without dependencies."""
        return None if self.name in cycle.data else SKIP

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Return the costs."""
        return self._of(cycle, nodes).cost

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Turn the scores around: the lowest cost becomes 100."""
        if not scores.any():
            return scores
        lowest, span = scores.min(), int(scores.max()) - int(scores.min())
        share = float(MAX_NODE_SCORE) * (scores - lowest).astype(np.float64) / float(span or 1)
        return MAX_NODE_SCORE - np.trunc(share).astype(np.int64)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Say where the dependencies are."""
        if node is None:
            return None
        selectors = sorted({each.selector for each in self._groups.dependencies(pod)})
        text = f"pods of {', '.join(selectors)} are too far from {node.labels.get(ZONE) or node.name}"
        return Details(text, kind=self.name)

    def events(self) -> Iterable[EventHint]:
        """Register pods of the same AppGroup that come or go, other labels of nodes, and changed resources."""
        yield EventHint(ClusterEvent("Pod", Action.ADD | Action.DELETE), self._after_pod)
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), _after_node)
        yield EventHint(ClusterEvent(APP_GROUPS, Action.ADD | Action.UPDATE), self._after_group)
        yield EventHint(ClusterEvent(NETWORK_TOPOLOGIES, Action.ADD | Action.UPDATE | Action.DELETE))

    # The overhead

    def _overhead(self, pod: PodInfo, nodes: Nodes) -> Overhead | None:
        """Return the overhead of all rows; None if the pod has no placed dependencies."""
        dependencies, costs = self._groups.dependencies(pod), self._topology()
        if not dependencies or costs is None:
            return None
        group = pod.labels[GROUP_LABEL]
        codes, live = self._codes.of(nodes), nodes.live
        total = np.zeros((3, nodes.table.size), dtype=np.int64)
        found_any = False
        for dependency in dependencies:
            labels = {GROUP_LABEL: group, WORKLOAD_LABEL: dependency.selector}
            counts = pods_with(labels, nodes) * live
            if not counts.any():
                continue
            found_any = True
            there = np.bincount(codes, weights=counts, minlength=len(self._places)).astype(np.int64)
            pairs = self._pairs(costs, dependency.most_cost)
            sums, own = pairs @ there, np.diagonal(pairs, axis1=1, axis2=2)
            values = sums[:, codes] - own[:, codes] * counts
            values[0] += counts  # the pods of the node itself satisfy the dependency, and cost nothing
            total[:, nodes.rows] += values
        return Overhead(*total) if found_any else None

    def _pairs(self, costs: Costs, most_cost: int) -> Scores:
        """Return what a pod in each place (columns) is for a node in each place (rows): shape (3, places, places)."""
        key = self._topologies.version, len(self._places)
        if key != self._pairs_of:
            self._pairs_of = key
            self._kept_pairs.clear()
        if most_cost not in self._kept_pairs:
            rows = []
            for here in self._places:
                from_here = costs.of(*here)
                rows.append([_pair(from_here, most_cost, here, there) for there in self._places])
            self._kept_pairs[most_cost] = np.array(rows, dtype=np.int64).transpose(2, 0, 1).copy()
        return self._kept_pairs[most_cost]

    def _topology(self) -> Costs | None:
        version, costs = self._costs
        if version != self._topologies.version:
            topology = found(self._topologies, self._namespaces, self._topology_name)
            costs = None if topology is None else costs_of(topology, self._weights)
            self._costs = self._topologies.version, costs
        return costs

    def _code(self, node: NodeInfo) -> int:
        """The number of a node's place."""
        place = node.labels.get(REGION, ""), node.labels.get(ZONE, "")
        if place not in self._code_of:
            self._code_of[place] = len(self._places)
            self._places.append(place)
        return self._code_of[place]

    def _of(self, cycle: CycleState, nodes: Nodes) -> Overhead:
        overhead: Overhead = cycle.data[self.name]
        return Overhead(*(column[nodes.rows] for column in overhead))

    # Hints

    def _after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        other = new or old
        group = pod.labels.get(GROUP_LABEL)
        return Hint.QUEUE if other is not None and other.labels.get(GROUP_LABEL) == group else Hint.SKIP

    def _after_group(self, pod: PodInfo, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Hint:
        changed = old is None or old.get("spec") != new.get("spec")
        mine = self._groups.find(pod.labels.get(GROUP_LABEL, "")) is new
        return Hint.QUEUE if changed and mine else Hint.SKIP


def _pair(costs: Mapping[Place, int], most_cost: int, here: Place, there: Place) -> tuple[int, int, int]:
    """Return whether a pod there satisfies and violates a dependency of one on another node here, and its cost."""
    if there == ("", ""):
        return 0, 1, _MOST_COST
    if here == there:
        return 1, 0, _SAME_ZONE
    cost = costs.get((here[1], there[1]) if here[0] == there[0] else (here[0], there[0]))
    if cost is None:
        return 0, 0, _MOST_COST
    return int(cost <= most_cost), int(cost > most_cost), cost


def _after_node(pod: PodInfo, old: Any, new: Any) -> Hint:
    def place(node: Any) -> Sequence[str | None]:
        labels = node.metadata.labels or {}
        return labels.get(REGION), labels.get(ZONE)

    return Hint.QUEUE if old is None or place(old) != place(new) else Hint.SKIP


def _rejection(name: str, satisfied: int, violated: int) -> Status:
    return Status.unschedulable(
        f"Node {name} does not meet several network requirements from Workload dependencies: "
        f"Satisfied: {satisfied} Violated: {violated}"
    )
