"""Scale-up: which group grows for the pods that wait.

The real filters say what a new node of a group would take (`trials.py`). The cheapest group for its pods grows first,
until every pod that can be helped has room on a node that is coming.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayplan.answers.simulation.models.autoscaler.fleet import Fleet
from bayplan.answers.simulation.models.autoscaler.packing import FreeRoom, Growth, Packing
from bayplan.answers.simulation.models.autoscaler.rules import Rules
from bayplan.answers.simulation.owners import belongs_to
from bayplan.answers.simulation.timeline import Timeline
from bayplan.core.cluster.pod_info import PodInfo


class ScaleUpRule:
    """Adds nodes until every waiting pod that a group can help has room on one that is coming.

    The group with the lowest price for its pods grows first; where a price is unknown, the one with the least waste.
    """

    def __init__(self, timeline: Timeline, fleet: Fleet, rules: Rules) -> None:
        self._timeline = timeline
        self._fleet = fleet
        self._rules = rules
        self._packing = Packing(timeline.world)
        self._rooms: dict[str, FreeRoom] = {}
        """What is left of the nodes that are coming."""
        self._promised: dict[str, str] = {}
        """By uid of a pod: the node that is coming for it."""
        self._tried: object = None
        """What the last trial that added nothing depended on."""

    def scan(self) -> None:
        """Look for pods that wait."""
        timeline, fleet, world = self._timeline, self._fleet, self._timeline.world
        if self.idle_until() == math.inf:
            return
        waiting = [pod for pod in timeline.waiting() if belongs_to(pod) is not None]
        self._rooms = {name: room for name, room in self._rooms.items() if name in fleet.coming}
        self._promised = {pod.uid: self._promised[pod.uid] for pod in waiting if self._is_served(pod)}
        pods = [pod for pod in waiting if pod.uid not in self._promised]
        if not pods:
            return
        order = {pod.uid: index for index, pod in enumerate(pods)}
        pods.sort(key=lambda pod: (-pod.priority, order[pod.uid]))
        grown = False
        self._packing.begin()
        with world.unfollowed():
            names = {id(room): name for name, room in self._rooms.items()}
            for pod, room in self._packing.into(self._rooms.values(), pods):
                self._promised[pod.uid] = names[id(room)]
            left = [pod for pod in pods if pod.uid not in self._promised]
            while left and (growth := self._best(left)) is not None:
                grown = True
                self._grow(growth)
                left = [pod for pod in left if pod.uid not in growth.pods]
        self._tried = None if grown or self._rooms else world.version

    def idle_until(self) -> float:
        """When a scan may do something: never while no pod waits, or while all is as after one that added nothing."""
        idle = not self._timeline.any_waiting or self._tried == self._timeline.world.version
        return math.inf if idle else -math.inf

    def _is_served(self, pod: PodInfo) -> bool:
        """Whether a node is coming for a pod, or has just come."""
        name = self._promised.get(pod.uid, "")
        just = self._timeline.now < self._fleet.ready_at.get(name, -math.inf) + 2 * self._rules.scan
        return name in self._fleet.coming or just

    def _grow(self, growth: Growth) -> None:
        names = self._fleet.add(growth.group, len(growth.rooms))
        self._rooms |= dict(zip(names, growth.rooms, strict=True))
        for uid in growth.pods:
            self._promised[uid] = names[-1]  # all of them are ready at the same time

    def _best(self, pods: Sequence[PodInfo]) -> Growth | None:
        fleet = self._fleet
        found = [
            growth
            for group in fleet.groups
            if (most := group.maximum - fleet.size(group)) > 0
            and (growth := self._packing.growth(group, pods, most)) is not None
        ]
        return min(found, key=self._cost, default=None)

    def _cost(self, growth: Growth) -> tuple[float, float, int, str]:
        group = growth.group
        known = all(each.price is not None for each in self._fleet.groups)
        price = (group.price or 0.0) * len(growth.rooms) / len(growth.pods) if known else 0.0
        return price, round(growth.waste, 6), self._fleet.size(group), group.name
