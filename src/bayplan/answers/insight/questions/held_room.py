"""Room that is held for provisioning requests, and so is in the way of other pods."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.answers.insight.answers import plural
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.api.provisioning import MARK, consumed_by, request_of
from bayplan.core.cluster.pod_info import PodInfo

_SHOWN = 3


def held_room_notes(world: World, pod: PodInfo) -> Iterator[str]:
    """Yield for which requests room is held, those with the most places first."""
    store = world.state.objects[POD]
    nodes: dict[str, list[str]] = {}
    for key in [key for key in store if MARK in key]:
        place: PodInfo = store[key]
        nodes.setdefault(request_of(place), []).append(place.node_name)
    named = consumed_by(pod.annotations)
    own = f"{pod.namespace}/{named}" if named else ""
    if own in nodes:
        yield f"room for {plural(len(nodes.pop(own)), 'more pod')} is held for its provisioningrequest {own}"
    found = sorted(nodes, key=lambda key: (-len(nodes[key]), key))
    for key in found[:_SHOWN]:
        where = plural(len(set(nodes[key])), "node")
        yield f"room for {plural(len(nodes[key]), 'pod')} is held for provisioningrequest {key} on {where}"
    if len(found) > _SHOWN:
        yield f"room is held for {len(found) - _SHOWN} more provisioningrequests"
