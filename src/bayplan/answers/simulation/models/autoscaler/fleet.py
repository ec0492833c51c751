"""Fleet: the nodes of an autoscaler's groups, those that are coming included.

A node that was asked for counts at once, and is ready after its group's delay. Nodes that come otherwise are adopted by
the first group that has such nodes.
"""

from __future__ import annotations

from itertools import count

from lightkube.models.core_v1 import Node

from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.timeline import Timeline
from bayplan.core.api.kinds import NODE, POD


class Fleet:
    """Adds and removes nodes of groups.

    `coming`: the group of every node that was asked for and is not ready. `added_at`: when the last one was asked for.
    `ready_at`: when every node was ready that was asked for. `group_of`: the group of every node that has one, by name.
    """

    def __init__(self, timeline: Timeline, groups: list[ScaledGroup]) -> None:
        self.groups = groups
        self.coming: dict[str, ScaledGroup] = {}
        self.ready_at: dict[str, float] = {}
        self.group_of: dict[str, ScaledGroup] = {}
        self.added_at = -1e9
        self._timeline = timeline
        self._numbers = count(1)
        self._sizes = dict.fromkeys(groups, 0)
        for name, node in timeline.world.state.objects[NODE].items():
            self.adopt(name, node)

    def adopt(self, name: str, node: Node) -> None:
        """Take a node for one of the first group that has such nodes."""
        group = next((each for each in self.groups if each.has(node)), None)
        if group is not None and name not in self.group_of:
            self.group_of[name] = group
            self._sizes[group] += 1

    def size(self, group: ScaledGroup) -> int:
        """How many nodes a group has, with those that are coming."""
        return self._sizes[group]

    def add(self, group: ScaledGroup, number: int = 1) -> list[str]:
        """Ask for nodes of a group. Returns their names."""
        names = []
        for _ in range(number):
            name = f"{group.name}-{next(self._numbers)}"
            while self._timeline.world.state.nodes.position(name) is not None:
                name = f"{group.name}-{next(self._numbers)}"
            self.coming[name] = group
            self._sizes[group] += 1
            self._timeline.after(group.delay, self._ready, name)
            names.append(name)
            self.added_at = self._timeline.now
        return names

    def _ready(self, name: str) -> None:
        group = self.coming.pop(name)
        self.ready_at[name] = self._timeline.now
        self.group_of[name] = group
        for kind, key, obj in group.make(name):
            if kind is POD:
                self._timeline.arrive(obj)
            else:
                self._timeline.put(kind, key, obj)

    def remove(self, name: str) -> None:
        """Remove a node; the pods of DaemonSets go with it."""
        self._timeline.remove_node(name, DepartureReason.DELETED)

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        self.ready_at.pop(name, None)
        group = self.group_of.pop(name, None)
        if group is not None:
            self._sizes[group] -= 1
