"""NodeResourceTopologyMatch. Mirrors plugin.go, filter.go and score.go of pkg/noderesourcetopology."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

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
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    Rejections,
    Status,
)
from bayplan_plugins.definitions import definition
from bayplan_plugins.node_resource_topology import least_numa, one_node, strategies, zones
from bayplan_plugins.node_resource_topology.arguments import (
    ENABLED,
    LEAST_NUMA_NODES,
    NodeResourceTopologyMatchArgs,
)
from bayplan_plugins.node_resource_topology.cache import OVER_RESERVE, CacheOf, TopologyCache
from bayplan_plugins.node_resource_topology.columns import Int64, ZonesView
from bayplan_plugins.node_resource_topology.demand import ZoneDemand, demand_of
from bayplan_plugins.node_resource_topology.evictions import ZoneEvictions
from bayplan_plugins.node_resource_topology.explaining import details
from bayplan_plugins.node_resource_topology.hints import ZoneHints
from bayplan_plugins.node_resource_topology.new_nodes import topology_like
from bayplan_plugins.node_resource_topology.topologies import TOPOLOGIES

_DEFAULT_ARGUMENTS = NodeResourceTopologyMatchArgs()


class NodeResourceTopologyMatch(Plugin):
    """Filters out nodes where no zone has what a pod needs at one place, and scores nodes by their zones."""

    name = "NodeResourceTopologyMatch"
    arguments = NodeResourceTopologyMatchArgs
    permissions: ClassVar = (
        {"apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["list", "watch"]},
    )

    def __init__(
        self,
        handle: Handle,
        args: NodeResourceTopologyMatchArgs = _DEFAULT_ARGUMENTS,
        scheduler_name: str = "default-scheduler",
    ) -> None:
        self._topologies = handle.objects(TOPOLOGIES)
        self.cache: TopologyCache = self._topologies.view(CacheOf.of(args, handle))
        self.cache.own(scheduler_name)
        self._evictions = None
        if args.preemptionMode == ENABLED and self.cache.kind == OVER_RESERVE:
            self._evictions = ZoneEvictions(self.cache)
        self._strategy = strategies.STRATEGIES.get(args.scoringStrategy.type)
        self._least_numa = args.scoringStrategy.type == LEAST_NUMA_NODES
        self._strategy_name = args.scoringStrategy.type
        self._weights = args.weights()

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """Return the definition of NodeResourceTopologies."""
        return (definition("noderesourcetopologies"),)

    # Filter

    def sign(self, pod: PodInfo) -> Hashable:
        """The requests of the containers, and the quality of service. Zones are the node's: `rests_on` has nothing."""
        return demand_of(pod).signature

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Skip the filter for pods that the kubelet doesn't align."""
        return None if demand_of(pod).checked else SKIP

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes whose kubelet would refuse the pod."""
        demand, view = demand_of(pod), self.cache.columns.view(nodes)
        found = zones.rejections(view, demand)
        if self._evictions is None or not nodes.changes:
            return found
        return self._after_evictions(self._evictions, view, demand, found)

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject one node."""
        if node.changes is None:
            topology, name = self.cache.topology(node.name), node.name
            if not self.cache.fresh(name):
                return zones.STATUSES[zones.STALE - 1]
            if topology is None:
                return None
            code = one_node.rejection(topology, self.cache.left(name, topology), demand_of(pod), node)
            return zones.STATUSES[code - 1] if code else None
        found = self.filter_nodes(cycle, pod, node.alone)
        code = 0 if found is None else found.index.item(0)
        return found.statuses[code - 1] if found is not None and code else None

    def _after_evictions(
        self, evictions: ZoneEvictions, view: ZonesView, demand: ZoneDemand, found: Rejections | None
    ) -> Rejections | None:
        """Look again at the nodes of a preemption, with what its victims would give back."""
        codes = np.zeros(len(view.nodes), dtype=np.int32) if found is None else found.index.copy()
        statuses: list[Status] = [] if found is None else list(found.statuses)
        for position, changes in view.nodes.changes.items():
            if not changes.removed or not view.known[position] or not view.fresh[position]:
                continue
            alone = self.cache.columns.view(view.nodes.at(np.array([position])))
            gains = evictions.of(view.nodes.name(position), changes.removed, _left_of(alone))
            if not gains:
                continue
            if isinstance(gains, str):
                statuses.append(Status.unschedulable(gains))
                codes[position] = len(statuses)
                continue
            again = zones.rejections(alone, demand, _with_gains(alone, gains))
            code = 0 if again is None else again.index.item(0)
            if again is not None and code:
                statuses.append(again.statuses[code - 1])
                code = len(statuses)
            codes[position] = code
        return Rejections(codes, statuses) if codes.any() else None

    # Score

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Score nodes by their zones. Pods that aren't guaranteed are as well off on each node."""
        demand = demand_of(pod)
        if not demand.guaranteed:
            return np.full(len(nodes), MAX_NODE_SCORE, dtype=np.int64)
        view = self.cache.columns.view(nodes)
        if self._least_numa or self._strategy is None:
            return least_numa.scores(view, demand)
        return strategies.scores(view, demand, self._strategy, self._weights)

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node."""
        demand, name, topology = demand_of(pod), node.name, self.cache.topology(node.name)
        if not demand.guaranteed:
            return MAX_NODE_SCORE
        if node.changes is not None:
            return self.score_nodes(cycle, pod, node.alone).item(0)
        if topology is None or not self.cache.fresh(name):
            return 0
        return one_node.score(topology, self.cache.left(name, topology), demand, self._strategy_name, self._weights)

    # What was placed here

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer:
        """Count the pod on its node, until the topology does."""
        self.cache.reserve(node_name, pod)
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count the pod no more."""
        self.cache.release(node_name, pod)

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Note that the pod is bound."""
        self.cache.bound(node_name, pod)

    def checkpoint(self) -> Any:
        """Return what the cache knows beyond topologies and pods."""
        return self.cache.checkpoint()

    def restore(self, checkpoint: Any) -> None:
        """Let the cache know what `checkpoint` returned."""
        self.cache.restore(checkpoint)

    # Events and explanations

    def events(self) -> Iterable[EventHint]:
        """Register topologies, pods that leave or want less, and nodes that offer more."""
        hints = ZoneHints(self.cache)
        gone = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN
        yield EventHint(ClusterEvent("Pod", gone), hints.after_pod_change)
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), hints.after_node_change)
        changed = Action.ADD | Action.UPDATE | Action.DELETE
        yield EventHint(ClusterEvent(TOPOLOGIES, changed), hints.after_topology_change)

    def objects_like(self, node: str) -> Callable[[str, Sequence[PodInfo]], Iterable[Mapping[str, Any]]] | None:
        """Return what makes the topology of a new node."""
        return topology_like(self._topologies, self.cache, node)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """What the zones of the node have left."""
        return None if node is None else details(self.cache, demand_of(pod), node)


def _left_of(view: ZonesView) -> Callable[[int, str], int]:
    """Return a function for what a zone of one node has left of a resource that it lists."""

    def left(index: int, resource: str) -> int:
        has = view.available(resource)
        return 0 if has is None else has.item(index, 0)

    return left


def _with_gains(view: ZonesView, gains: Mapping[tuple[int, str], int]) -> zones.Available:
    """Return what the zones of one node have with what evictions give back."""

    def available(resource: str) -> Int64 | None:
        has = view.available(resource)
        if has is None:
            return None
        more = has.copy()
        for (index, name), amount in gains.items():
            if name == resource and more.item(index, 0) >= 0:
                more[index, 0] += amount
        return more

    return available
