"""Rooms: which events may help requests that were refused for lack of room.

A change helps a request only if its node has room for more of the request's pods than before, and all nodes together
have room for as many as it asks for. Both are sums of what a plugin counts (`CountsRoom`), so that a request is not
asked again where they say no already. Other plugins and the packing of different pods may still refuse it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.capabilities import CountsRoom
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.foundations.latest import LruDict

Kind = frozenset[tuple[str, int]]
"""What a pod requests."""
Wants = tuple[tuple[Kind, int], ...]
"""How many pods of each kind a request asks for. Empty if room may also be made: then any event may help."""

_KINDS = 1024
_ANY: frozenset[Wants] = frozenset([()])


def wants_of(pods: Iterable[PodInfo]) -> Wants:
    """What a request with these pods asks for."""
    return tuple(Counter(frozenset(pod.requested.items()) for pod in pods).items())


@dataclass(slots=True)
class _Count:
    """How many pods of a kind each row has room for, as of a version of the node table."""

    version: int
    rows: Int64
    total: int


class Rooms:
    """The room of the nodes for the pods of open requests, by the profiles that decide them.

    `wanted_for`: what the request asks for that a pod belongs to.
    """

    def __init__(self, nodes: Callable[[], Nodes], wanted_for: Callable[[PodInfo], Wants]) -> None:
        self._nodes, self._wanted_for = nodes, wanted_for
        self._rooms: dict[str, list[_Room]] = {}

    def hints(self, profile: Profile, name: str) -> dict[str, tuple[EventHint, ...]]:
        """Return what is registered in place of plugins' own events. `name`: that of the profile for requests."""
        counting = [plugin for plugin in profile.at(Point.FILTER) if implements(plugin, CountsRoom)]
        rooms = {plugin.name: _Room(plugin, self._nodes, self._wanted_for) for plugin in counting}
        self._rooms[name] = list(rooms.values())
        own = profile.events()
        return {plugin: room.events(own[plugin]) for plugin, room in rooms.items()}

    def opened(self, wants: Wants, pods: Collection[PodInfo]) -> None:
        """A request is asked, with these pods."""
        for room in self._of(pods):
            room.opened(wants, pods)

    def closed(self, wants: Wants, pods: Collection[PodInfo]) -> None:
        """A request is not asked any more."""
        for room in self._of(pods):
            room.closed(wants)

    def _of(self, pods: Collection[PodInfo]) -> list[_Room]:
        return self._rooms.get(next(iter(pods)).scheduler_name, [])


class _Room:
    """The room of the nodes for the pods of open requests, as one plugin counts it."""

    def __init__(self, plugin: CountsRoom, nodes: Callable[[], Nodes], wanted_for: Callable[[PodInfo], Wants]) -> None:
        self._plugin, self._nodes, self._wanted_for = plugin, nodes, wanted_for
        self._open: Counter[Wants] = Counter()
        self._examples: dict[Kind, PodInfo] = {}
        """By kind: a pod of it."""
        self._counts: LruDict[Kind, _Count] = LruDict(_KINDS)
        self._last: tuple[Any, Any, int, frozenset[Wants]] = (None, None, -1, frozenset())
        """What the last event helps: the object before and after, the version of the nodes, and the wants."""

    def opened(self, wants: Wants, pods: Iterable[PodInfo]) -> None:
        """A request is asked."""
        if not self._open[wants]:
            self._examples.update((frozenset(pod.requested.items()), pod) for pod in pods)
        self._open[wants] += 1

    def closed(self, wants: Wants) -> None:
        """A request is not asked any more."""
        self._open[wants] -= 1
        if self._open[wants] <= 0:
            del self._open[wants]
            kept = {kind for each in self._open for kind, _ in each}
            for kind, _ in wants:
                if kind not in kept:
                    del self._examples[kind]
                    self._counts.pop(kind, None)

    def events(self, own: Iterable[EventHint]) -> tuple[EventHint, ...]:
        """Return what is registered in place of the plugin's `own` events about pods and nodes."""
        gone = ClusterEvent(POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        more = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_TAINT)
        others = [each for each in own if each.event.resource not in {POD, NODE}]
        return (
            EventHint(gone, self._after_pod_event, Topics(self._topics, self._helped_by_pod)),
            EventHint(more, self._after_node_event, Topics(self._topics, self._helped_by_node)),
            *others,
        )

    def _topics(self, pod: PodInfo) -> Collection[Hashable]:
        return (self._wanted_for(pod),)

    def _after_pod_event(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        return Hint.QUEUE if self._wanted_for(pod) in self._helped_by_pod(old, new) else Hint.SKIP

    def _after_node_event(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        return Hint.QUEUE if self._wanted_for(pod) in self._helped_by_node(old, new) else Hint.SKIP

    def _helped_by_pod(self, old: PodInfo, new: PodInfo | None) -> frozenset[Wants]:
        if old.node_name:
            before = PodChanges(added=[old], removed=[] if new is None else [new])
            return self._helped(old, new, old.node_name, before)
        return self._helped(old, new, old.nominated_node_name, None)

    def _helped_by_node(self, old: Node | None, new: Node) -> frozenset[Wants]:
        name = new.metadata.name if new.metadata else None
        return self._helped(old, new, name or "", None)

    def _helped(self, old: object, new: object, node: str, before: PodChanges | None) -> frozenset[Wants]:
        """Return what may have room now that a node has changed. `before`: how the node was; None if unknown."""
        nodes = self._nodes()
        last_old, last_new, version, found = self._last
        if last_old is old and last_new is new and version == nodes.table.version:
            return found
        position = nodes.position(node)
        if position is None:
            return _ANY
        grown = {kind for kind, pod in self._examples.items() if self._has_grown(pod, nodes, position, before)}
        found = frozenset(
            wants
            for wants in self._open
            if not wants
            or (
                any(kind in grown for kind, _ in wants)
                and all(self._total(kind, nodes) >= number for kind, number in wants)
            )
        )
        self._last = old, new, nodes.table.version, found
        return found

    def _has_grown(self, pod: PodInfo, nodes: Nodes, position: int, before: PodChanges | None) -> bool:
        only = np.array([position])
        room = int(self._plugin.room_for(pod, nodes.at(only))[0])
        if not room or before is None:
            return room > 0
        return room > int(self._plugin.room_for(pod, nodes.changed({position: before}).at(only))[0])

    def _total(self, kind: Kind, nodes: Nodes) -> int:
        """How many pods of a kind all nodes have room for."""
        table, known = nodes.table, self._counts.use(kind)
        changed = None if known is None or len(known.rows) != len(nodes) else table.changed_since(known.version)
        if known is None or changed is None:
            rows = self._counted(kind, nodes)
            self._counts[kind] = _Count(table.version, rows, int(rows.sum()))
            return self._counts[kind].total
        if changed:
            positions = np.array(changed)
            known.rows[positions] = self._counted(kind, nodes.at(positions))
            known.total = int(known.rows.sum())
        known.version = table.version
        return known.total

    def _counted(self, kind: Kind, nodes: Nodes) -> Int64:
        return np.where(nodes.live, self._plugin.room_for(self._examples[kind], nodes), 0)
