"""SchedulingGates: gates pods with scheduling gates."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import POD, Action, ClusterEvent, EventHint
from bayplan.core.framework.hints import OWN_UPDATE, after_own_update
from bayplan.core.framework.interface import CycleState, Plugin
from bayplan.core.framework.remedies import Details, Remedy
from bayplan.core.framework.status import Status


class SchedulingGates(Plugin):
    """Mirrors plugins/schedulinggates/scheduling_gates.go."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod that has scheduling gates."""
        if not pod.scheduling_gates:
            return None
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The gates must be removed."""
        gates = pod.scheduling_gates
        text = f"remove the scheduling gate{'s' if len(gates) > 1 else ''} {' and '.join(gates)}"
        return Details(remedies=[Remedy(text, pod=lambda document: document["spec"].pop("schedulingGates"))])

    def events(self) -> Iterable[EventHint]:
        """Register the removal of the pod's gates."""
        yield EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED), after_own_update, OWN_UPDATE)
