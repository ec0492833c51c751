"""The plans of pods that no node can run, which equal pods share while nothing changes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from bayplan.cluster.pod_info import PodInfo
from bayplan.scheduling import Plan
from bayplan.simulation.world import World


class SharedRefusals:
    """Remembers plans that do nothing but requeue one pod, so that equal pods are decided once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._version = -1
        self._plans: dict[Hashable, Plan] = {}

    def plan(self, pod: PodInfo) -> Plan | None:
        """Return the plan of an attempt of this pod, as that of an equal pod; None if something has changed since."""
        if not self._plans or self._version != self._world.version:
            return None
        known = self._plans.get(self._key(pod))
        if known is None:
            return None
        decisions = [replace(decision, pod=pod) for decision in known.decisions]
        return replace(
            known,
            unit=known.unit._replace(pod=pod),
            decisions=decisions,
            refused=[replace(refusal, pod=pod) for refusal in known.refused],
        )

    def add(self, pod: PodInfo, plan: Plan) -> None:
        """Remember the plan of a pod after it was carried out."""
        if self._version != self._world.version:
            self._version = self._world.version
            self._plans.clear()
        requeues = len(plan.refused) == 1 and not (plan.placed or plan.preemptions or plan.leftover)
        if requeues and plan.unit.gang is None and not plan.refused[0].error and (key := self._key(pod)) is not None:
            self._plans[key] = plan

    def _key(self, pod: PodInfo) -> Hashable | None:
        return self._world.alike(pod)
