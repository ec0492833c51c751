"""The refusals of pods that no node can run, which equal pods share while nothing changes.

A thousand equal pods that fit nowhere are then decided once. The share ends with the world's `version`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import Decision, Plan, Unit


class SharedRefusals:
    """Remembers the decisions of plans that do nothing but requeue one pod, so that equal pods are decided once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._version = -1
        self._decisions: dict[Hashable, Decision] = {}

    def plan(self, pod: PodInfo) -> Plan | None:
        """Return the plan of an attempt of this pod, as that of an equal pod; None if something has changed since."""
        if not self._decisions or self._version != self._world.version:
            return None
        known = self._decisions.get(self._world.sharing_key(pod))
        return None if known is None else Plan.of(Unit(pod), replace(known, pod=pod))

    def add(self, pod: PodInfo, plan: Plan) -> None:
        """Remember the decision about a pod after its plan was carried out."""
        if self._version != self._world.version:
            self._version = self._world.version
            self._decisions.clear()
        requeues = len(plan.refused) == 1 and not (plan.placed or plan.preemptions or plan.leftover)
        if not requeues or plan.unit.gang is not None or plan.refused[0].error:
            return
        alike = self._world.sharing_key(pod)
        if alike is not None:
            self._decisions[alike] = plan.decisions[0]
