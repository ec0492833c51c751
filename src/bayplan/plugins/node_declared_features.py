"""NodeDeclaredFeatures: nodes must declare the features that a pod needs of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import numpy as np
from lightkube.models.core_v1 import Node, PodSpec

from bayplan.cluster.columns import Bool
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.framework.interface import CycleState, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Rejections

UNSATISFIED = Status.unresolvable("node(s) didn't match Pod's required features")


class NodeDeclaredFeatures(Plugin):
    """Mirrors plugins/nodedeclaredfeatures, with the features of component-helpers/nodedeclaredfeatures."""

    name = "NodeDeclaredFeatures"
    reads_pods = False

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod that needs none."""
        needed = needed_features(pod)
        if not needed:
            return SKIP
        cycle.data[self.name] = needed
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Nodes that lack one are out. Hardly any pod needs any, so that they are no column."""
        needed: frozenset[str] = cycle.data[self.name]
        live = nodes.live
        lacking: Bool = np.zeros(len(nodes), dtype=np.bool_)
        for position in np.flatnonzero(live).tolist():
            lacking[position] = not needed <= _declared(nodes.info(position).object)
        return Rejections.where(lacking, UNSATISFIED) if lacking.any() else None

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """The same for one node."""
        needed: frozenset[str] = cycle.data[self.name]
        return None if needed <= _declared(node.object) else UNSATISFIED

    def events(self) -> Iterable[EventHint]:
        """A node may come or declare other features, or the pod need others."""
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), after_node_change)
        yield EventHint(ClusterEvent(POD, Action.UPDATE), after_pod_update)

    def sign(self, pod: PodInfo) -> Hashable:
        """The features that the pod needs."""
        return needed_features(pod)


def needed_features(pod: PodInfo) -> frozenset[str]:
    """The features that a pod needs of its node to be scheduled there."""
    found: frozenset[str] | None = pod.cache.get(NodeDeclaredFeatures)
    if found is None:
        spec = pod.spec
        found = frozenset(name for name, needs in _FEATURES.items() if needs(spec))
        pod.cache[NodeDeclaredFeatures] = found
    return found


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """A node helps that is new or declares other features."""
    same = old is not None and _listed(old) == _listed(new)
    return Hint.SKIP if same else Hint.QUEUE


def after_pod_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
    """The pod helps itself when it needs other features."""
    if pod.uid != new.uid or needed_features(old) == needed_features(new):
        return Hint.SKIP
    return Hint.QUEUE


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*(spec.containers or ()), *(spec.initContainers or ()))
        for rule in container.restartPolicyRules or ()
    )


def _has_user_namespace_on_host_network(spec: PodSpec) -> bool:
    return bool(spec.hostNetwork) and spec.hostUsers is False


_FEATURES: dict[str, Callable[[PodSpec], bool]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_user_namespace_on_host_network,
}
"""The features that matter to scheduling. The others that nodes of 1.36 declare matter to updates of running pods."""


def _listed(node: Node) -> list[str]:
    return (node.status.declaredFeatures if node.status is not None else None) or []


def _declared(node: Node) -> frozenset[str]:
    return frozenset(_listed(node))
