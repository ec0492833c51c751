"""Trials: where pods would be placed if nodes came or went. Nothing changes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from lightkube.models.core_v1 import Node, NodeSpec
from msgspec import structs

from bayplan.api.kinds import NODE, POD
from bayplan.api.requests import CPU, MEMORY
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.status import PluginError
from bayplan.simulation.claims import release_claims
from bayplan.simulation.models.autoscaler.groups import NodeGroup
from bayplan.simulation.world import World

_TRIED = "\x00trial-"
"""Begins the names of nodes that are only tried; no node can have such a name."""


@dataclass(frozen=True, slots=True)
class Growth:
    """So many new nodes of a group place these pods. `waste`: the share of their CPU and memory that stays unused."""

    group: NodeGroup
    nodes: int
    pods: frozenset[str]
    waste: float


class Trials:
    """Tries things in a world. Open a what-if that nothing follows around all calls."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._names = 0

    def add(self, group: NodeGroup) -> str:
        """Add a node of a group, and return its name."""
        self._names += 1
        name = f"{_TRIED}{self._names}"
        for kind, key, obj in group.make(name):
            self._world.change(kind, key, obj)
        return name

    def place(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Place pods where they fit, without preemption, and return those that fit nowhere."""
        left: list[PodInfo] = []
        hopeless: set[Hashable] = set()
        for pod in pods:
            alike = self._world.alike(pod)
            if alike is not None and alike in hopeless:
                left.append(pod)
            elif not self._placed(pod):
                left.append(pod)
                if alike is not None:
                    hopeless.add(alike)
        return left

    def growth(self, group: NodeGroup, pods: Sequence[PodInfo], most: int) -> Growth | None:
        """Return the nodes of a group that place as many of these pods as it can, up to `most`; None for none.

        A node is added whenever the next pod does not fit, and taken back if it doesn't fit there either.
        """
        world = self._world
        placed: set[str] = set()
        names: list[str] = []
        hopeless: set[Hashable] = set()
        with world.what_if():
            for pod in pods:
                alike = world.alike(pod)
                if alike is not None and alike in hopeless:
                    continue
                if names and self._placed(pod):
                    placed.add(pod.uid)
                    continue
                mark = world.mark()
                if len(names) < most:
                    name = self.add(group)
                    if self._placed(pod):
                        names.append(name)
                        placed.add(pod.uid)
                        continue
                    world.undo_to(mark)
                if alike is not None:
                    hopeless.add(alike)
            waste = self._waste(names)
        return Growth(group, len(names), frozenset(placed), waste) if names else None

    def move(self, name: str, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Move pods of a node to other nodes. Returns those that fit nowhere; they have no node then."""
        world = self._world
        world.change(NODE, name, cordoned(world.state.objects[NODE][name]))
        for pod in pods:
            release_claims(world, pod, gone=False)
            world.change(POD, pod.key, None)
        return [pod for pod in map(as_pending, pods) if not self._placed(pod, name)]

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

    def _waste(self, names: Sequence[str]) -> float:
        nodes = self._world.state.nodes
        shares = []
        for name in names:
            position = nodes.position(name)
            if position is not None:
                info = nodes.info(position)
                for resource in (CPU, MEMORY):
                    allocatable = info.allocatable_of(resource)
                    if allocatable:
                        shares.append(1 - info.requested_of(resource) / allocatable)
        return sum(shares) / len(shares) if shares else 1.0


def as_pending(pod: PodInfo) -> PodInfo:
    """Return a pod as it was before it got its node."""
    return pod.on_node("")


def cordoned(node: Node, *, unschedulable: bool = True) -> Node:
    """Return a node that takes no more pods, or takes them again."""
    return structs.replace(node, spec=structs.replace(node.spec or NodeSpec(), unschedulable=unschedulable))
