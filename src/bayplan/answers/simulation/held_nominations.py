"""Nominations where nothing may be preempted: the room stays held while victims terminate.

What-ifs that must not evict use it in place of the profile's PostFilter plugins. Otherwise a pod could take the room
that a real preemption has just made for another one.
"""

from __future__ import annotations

from collections.abc import Hashable

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.interface import CycleState, PostFilterResult, WhatIf
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Diagnosis


class HeldNominations:
    """Stands in for the PostFilter plugins of a profile, and evicts no pod.

    A pod that is nominated to a node where pods of lower priority terminate stays nominated, as with preemption: it
    waits for these, and no other pod gets their room. Any other nomination ends.
    """

    name = "HeldNominations"

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def post_filter(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf) -> PostFilterResult:
        """Keep the nomination of a pod that waits, and clear that of others."""
        return PostFilterResult(Status.unschedulable(), nominated_node=None if self._waits(pod) else "")

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing, unless the pod is nominated."""
        return (pod.uid,) if pod.nominated_node_name else ()

    def _waits(self, pod: PodInfo) -> bool:
        position = self._state.nodes.position(pod.nominated_node_name) if pod.nominated_node_name else None
        if position is None:
            return False
        return any(other.terminating and other.priority < pod.priority for other in self._state.nodes.pods(position))
