"""NodeName: filters out all nodes other than the one in the pod's `spec.nodeName`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, Action, ClusterEvent, EventHint
from bayplan.core.framework.interface import CycleState, NodeNames, Plugin
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections

OTHER_NODE = Status.unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    """Mirrors plugins/nodename/node_name.go."""

    name = "NodeName"
    reads_pods = False

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject all nodes but the named one."""
        if not pod.node_name:
            return None
        others = np.ones(len(nodes), dtype=np.bool_)
        position = nodes.position(pod.node_name)
        if position is not None:
            others[position] = False
        return Rejections.where(others, OTHER_NODE)

    def events(self) -> Iterable[EventHint]:
        """Register new nodes."""
        yield EventHint(ClusterEvent(NODE, Action.ADD))

    def sign(self, pod: PodInfo) -> str:
        """The node name."""
        return pod.node_name

    def for_resizes(self) -> OwnNode:
        """Leave out all nodes but the pod's own before they are filtered."""
        return OwnNode()


class OwnNode(NodeName):
    """NodeName for a pod that has a node: nothing else is known about the others. Mirrors its PreFilter of 1.37."""

    reads_pods = False

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> NodeNames:
        """Name the pod's own node."""
        return NodeNames(frozenset({pod.node_name}))
