"""Packing: how many new nodes of a group pods need, without placing each of them.

Whether a pod fits on an empty node of a group is asked of the scheduler, once for all equal pods. For pods whose
filters read nothing but the node, what is left of nodes is arithmetic. All other pods are placed one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.autoscaler.trials import Trials
from bayplan.answers.simulation.world import World
from bayplan.core.api.requests import CPU, MEMORY
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import PluginError

_MOST_KNOWN = 20_000
"""More results of trials than these are not remembered."""


@dataclass(slots=True)
class FreeRoom:
    """What is left of a new node, in millicores of cpu and base units."""

    group: ScaledGroup
    free: dict[str, int]
    pods: int

    @classmethod
    def of(cls, group: ScaledGroup, node: NodeInfo) -> FreeRoom:
        """The room of a node, with its pods of DaemonSets."""
        free = {name: amount - node.requested_of(name) for name, amount in node.allocatable.items()}
        return cls(group, free, node.allowed_pods - node.pod_count)

    def copy(self) -> FreeRoom:
        """Return a node with as much room."""
        return FreeRoom(self.group, dict(self.free), self.pods)

    def take(self, pod: PodInfo) -> bool:
        """Take room for a pod. Returns False if there is not enough."""
        if self.pods < 1 or any(self.free.get(name, 0) < amount for name, amount in pod.requested.items() if amount):
            return False
        self.pods -= 1
        for name, amount in pod.requested.items():
            self.free[name] = self.free.get(name, 0) - amount
        return True


@dataclass(slots=True)
class Growth:
    """New nodes of a group that place these pods, by uid. `waste`: the share of their CPU and memory that is unused.

    `rooms`: what is left of the nodes.
    """

    group: ScaledGroup
    rooms: list[FreeRoom] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    waste: float = 1.0


class Packing:
    """Packs pods into new nodes. Open a what-if that nothing follows around all calls."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._empty: dict[ScaledGroup, FreeRoom] = {}
        self._fits: dict[tuple[Hashable, str], bool] = {}
        self._alike: dict[int, tuple[PodInfo, Hashable]] = {}

    def begin(self) -> None:
        """Forget what depends on the moment."""
        self._alike.clear()
        if len(self._fits) > _MOST_KNOWN:
            self._fits.clear()

    def alike(self, pod: PodInfo) -> Hashable:
        """Return a key that equal pods share whose filters read nothing but the node; None for all other pods."""
        known = self._alike.get(id(pod.cache))
        if known is None:
            world = self._world
            simple = not (pod.host_ports or pod.volumes) and pod.scheduler_name in world.profiles
            alike = world.sharing_key(pod) if simple else None
            alike = alike if alike is not None and world.decided_by_node(pod) else None
            known = self._alike[id(pod.cache)] = pod, alike  # the pod is kept, so that the number stays its own
        return known[1]

    def into(self, rooms: Iterable[FreeRoom], pods: Sequence[PodInfo]) -> Iterator[tuple[PodInfo, FreeRoom]]:
        """Pack pods into what is left of nodes. Yields those that fit, with their room."""
        given, first = list(rooms), dict[Hashable, int]()
        for pod in pods:
            alike = self.alike(pod)
            if alike is None:
                continue
            index = first.get(alike, 0)
            while index < len(given) and not (self.fits(pod, alike, given[index].group) and given[index].take(pod)):
                index += 1
            first[alike] = index
            if index < len(given):
                yield pod, given[index]

    def growth(self, group: ScaledGroup, pods: Sequence[PodInfo], most: int) -> Growth | None:
        """Return the nodes of a group that place as many of these pods as it can, up to `most`; None for none."""
        found, first, others = Growth(group), dict[Hashable, int](), list[PodInfo]()
        empty = self._room(group)
        for pod in pods:
            alike = self.alike(pod)
            if alike is None:
                others.append(pod)
            elif self.fits(pod, alike, group):
                index = first.get(alike, 0)
                while index < len(found.rooms) and not found.rooms[index].take(pod):
                    index += 1
                if index == len(found.rooms) < most:
                    found.rooms.append(empty.copy())
                    index = index if found.rooms[-1].take(pod) else most
                first[alike] = index
                if index < len(found.rooms):
                    found.pods.add(pod.uid)
        found.rooms = [room for room in found.rooms if room.pods < empty.pods]
        if others and len(found.rooms) < most:
            number, placed = Trials(self._world).growth(group, others, most - len(found.rooms))
            found.rooms += [FreeRoom(group, {}, 0)] * number  # what is left of these is not known
            found.pods |= placed
        if not found.pods:
            return None
        found.waste = _waste(found.rooms, empty)
        return found

    def fits(self, pod: PodInfo, alike: Hashable, group: ScaledGroup) -> bool:
        """Whether a pod fits on an empty node of a group."""
        known = self._fits.get((alike, group.name))
        if known is None:
            world, mark = self._world, self._world.mark()
            row = world.state.table.row_of[Trials(world).add(group)]
            try:
                plan = world.attempt(world.unit_of(pod), preempt=False)
                known = any(np.isin(row, decision.feasible).any() for decision in plan.decisions)
            except PluginError:
                known = False
            world.undo_to(mark)
            self._fits[alike, group.name] = known
        return known

    def _room(self, group: ScaledGroup) -> FreeRoom:
        """What an empty node of a group has."""
        if group not in self._empty:
            world, mark = self._world, self._world.mark()
            position = world.state.nodes.position(Trials(world).add(group))
            assert position is not None
            self._empty[group] = FreeRoom.of(group, world.state.nodes.info(position))
            world.undo_to(mark)
        return self._empty[group]


def _waste(rooms: Sequence[FreeRoom], empty: FreeRoom) -> float:
    shares = [
        room.free.get(name, 0) / empty.free[name] for room in rooms for name in (CPU, MEMORY) if empty.free.get(name)
    ]
    return sum(shares) / len(shares) if shares else 0.0
