"""Placements that another scheduler made, judged one after the other as they are seen."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from bayplan.answers.judging.judge import Judge
from bayplan.answers.judging.judgement import Judgement, Standing
from bayplan.answers.judging.order import NearBindings
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import Decision, decide


class SeenPlacements:
    """Judges placements by what the scheduler of a world decides about the pod in the same situation.

    The world has the cluster as it was seen just before the pod got its node. `near`: the bindings around that moment.
    """

    def __init__(self, world: World, near: NearBindings[Any]) -> None:
        self._world = world
        self._near = near
        self._judge = Judge(world.state, world.pod)

    def pod_to_ask(self, key: str, uid: str, node: str) -> PodInfo | None:
        """Return the pod to ask about; None where the world's scheduler can't decide as the other did."""
        pod = self._world.pod(key)
        if pod is None or pod.uid != uid or pod.node_name or pod.scheduler_name not in self._world.profiles:
            return None
        return pod if node in self._world.state.table.row_of else None

    def judge(self, pod: PodInfo, node: str) -> Judgement:
        """Judge the node of a pod; the decision has the scores by plugin. Nothing changes."""
        found = self._here(pod, node)
        if found.equal:
            return found
        with self._world.what_if():
            for others in self._near.out_of_order(self._world, pod):
                for other in others:
                    self._world.change(POD, other.key, other)
                if others and self._here(pod, node).equal:
                    return replace(found, standing=Standing.OTHER_ORDER)
        return found

    def _here(self, pod: PodInfo, node: str) -> Judgement:
        profile = self._world.profiles[pod.scheduler_name]
        return self._judge.placement(decision_of(self._world, pod), node, profile)


def decision_of(world: World, pod: PodInfo, profile: Profile | None = None) -> Decision:
    """Return what a scheduler decides about a pod, with the scores by plugin. It changes nothing.

    `profile`: that of the scheduler, on this world. Default: that of the world's own.
    """
    profile = profile or world.profiles[pod.scheduler_name]
    return decide(profile, world.state, pod, random.Random(0), explain=True, failures=world.failures)
