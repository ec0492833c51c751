"""Which other pending pods could take the room that a change makes: a change that helps is tried for its pod alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from bayplan.answers.insight.answers import Progress, Stopped, listed, plural
from bayplan.answers.insight.questions.change import Help, make
from bayplan.answers.insight.questions.claim_templates import make_claims
from bayplan.answers.insight.questions.new_objects import bind_claims
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import PluginError

_TRIED = 50
"""The most other pods that are tried, those that the queue has first."""


def tried_alone(world: World, pod: PodInfo, helps: Sequence[Help], progress: Progress) -> str:
    """Return a sentence with the pods that keep a pod pending if they are placed first after one of the helps.

    "" if there are none among the first ones of the queue, or if `progress` raises Stopped.
    """
    others = list(islice(_others(world, pod), _TRIED)) if helps else []
    if not others:
        return ""
    try:
        for number, each in enumerate(helps):
            progress(f"{plural(number, 'change')} tried with other pending pods")
            taking = _taking_the_room(world, pod, each, others)
            if taking:
                return f"tried for this pod alone: {listed(taking, 2)} could take the room first"
    except Stopped:
        return ""
    return ""


def _others(world: World, pod: PodInfo) -> Iterator[PodInfo]:
    """The pending pods of other units that the scheduler tries, in the order of the queue."""
    own = {pod.key, *(each.key for each in _members(world, pod))}
    for other in world.in_queue_order(world.pending.values()):
        if other.key not in own and not other.terminating and world.gate_of(other) is None:
            yield other


def _members(world: World, pod: PodInfo) -> Sequence[PodInfo]:
    try:
        return list(world.unit_of(pod).pending)
    except PluginError:  # the plugin that knows the gang fails
        return ()


def _taking_the_room(world: World, pod: PodInfo, found: Help, others: Sequence[PodInfo]) -> list[str]:
    """The pods that are placed with a change, if the one that it is for isn't then: those on its node, or all.

    A change of the pod's manifest is one of its workload, whose other pods were tried with it.
    """
    workload = workload_of(pod) if found.change.edits else ""
    others = [each for each in others if not workload or workload_of(each) != workload]
    with world.trial():
        make(world, found.change)
        bind_claims(world, pod)
        make_claims(world, pod.key, found.change.apply)
        first = [known for each in others if (known := world.pending.get(each.key)) is not None]
        results = Simulation(world, preempt=False).schedule(first)
        nodes = {each.key: results[each.key].node for each in first if each.key in results}
        left = world.pending.get(pod.key)
        result = None if left is None else Simulation(world).outcome(left).get(pod.key)
        if result is not None and result.node is not None:
            return []
    placed = [key for key, node in nodes.items() if node]
    return [key for key in placed if nodes[key] == found.node] or placed
