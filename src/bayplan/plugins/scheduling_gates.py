"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import POD, Action, ClusterEvent, EventHint, Hint
from bayplan.framework.interface import Plugin
from bayplan.framework.status import Status


class SchedulingGates(Plugin):
    """Mirrors plugins/schedulinggates/scheduling_gates.go."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Turn a gated pod away."""
        if not pod.scheduling_gates:
            return None
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    def events(self) -> Iterable[EventHint]:
        """The pod's own gates are gone."""
        yield EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED), after_gates_eliminated)


def after_gates_eliminated(pod: PodInfo, old: PodInfo | None, new: PodInfo) -> Hint:
    """Only the pod itself is helped."""
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP
