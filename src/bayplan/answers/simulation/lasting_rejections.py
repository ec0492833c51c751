"""LastingRejections: hints that know the state, so that pods which would be rejected again aren't attempted.

A hint judges an event by what it is about: a pod that leaves any node may help every pod that lacks room. Here, the
plugin that rejected a pod is asked about the node that the event has changed. If it rejects the pod there still, all
other nodes do so as before, and no pod can be evicted for it, the rejection lasts.

A further rejection has an effect where it counts for the pod's backoff. So these hints are only for queues whose pods
keep their order (`RetryTimes.keeps_order`).
"""

from __future__ import annotations

from typing import Any

from bayplan.answers.simulation.world import World
from bayplan.core.framework.capabilities import HelpedOnNode, MakesRoom
from bayplan.core.framework.events import ClusterEvent, Hint, HintFunction
from bayplan.core.framework.interface import CycleState, Filter, PreFilter, RestsOn, Sign
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.queue import QueuedPod


class LastingRejections:
    """Asks the hints of a world's plugins. `ask` is an `AskHint`; asked again, it judges by the new state.

    No event tells that room is free which was kept for a nominated pod. So it begins after the first event without such
    room, which lets all pods be attempted once more.
    """

    def __init__(self, world: World) -> None:
        self._state = world.state
        self._profiles = {name: _Rejecting(profile) for name, profile in world.profiles.items()}
        self._version = world.state.nominations.version
        self._first: object = None
        """What the first event after the last change of nominations was about."""

    def ask(
        self, hint: HintFunction, plugin: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object
    ) -> object:
        """Return what the hint returns, but SKIP where the pod would certainly be rejected again."""
        answer = hint(queued.pod, old, new)
        return Hint.SKIP if answer is Hint.QUEUE and self._lasts(plugin, queued, event, old, new) else answer

    def _lasts(self, name: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object) -> bool:
        pod, profile, nodes = queued.pod, self._profiles[queued.pod.scheduler_name], self._state.nodes
        plugin = profile.helped_on_node.get(name)
        if plugin is None or queued.alike is None or not queued.unschedulable_plugins <= profile.by_node:
            return False
        node = plugin.helped_on(event, old, new)
        position = None if node is None else nodes.position(node)
        if position is None or self._rests_on_nominations(old):
            return False
        cycle = pod.cache.get(key := (__name__, plugin))
        if cycle is None:
            cycle = CycleState()
            plugin.pre_filter(cycle, pod, nodes)
            pod.cache[key] = cycle
        if plugin.filter(cycle, pod, nodes.info(position)) is None:
            return False
        return profile.making_room is not None and not any(each.may_make_room(pod) for each in profile.making_room)

    def _rests_on_nominations(self, old: object) -> bool:
        """Whether pods may have been rejected because room was kept for a nominated one."""
        nominations = self._state.nominations
        if nominations.nodes or nominations.version != self._version:
            self._version, self._first = nominations.version, old
        return old is self._first


class _Rejecting:
    """How the plugins of a profile reject pods.

    `helped_on_node`: by name, the plugins that are asked again. `by_node`: the plugins whose verdict on a node depends
    on the pod, that node and its pods only. `making_room`: the PostFilter plugins; None if one doesn't tell whether it
    may make room.
    """

    def __init__(self, profile: Profile) -> None:
        plugins = list(profile.every())
        asked = HelpedOnNode, PreFilter, Filter
        self.helped_on_node = {each.name: each for each in plugins if all(implements(each, form) for form in asked)}
        apart = {each.name for each in plugins if implements(each, Sign) and not implements(each, RestsOn)}
        self.by_node = frozenset(apart | self.helped_on_node.keys())
        post_filters: list[Any] = list(profile.at(Point.POST_FILTER))
        self.making_room = post_filters if all(implements(each, MakesRoom) for each in post_filters) else None
