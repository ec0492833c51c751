"""NodeDeclaredFeatures: filters out nodes that do not declare the features that a pod requires."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import numpy as np
from lightkube.models.core_v1 import Node, PodSpec

from bayplan.core.cluster.columns import Bool
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections

UNSATISFIED = Status.unresolvable("node(s) didn't match Pod's required features")


class NodeDeclaredFeatures(OnlyPlaces):
    """Mirrors plugins/nodedeclaredfeatures, with the features of component-helpers/nodedeclaredfeatures."""

    name = "NodeDeclaredFeatures"
    reads_pods = False

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod that requires no features."""
        required = required_features(pod)
        if not required:
            return SKIP
        cycle.data[self.name] = required
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that lack a feature. Few pods require features, so the table has no column for them."""
        required: frozenset[str] = cycle.data[self.name]
        live = nodes.live
        lacking: Bool = np.zeros(len(nodes), dtype=np.bool_)
        for position in np.flatnonzero(live).tolist():
            lacking[position] = not required <= _declared(nodes.info(position).object)
        return Rejections.where(lacking, UNSATISFIED) if lacking.any() else None

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject one node."""
        required: frozenset[str] = cycle.data[self.name]
        return None if required <= _declared(node.object) else UNSATISFIED

    def events(self) -> Iterable[EventHint]:
        """Register changes of the features of nodes, and updates of the pod."""
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), after_node_change)
        yield EventHint(ClusterEvent(POD, Action.UPDATE), after_pod_update)

    def sign(self, pod: PodInfo) -> Hashable:
        """The features that the pod requires."""
        return required_features(pod)


def required_features(pod: PodInfo) -> frozenset[str]:
    """Return the features that a node has to declare for the pod to be scheduled there."""
    return pod.of_spec(NodeDeclaredFeatures, _required_features)


def _required_features(pod: PodInfo) -> frozenset[str]:
    spec = pod.spec
    return frozenset([name for name, requires in _FEATURES.items() if requires(spec)])


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Requeue for a node that is new, or declares other features than before."""
    same = old is not None and _listed(old) == _listed(new)
    return Hint.SKIP if same else Hint.QUEUE


def after_pod_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
    """Requeue the pod itself if it requires other features than before."""
    if pod.uid != new.uid or required_features(old) == required_features(new):
        return Hint.SKIP
    return Hint.QUEUE


def _restarts_all_containers(spec: PodSpec) -> bool:
    containers = (*(spec.containers or ()), *(spec.initContainers or ()))
    actions = [rule.action for container in containers for rule in container.restartPolicyRules or ()]
    return "RestartAllContainers" in actions


def _has_user_namespace_on_host_network(spec: PodSpec) -> bool:
    return bool(spec.hostNetwork) and spec.hostUsers is False


_FEATURES: dict[str, Callable[[PodSpec], bool]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_user_namespace_on_host_network,
}
"""The features that affect scheduling. Other features of nodes in 1.36 affect only updates of running pods."""


def _listed(node: Node) -> list[str]:
    return (node.status.declaredFeatures if node.status is not None else None) or []


def _declared(node: Node) -> frozenset[str]:
    return frozenset(_listed(node))
