"""TaintToleration: filters out nodes with taints that the pod does not tolerate, and prefers nodes with fewer.

Few distinct lists of taints exist in a cluster, so tolerations are compared once per list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.core.api.tolerations import (
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    Taint,
    Tolerations,
    heeded,
    taint_text,
    tolerate,
    tolerate_scheduling,
    untolerated,
)
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.hints import OWN_UPDATE, after_own_update
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.lasting_taints import reason_of
from bayplan.core.framework.normalization import scale_to_best
from bayplan.core.framework.remedies import Details, Remedy, remove_taints, together, tolerate_taints, uncordon
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

UNTOLERATED = Status.unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(OnlyPlaces):
    """Mirrors plugins/tainttoleration/taint_toleration.go."""

    name = "TaintToleration"
    reads_pods = False

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._comparisons = gates.enabled("TaintTolerationComparisonOperators")

    def _tolerations(self, pod: PodInfo) -> Tolerations:
        return heeded(pod.tolerations, comparisons=self._comparisons)

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        if not nodes.tainted:
            return None
        tolerations = self._tolerations(pod)
        untolerated = nodes.taints_where(lambda taints: not tolerate_scheduling(tolerations, taints))
        return Rejections.where(untolerated, UNTOLERATED) if untolerated.any() else None

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store the tolerations that apply to PreferNoSchedule."""
        cycle.data[self.name] = tuple(
            toleration for toleration in self._tolerations(pod) if toleration.effect in {"", PREFER_NO_SCHEDULE}
        )

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Count the PreferNoSchedule taints of the node that the pod does not tolerate."""
        tolerations: Tolerations = cycle.data[self.name]  # read first: a profile without its PreScore always fails
        if not nodes.tainted:
            return np.zeros(len(nodes), dtype=np.int64)
        return nodes.taints_counted(lambda taints: _count_untolerated(tolerations, taints))

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """Give the fewest taints the highest score."""
        return scale_to_best(scores, reverse=True)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The taints that the pod does not tolerate."""
        if node is None:
            return None
        taints = untolerated(self._tolerations(pod), node.taints)
        spec = node.object.spec
        if spec is not None and spec.unschedulable:  # NodeUnschedulable explains the cordon
            taints = [taint for taint in taints if taint[0] != UNSCHEDULABLE_TAINT] or taints
        listed = ", ".join(
            taint_text(taint) + self._comparison(pod, taint) + reason_of(node, taint) for taint in taints
        )
        cordoned = all(taint[0] == UNSCHEDULABLE_TAINT for taint in taints)
        cause = UNSCHEDULABLE_TAINT if cordoned else None
        return Details(f"node(s) had untolerated taint(s): {listed}", _remedies(node, taints), cause=cause)

    def _comparison(self, pod: PodInfo, taint: Taint) -> str:
        """Why the pod's tolerations with Lt and Gt don't tolerate a taint: ` (5 is not below 3)`; "" without any."""
        comparing = [each for each in pod.tolerations if each.compares and each.concerns(taint)]
        if comparing and not self._comparisons:
            return " (Lt and Gt have no effect without the feature gate TaintTolerationComparisonOperators)"
        return f" ({', '.join(each.comparison(taint) for each in comparing)})" if comparing else ""

    def events(self) -> Iterable[EventHint]:
        """Register new nodes, changes of taints, and new tolerations of the pod."""
        yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self.after_node_change)
        yield EventHint(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), after_own_update, OWN_UPDATE)

    def sign(self, pod: PodInfo) -> Tolerations:
        """The pod's tolerations."""
        return pod.tolerations

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """Requeue for a node that the pod tolerates, and that is new or was not tolerated before."""
        tolerations = self._tolerations(pod)
        was_untolerated = old is None or not _tolerated(tolerations, old)
        return Hint.QUEUE if was_untolerated and _tolerated(tolerations, new) else Hint.SKIP


def _remedies(node: NodeInfo, taints: Sequence[Taint]) -> Iterator[Remedy]:
    """A cordon is lifted, and all other taints are tolerated or removed."""
    if any(reason_of(node, taint) for taint in taints):
        return  # what sets such a taint sets it again, and a pod that tolerates it doesn't run there
    others = [taint for taint in taints if taint[0] != UNSCHEDULABLE_TAINT]
    cordon = [uncordon(node)] if len(others) < len(taints) else []
    if not others:
        yield from cordon
        return
    yield together(*cordon, tolerate_taints(others))
    yield together(*cordon, remove_taints(node, others))


def _count_untolerated(tolerations: Tolerations, taints: Iterable[Taint]) -> int:
    return sum(taint[2] == PREFER_NO_SCHEDULE and not tolerate(tolerations, taint) for taint in taints)


def _tolerated(tolerations: Tolerations, node: Node) -> bool:
    taints = (node.spec.taints if node.spec else None) or ()
    return tolerate_scheduling(tolerations, ((taint.key, taint.value or "", taint.effect) for taint in taints))
