"""LastingRejections: hints that know the state, so that pods which would be rejected again aren't attempted.

A hint judges an event by what it is about: a pod that leaves any node may help every pod that lacks room. Here, the
plugin that rejected a pod is asked about the node that the event has changed. If it rejects the pod there still, all
other nodes do so as before (`Alike.by_node`), and no pod can be evicted for it, the rejection lasts.

A further rejection has an effect where it counts for the pod's backoff. So these hints are only for queues whose pods
keep their order (`RetryTimes.keeps_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.answers.simulation.world import World
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.capabilities import HelpedOnNode, RejectsAgain
from bayplan.core.framework.events import ClusterEvent, Hint, HintFunction
from bayplan.core.framework.interface import CycleState, Filter, PreFilter
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.queue import QueuedPod


class LastingRejections:
    """Asks the hints of a world's plugins. `ask` is an `AskHint`; asked again, it judges by the new state."""

    def __init__(self, world: World) -> None:
        self._state = world.state
        self._profiles = {name: _Rejecting.of(profile) for name, profile in world.profiles.items()}

    def ask(
        self, hint: HintFunction, plugin: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object
    ) -> object:
        """Return what the hint returns, but SKIP where the pod would certainly be rejected again."""
        answer = hint(queued.pod, old, new)
        return Hint.SKIP if answer is Hint.QUEUE and self._lasts(plugin, queued, event, old, new) else answer

    def _lasts(self, name: str, queued: QueuedPod, event: ClusterEvent, old: object, new: object) -> bool:
        pod, profile = queued.pod, self._profiles[queued.pod.scheduler_name]
        plugin = profile.helped_on_node.get(name)
        if plugin is None or queued.alike is None or not queued.alike.by_node:
            return False
        node = plugin.helped_on(event, old, new)
        nodes = self._state.nodes
        position = None if node is None else nodes.position(node)
        return position is not None and _rejects(plugin, pod, nodes, position) and not profile.may_make_room(pod)


@dataclass(frozen=True)
class _Rejecting:
    """How the plugins of a profile reject pods.

    `helped_on_node`: by name, the plugins that are asked again. `post_filters`: None if one doesn't tell whether it may
    make room.
    """

    helped_on_node: dict[str, Any]
    post_filters: Sequence[Any] | None

    @classmethod
    def of(cls, profile: Profile) -> _Rejecting:
        """Find the plugins of a profile."""
        asked = HelpedOnNode, PreFilter, Filter
        helped = {each.name: each for each in profile.every() if all(implements(each, form) for form in asked)}
        post_filters = profile.at(Point.POST_FILTER)
        return cls(helped, post_filters if all(implements(each, RejectsAgain) for each in post_filters) else None)

    def may_make_room(self, pod: PodInfo) -> bool:
        """Return whether pods may be evicted, or something else be done, so that a pod can be placed."""
        return self.post_filters is None or any(each.may_make_room(pod) for each in self.post_filters)


def _rejects(plugin: Any, pod: PodInfo, nodes: Nodes, position: int) -> bool:
    """Whether a plugin rejects a pod on a node, as nodes are now."""
    cycle = pod.cache.get(key := (__name__, plugin))
    if cycle is None:
        cycle = CycleState()
        plugin.pre_filter(cycle, pod, nodes)
        pod.cache[key] = cycle
    return plugin.filter(cycle, pod, nodes.info(position)) is not None
