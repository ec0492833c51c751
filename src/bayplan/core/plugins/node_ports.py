"""NodePorts: filters out nodes on which a host port of the pod is in use.

The columns and the rule of what conflicts are `bayplan.core.cluster.host_ports`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.core.cluster.columns import Bool
from bayplan.core.cluster.host_ports import conflicts_with
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import HostPort, PodInfo
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.remedies import Details, delete_pods
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections

NO_FREE_PORTS = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(OnlyPlaces):
    """Mirrors plugins/nodeports/node_ports.go."""

    name = "NodePorts"

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod without host ports."""
        return None if pod.host_ports else SKIP

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes on which one of the ports is in use."""
        taken: Bool | None = None
        for port in pod.host_ports:
            conflicts = nodes.port_conflicts(port)
            if conflicts is not None:
                taken = conflicts if taken is None else taken | conflicts
        return Rejections.where(taken, NO_FREE_PORTS) if taken is not None and taken.any() else None

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The ports that are in use, and by which pods."""
        if node is None:
            return None
        used = [
            (wanted.port, other)
            for wanted in pod.host_ports
            for other in node.pods
            if conflicts_with(wanted, other.host_ports)
        ]
        texts = ", ".join(f"port {port} is used by pod {other.key}" for port, other in used)
        return Details(f"{NO_FREE_PORTS.reasons[0]}: {texts}", delete_pods(pod, (other for _, other in used)))

    def events(self) -> Iterable[EventHint]:
        """Register deletions of pods, and new nodes."""
        yield EventHint(ClusterEvent(POD, Action.DELETE), after_pod_deletion, _PORTS)
        yield EventHint(ClusterEvent(NODE, Action.ADD))

    def sign(self, pod: PodInfo) -> tuple[HostPort, ...]:
        """The host ports."""
        return pod.host_ports


def after_pod_deletion(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
    """Requeue for a pod that used a conflicting port on its node or nominated node."""
    if not (old.node_name or old.nominated_node_name):
        return Hint.SKIP
    freed = any(conflicts_with(wanted, old.host_ports) for wanted in pod.host_ports)
    return Hint.QUEUE if freed else Hint.SKIP


def _ports(pod: PodInfo) -> list[tuple[str, int]]:
    return [(port.protocol, port.port) for port in pod.host_ports]


_PORTS = Topics(_ports, lambda old, _new: _ports(old))
