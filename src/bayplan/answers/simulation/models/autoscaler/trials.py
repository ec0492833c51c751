"""Trials: where pods would be placed if nodes came or went. They are made in a what-if, so nothing changes.

The filters of the real profiles decide. Names of trial nodes begin with a character that no node's name can have.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice

from lightkube.models.core_v1 import Node, NodeSpec
from msgspec import structs

from bayplan.answers.simulation.claims import release_claims
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.requests import CPU, MEMORY
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import PluginError

_TRIED = "\x00trial-"
"""Begins the names of nodes that are only tried; no node can have such a name."""


class Trials:
    """Tries things in a world. Open a what-if that nothing follows around all calls."""

    def __init__(self, world: World) -> None:
        self._world = world

    def add(self, group: ScaledGroup) -> str:
        """Add a node of a group, and return its name."""
        name = f"{_TRIED}{len(self._world.state.table.row_of)}"
        for kind, key, obj in group.make(name):
            self._world.change(kind, key, obj)
        return name

    def growth(self, group: ScaledGroup, pods: Sequence[PodInfo], most: int) -> tuple[int, set[str]]:
        """Return how many nodes of a group place as many of these pods as it can, up to `most`; and these pods.

        A node is added whenever the next pod does not fit, and taken back if it doesn't fit there either.
        """
        world = self._world
        placed: set[str] = set()
        number = 0
        hopeless: set[Hashable] = set()
        with world.what_if():
            for pod in pods:
                alike = world.sharing_key(pod)
                if alike is not None and alike in hopeless:
                    continue
                if number and self._placed(pod):
                    placed.add(pod.uid)
                    continue
                mark = world.mark()
                if number < most:
                    self.add(group)
                    if self._placed(pod):
                        number += 1
                        placed.add(pod.uid)
                        continue
                    world.undo_to(mark)
                if alike is not None:
                    hopeless.add(alike)
        return number, placed

    def move(self, name: str, pods: Sequence[PodInfo], *, until_one_is_left: bool) -> list[PodInfo]:
        """Move pods of a node to other nodes, the largest first. Returns those that fit nowhere, without a node.

        `until_one_is_left`: end with the first of those. The largest pods are the hardest to place, so that most trials
        end soon.
        """
        world = self._world
        pods = sorted(pods, key=lambda pod: (-pod.requested.get(CPU, 0), -pod.requested.get(MEMORY, 0)))
        world.change(NODE, name, cordoned(world.state.objects[NODE][name]))
        left = (pod for pod in pods if not self._moved(pod, name))
        return [as_pending(pod) for pod in islice(left, 1 if until_one_is_left else None)]

    def _moved(self, pod: PodInfo, name: str) -> bool:
        """Take a pod from its node and place it elsewhere, while the pods after it still run, as in a drain."""
        release_claims(self._world, pod, gone=False)
        self._world.change(POD, pod.key, None)
        return self._placed(as_pending(pod), name)

    def _placed(self, pod: PodInfo, besides: str = "") -> bool:
        """Place a pod with its gang on nodes besides one. Returns whether it was placed."""
        world = self._world
        if pod.scheduler_name not in world.profiles:
            return False
        known = world.pod(pod.key)
        if known is not None and known.node_name:  # it was placed with another member of its gang
            return True
        if known is None:
            world.change(POD, pod.key, pod)
        try:
            plan = world.attempt(world.unit_of(pod), preempt=False)
        except PluginError:
            return False
        if any(decision.node == besides for decision in plan.placed):  # they tolerate that it is cordoned
            return False
        for decision in plan.placed:
            assert decision.node is not None
            world.change(POD, decision.pod.key, decision.pod.on_node(decision.node))
        return any(decision.pod.uid == pod.uid for decision in plan.placed)


def as_pending(pod: PodInfo) -> PodInfo:
    """Return a pod as it was before it got its node."""
    return pod.on_node("")


def cordoned(node: Node, *, unschedulable: bool = True) -> Node:
    """Return a node that takes no more pods, or takes them again."""
    return structs.replace(node, spec=structs.replace(node.spec or NodeSpec(), unschedulable=unschedulable))
