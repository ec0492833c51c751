"""Whether the rollout of a Deployment would go on if an old pod went before each new one comes."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.answers.insight.answers import Progress, plural
from bayplan.answers.insight.owners import owned_by
from bayplan.answers.insight.questions.change import Change, Help
from bayplan.answers.simulation.evictions import remove
from bayplan.answers.simulation.owners import owners_of, references_of
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DEPLOYMENT, POD
from bayplan.core.api.objects import UndecodableObject, convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion import rollout
from bayplan.core.expansion.scale_down import scale_down_order

_MOST = 200
"""The most replicas of a Deployment that is tried."""


def without_surge(world: World, pod: PodInfo, progress: Progress, *, snapshot: Snapshot) -> Help | None:
    """Try a rolling update without surge for a pending pod of a Deployment, which has old pods.

    Returns None where old pods may go first anyway, or if that helps no pod. Raises Stopped.
    """
    found = _deployment_of(snapshot, pod)
    if found is None:
        return None
    document, deployment = found
    name, wanted = document["metadata"]["name"], rollout.wanted(deployment)
    least = wanted - rollout.max_unavailable(deployment)
    owned = owned_by(snapshot, world.state.objects[POD], DEPLOYMENT, pod.namespace, name)
    own = _controller(pod)
    old = [each for each in owned if _controller(each) != own and each.node_name and not each.terminating]
    new = [each for each in owned if _controller(each) == own and not each.terminating]
    running = len(old) + sum(bool(each.node_name) for each in new)
    if not old or wanted > _MOST or not rollout.is_rolling_update(deployment):
        return None
    if running > least or running < wanted or rollout.max_surge(deployment) == 0:  # the controller lets one go anyway
        return None
    progress(f"trying deployment {name} without surge")
    text = f"set maxSurge to 0 and maxUnavailable to 1 in deployment {pod.namespace}/{name}"
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    changed = {**document, "spec": {**document["spec"], "strategy": strategy}}
    nodes, placed = _rolled_out(world, pod, old, new, wanted)
    if pod.key not in nodes:
        return None
    cost = "an old pod goes before each new one comes"
    if placed < wanted:
        cost += f"; the rollout gets stuck: {placed} of {plural(wanted, 'new pod')} run then"
    return Help(Change(text, (changed,), parts=frozenset({text}), cost=cost), nodes[pod.key], lasts=placed >= wanted)


def _rolled_out(
    world: World, pod: PodInfo, old: list[PodInfo], new: list[PodInfo], wanted: int
) -> tuple[dict[str, str], int]:
    """The nodes of the new pods after the rollout, and how many of them run."""
    nodes = {each.key: each.node_name for each in new if each.node_name}
    waiting = [each.key for each in new if not each.node_name]
    objects = [each.object for each in old]
    leaving = [f"{pod.namespace}/{each.metadata.name}" for each in scale_down_order(objects, objects)]
    copies = iter([f"{pod.name}-bayplan-{number}" for number in range(wanted - len(new))])
    with world.trial():
        while leaving and len(nodes) < wanted:
            gone = world.pod(leaving.pop(0))
            if gone is not None:
                remove(world, gone)
            if not waiting:
                copy = next(copies, None)
                if copy is None:
                    break
                waiting.append(_add_copy(world, pod, copy))
            pending = [found for key in waiting if (found := world.pending.get(key)) is not None]
            results = Simulation(world, preempt=False).schedule(pending)
            placed = {key: result.node for key, result in results.items() if result.node}
            if not placed:
                break
            nodes |= placed
            waiting = [key for key in waiting if key not in placed]
    return nodes, len(nodes)


def _add_copy(world: World, pod: PodInfo, name: str) -> str:
    document = msgspec.json.decode(pod.raw)
    document["metadata"] = {**document["metadata"], "name": name, "uid": f"uid-of-{name}"}
    copy = PodInfo.from_raw(encode(document))
    world.change(POD, copy.key, copy)
    return copy.key


def _deployment_of(snapshot: Snapshot, pod: PodInfo) -> tuple[dict[str, Any], Any] | None:
    name = next((name for kind, name in owners_of(pod) if kind == DEPLOYMENT.kind), "")
    document = snapshot.document(DEPLOYMENT, f"{pod.namespace}/{name}") if name else None
    try:
        return None if document is None else (document, convert(DEPLOYMENT.type, document))
    except UndecodableObject:
        return None


def _controller(pod: PodInfo) -> str:
    return next((each.uid for each in references_of(pod) if each.controller), "")
