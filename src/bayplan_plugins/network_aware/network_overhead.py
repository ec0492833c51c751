"""NetworkOverhead: rejects nodes from which most dependencies of a pod are too far, and prefers those near to them.

Mirrors pkg/networkaware/networkoverhead/networkoverhead.go of scheduler-plugins. Costs depend on the region and the
zone of two nodes only, so that they are computed for each pair of these, and not for each pair of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
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
    Plugin,
    PodInfo,
    Rejections,
    Status,
    pods_with,
    pods_with_at,
    pods_with_version,
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
    Dependency,
    NamespacesArgs,
    costs_of,
    found,
)

_MOST_COST = 100
_SAME_ZONE = 1
_MOST_KEPT = 10_000
Place = tuple[str, str]
"""A region and a zone."""


class NetworkOverheadArgs(NamespacesArgs, kw_only=True):
    """Arguments of NetworkOverhead. `weightsName`: which costs of the NetworkTopology count."""

    weightsName: str = "UserDefined"
    networkTopologyName: str = "nt-default"


class DependencyReach(NamedTuple):
    """What a dependency means for a pod on a node of each place, by the pods that it depends on.

    `labels`: of these pods. `sums`: how many of them satisfy and violate the dependency, and their costs: shape (3,
    places). `own`: the same of one pod in the same place, which the pods of the node itself are not to count as.
    """

    labels: Mapping[str, str]
    sums: Scores
    own: Scores


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
        self._kept_of = (-1, 0)
        """Of which version of the costs, and how many places, the following are."""
        self._from: list[Mapping[Place, int]] = []
        """The costs from each place."""
        self._own: Scores = np.zeros((3, 0), dtype=np.int64)
        """What one pod means in its own place."""
        self._kept: dict[tuple[int, int], Scores] = {}
        """What a pod in a place means in each place, by the most cost that is allowed, and the pod's place."""
        self._there_of: Hashable = None
        """What the following was counted for."""
        self._kept_there: list[tuple[Dependency, Scores]] = []
        self._codes = NodeColumn(self._code, np.int64, reads_pods=False)

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """Return the definitions of the resources that it reads."""
        return definition("appgroups"), definition("networktopologies")

    def sign(self, pod: PodInfo) -> Hashable:
        """Return the pod's AppGroup and workload."""
        return pod.labels.get(GROUP_LABEL, ""), pod.labels.get(WORKLOAD_LABEL, "")

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return how many pods that the pod depends on are in each place, and the versions of the resources."""
        if not pod.labels.get(GROUP_LABEL):
            return ()
        there = tuple(counts.tobytes() for _, counts in self._there(pod, nodes))
        return self._groups.version, self._topologies.version, len(self._places), there

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Find out what each dependency means in each place."""
        reaches = self._reaches(pod, nodes)
        if not reaches:
            return SKIP
        cycle.data[self.name] = reaches
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with more violated than satisfied dependencies."""
        satisfied, violated, _ = self.overhead(cycle, nodes)
        positions = np.flatnonzero((violated > satisfied) & nodes.live)
        if not len(positions):
            return None
        index = np.zeros(len(nodes), dtype=np.int32)
        index[positions] = np.arange(1, len(positions) + 1)
        numbers = zip(satisfied[positions].tolist(), violated[positions].tolist(), strict=True)
        names = map(nodes.name, positions.tolist())
        return Rejections(index, tuple(_rejection(name, *each) for name, each in zip(names, numbers, strict=True)))

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Answer:
        """Judge one node: as `filter_nodes`."""
        satisfied, violated, _ = self._overhead_at(cycle, node)
        return _rejection(node.name, satisfied, violated) if violated > satisfied else None

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Skip scoring for pods without dependencies."""
        return None if self.name in cycle.data else SKIP

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Return the costs."""
        costs: Scores = self.overhead(cycle, nodes)[2]
        return costs

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return the cost of one node."""
        return self._overhead_at(cycle, node)[2]

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Turn the scores around: the lowest cost becomes 100."""
        if not scores.any():
            return scores
        lowest, span = scores.min(), int(scores.max()) - int(scores.min())
        share = float(MAX_NODE_SCORE) * (scores - lowest).astype(np.float64) / float(span or 1)
        turned: Scores = MAX_NODE_SCORE - np.trunc(share).astype(np.int64)
        return turned

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Say how many dependencies are too far."""
        if node is None or self.name not in cycle.data:
            return None
        satisfied, violated, _ = self._overhead_at(cycle, node)
        selectors = sorted({each.selector for each in self._groups.dependencies(pod)})
        place = node.labels.get(ZONE) or node.name
        text = (
            f"of the pods of {', '.join(selectors)}, {violated} are too far from {place}, and {satisfied} near enough"
        )
        return Details(text, kind=self.name)

    def events(self) -> Iterable[EventHint]:
        """Register pods of the same AppGroup that come or go, other labels of nodes, and changed resources."""
        yield EventHint(ClusterEvent("Pod", Action.ADD | Action.DELETE), self._after_pod)
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), _after_node)
        yield EventHint(ClusterEvent(APP_GROUPS, Action.ADD | Action.UPDATE), self._after_group)
        yield EventHint(ClusterEvent(NETWORK_TOPOLOGIES, Action.ADD | Action.UPDATE | Action.DELETE))

    # The overhead

    def overhead(self, cycle: CycleState, nodes: Nodes) -> Scores:
        """Return the satisfied and violated dependencies of nodes, and their costs: shape (3, len(nodes))."""
        codes, now = self._codes.of(nodes), nodes.changed({})  # as upstream, what-ifs change nothing
        total = np.zeros((3, len(nodes)), dtype=np.int64)
        for reach in cycle.data[self.name]:
            counts = pods_with(reach.labels, now)
            total += reach.sums[:, codes] - reach.own[:, codes] * counts
            total[0] += counts  # the pods of the node itself satisfy the dependency, and cost nothing
        return total

    def _overhead_at(self, cycle: CycleState, node: NodeInfo) -> tuple[int, int, int]:
        """Return the `overhead` of one node."""
        code, now = int(self._codes.at(node)), node.among.changed({}).info(node.position)
        satisfied = violated = cost = 0
        for reach in cycle.data[self.name]:
            count = pods_with_at(reach.labels, now)
            satisfied += reach.sums.item(0, code) + count * (1 - reach.own.item(0, code))
            violated += reach.sums.item(1, code) - count * reach.own.item(1, code)
            cost += reach.sums.item(2, code) - count * reach.own.item(2, code)
        return satisfied, violated, cost

    def _there(self, pod: PodInfo, nodes: Nodes) -> list[tuple[Dependency, Scores]]:
        """Return the dependencies of a pod that has placed ones, and how many pods of each are in each place."""
        names = pod.labels[GROUP_LABEL], pod.labels.get(WORKLOAD_LABEL, "")
        labels = [_labels(pod, each) for each in self._groups.dependencies(pod)]
        versions = tuple([pods_with_version(each, nodes) for each in labels])
        key = names, nodes.table.nodes_version, self._groups.version, versions
        if key != self._there_of:
            self._there_of, self._kept_there = key, list(self._count(pod, nodes))
        return self._kept_there

    def _count(self, pod: PodInfo, nodes: Nodes) -> Iterator[tuple[Dependency, Scores]]:
        dependencies = self._groups.dependencies(pod)
        codes = self._codes.of(nodes) if dependencies else None
        for dependency in dependencies:
            counts = pods_with(_labels(pod, dependency), nodes.changed({}))
            rows = np.flatnonzero(counts)
            rows = rows[nodes.live[rows]]
            if len(rows) and codes is not None:
                there = np.bincount(codes[rows], weights=counts[rows], minlength=len(self._places))
                yield dependency, there.astype(np.int64)

    def _reaches(self, pod: PodInfo, nodes: Nodes) -> tuple[DependencyReach, ...]:
        """Return the reach of each dependency with placed pods; none if the pod has none."""
        costs = self._topology()
        if costs is None or not pod.labels.get(GROUP_LABEL):
            return ()
        found = []
        for dependency, there in self._there(pod, nodes):
            sums = self._reach(costs, dependency.most_cost, there)
            found.append(DependencyReach(_labels(pod, dependency), sums, self._own))
        return tuple(found)

    def _reach(self, costs: Costs, most_cost: int, there: Scores) -> Scores:
        """Return what pods mean in each place, if so many of them are in each place: shape (3, places)."""
        key = self._topologies.version, len(self._places)
        if key != self._kept_of or len(self._kept) > _MOST_KEPT:
            self._kept_of, self._from = key, [costs.of(*place) for place in self._places]
            self._own = np.array([_pair({}, 0, place, place) for place in self._places], dtype=np.int64).T.copy()
            self._kept.clear()
        total = np.zeros((3, len(self._places)), dtype=np.int64)
        for code in np.flatnonzero(there).tolist():
            if (most_cost, code) not in self._kept:
                place, starts = self._places[code], zip(self._places, self._from, strict=True)
                pairs = [_pair(from_here, most_cost, here, place) for here, from_here in starts]
                self._kept[most_cost, code] = np.array(pairs, dtype=np.int64).T.copy()
            total += self._kept[most_cost, code] * there[code]
        return total

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

    # Hints

    def _after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        other = new or old
        group = pod.labels.get(GROUP_LABEL)
        return Hint.QUEUE if other is not None and other.labels.get(GROUP_LABEL) == group else Hint.SKIP

    def _after_group(self, pod: PodInfo, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Hint:
        changed = old is None or old.get("spec") != new.get("spec")
        mine = self._groups.find(pod.labels.get(GROUP_LABEL, "")) is new
        return Hint.QUEUE if changed and mine else Hint.SKIP


def _labels(pod: PodInfo, dependency: Dependency) -> Mapping[str, str]:
    """The labels of the pods that a pod depends on."""
    return {GROUP_LABEL: pod.labels[GROUP_LABEL], WORKLOAD_LABEL: dependency.selector}


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
