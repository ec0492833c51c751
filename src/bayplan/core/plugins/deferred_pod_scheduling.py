"""DeferredPodScheduling: what is special about pods on nodes whose kubelet has deferred their resize.

They are attempted so that pods of lower priority on their node are evicted for the resize. They never get another node.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import Node

from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.resizes import forbids_preemption_for_resizes, resize_deferred
from bayplan.core.framework.events import NODE, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.interface import CycleState, Plugin
from bayplan.core.framework.status import SKIP, Status

OTHER_NODE = Status.unresolvable("pod assigned to different node")
FORBIDDEN = Status.unresolvable("node had resize preemption disabled")
FITS = Status.unresolvable("pod resize fits, waiting for Kubelet actuation")


class DeferredPodScheduling(Plugin):
    """Mirrors plugins/deferredpodscheduling of 1.37, which is behind InPlacePodVerticalScalingSchedulerPreemption."""

    name = "DeferredPodScheduling"
    reads_pods = False

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip all other pods."""
        return None if resize_deferred(pod) else SKIP

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject other nodes, and a node whose policy forbids evictions for resizes."""
        if node.name != pod.node_name:
            return OTHER_NODE
        return FORBIDDEN if forbids_preemption_for_resizes(node.object) else None

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Hold the pod back from Bind: once there is room, the kubelet resizes it by itself."""
        return FITS if resize_deferred(pod) else None

    def events(self) -> Iterable[EventHint]:
        """Register the pod's own node, when it appears and when its policy changes."""
        yield EventHint(ClusterEvent(NODE, Action.UPDATE_NODE_PREEMPTION_POLICY), after_policy_change)
        yield EventHint(ClusterEvent(NODE, Action.ADD), after_node_added)

    def sign(self, pod: PodInfo) -> str:
        """The pod's node, if its resize is deferred."""
        return pod.node_name if resize_deferred(pod) else ""


def after_policy_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Requeue for the own node once its policy no longer forbids evictions."""
    allowed = old is not None and forbids_preemption_for_resizes(old) and not forbids_preemption_for_resizes(new)
    return Hint.QUEUE if allowed and _waits_on(pod, new) else Hint.SKIP


def after_node_added(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Requeue for the own node if its policy doesn't forbid evictions."""
    return Hint.QUEUE if _waits_on(pod, new) and not forbids_preemption_for_resizes(new) else Hint.SKIP


def _waits_on(pod: PodInfo, node: Node) -> bool:
    return resize_deferred(pod) and node.metadata is not None and node.metadata.name == pod.node_name
