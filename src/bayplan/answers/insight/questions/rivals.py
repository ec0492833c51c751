"""Which other pending pod could take the room that a change makes: a change that helps is tried for its pod alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from bayplan.answers.insight.answers import Progress, Stopped
from bayplan.answers.insight.questions.change import Help, make
from bayplan.answers.insight.questions.claim_templates import make_claims
from bayplan.answers.insight.questions.new_objects import bind_claims
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import PluginError

_SORTS = 5
"""The most sorts of equal pending pods that are tried, those that the queue has first."""


def tried_alone(world: World, pod: PodInfo, helps: Sequence[Help], progress: Progress) -> str:
    """Return a sentence with a pending pod that keeps a pod pending if it is placed first after one of the helps.

    "" if there is none among the first ones of the queue, or if `progress` raises Stopped.
    """
    if not helps:
        return ""
    others = list(islice(_first_of_each_sort(world, pod), _SORTS))
    try:
        for number, (each, other) in enumerate((each, other) for each in helps for other in others):
            progress(f"{number} trials of whether another pod could take the room")
            if _takes_the_room(world, pod, each, other):
                return f"tried for this pod alone: {other.key} could take the room first"
    except Stopped:
        return ""
    return ""


def _first_of_each_sort(world: World, pod: PodInfo) -> Iterator[PodInfo]:
    """The pending pods of other units that the scheduler tries, one of those that are decided alike."""
    own = {pod.key} | {each.key for each in _members(world, pod)}
    seen = set()
    for other in world.in_queue_order(world.pending.values()):
        if other.key in own or other.terminating or world.gate_of(other) is not None:
            continue
        sort = world.sharing_key(other) or other.key
        if sort not in seen:
            seen.add(sort)
            yield other


def _members(world: World, pod: PodInfo) -> Sequence[PodInfo]:
    try:
        return list(world.unit_of(pod).pending)
    except PluginError:  # the plugin that knows the gang fails
        return ()


def _takes_the_room(world: World, pod: PodInfo, found: Help, other: PodInfo) -> bool:
    """Whether a pod is placed with a change, and the one that it is for isn't then."""
    with world.trial():
        make(world, found.change)
        bind_claims(world, pod)
        make_claims(world, pod.key, found.change.apply)
        rival = world.pending.get(other.key)
        result = None if rival is None else Simulation(world, preempt=False).outcome(rival).get(other.key)
        if result is None or result.node is None:
            return False
        left = world.pending.get(pod.key)
        result = None if left is None else Simulation(world).outcome(left).get(pod.key)
        return result is None or result.node is None
