"""NodeUnschedulable: filters out cordoned nodes, unless the pod tolerates them."""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import Node

from bayplan.core.api.tolerations import NO_SCHEDULE, UNSCHEDULABLE_TAINT, Taint, Tolerations, tolerate
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.hints import OWN_UPDATE
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.remedies import Details, uncordon
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections

CORDONED = Status.unresolvable("node(s) were unschedulable")

_CORDON: Taint = (UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)
"""A pod that tolerates this taint tolerates cordoned nodes, whether or not they have the taint."""


class NodeUnschedulable(OnlyPlaces):
    """Mirrors plugins/nodeunschedulable/node_unschedulable.go."""

    name = "NodeUnschedulable"
    reads_pods = False

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject cordoned nodes, unless the pod tolerates them."""
        cordoned = nodes.unschedulable
        if not cordoned.any() or tolerate(pod.tolerations, _CORDON):
            return None
        return Rejections.where(cordoned, CORDONED)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The node must be uncordoned."""
        return Details(remedies=[uncordon(node)], cause=UNSCHEDULABLE_TAINT) if node is not None else None

    def events(self) -> Iterable[EventHint]:
        """Register new nodes, nodes that are uncordoned, and new tolerations of the pod."""
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), after_node_change)
        yield EventHint(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), after_toleration_change, OWN_UPDATE)

    def sign(self, pod: PodInfo) -> Tolerations:
        """The pod's tolerations."""
        return pod.tolerations


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Requeue for a node that is schedulable, and is new or was cordoned."""
    was_cordoned = old is None or _cordoned(old)
    return Hint.QUEUE if was_cordoned and not _cordoned(new) else Hint.SKIP


def after_toleration_change(pod: PodInfo, old: PodInfo | None, new: PodInfo) -> Hint:
    """Requeue the pod itself if it tolerates cordoned nodes now."""
    return Hint.QUEUE if new.uid == pod.uid and tolerate(new.tolerations, _CORDON) else Hint.SKIP


def _cordoned(node: Node) -> bool:
    return bool(node.spec and node.spec.unschedulable)
