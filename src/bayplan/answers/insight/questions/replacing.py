"""Placing everything anew: pods give up their nodes, as if all of them were created at once."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.drain_rules import is_mirror
from bayplan.answers.simulation.claims import release_claims
from bayplan.answers.simulation.owners import references_of, workload_of
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo


def replace_all(world: World) -> None:
    """Take the pods of a world from their nodes. They are pending then, and keep their volumes.

    Pods of DaemonSets, static pods, pods that are being deleted and those of other schedulers stay.
    """
    for key, pod in list(world.state.objects[POD].items()):
        if pod.node_name and pod.scheduler_name in world.profiles and not (pod.terminating or stays(pod)):
            release_claims(world, pod, gone=False)
            world.change(POD, key, pending_copy(pod))


def by_workload_in_turn(world: World, pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort pods as the queue does, but each workload of a priority after the other.

    So they come if their workloads are created again, and most pods are like the one before, which is decided faster.
    """
    turns: dict[str, int] = {}
    queue = world.in_queue_order(pods)
    turn = [turns.setdefault(workload_of(pod) or pod.key, len(turns)) for pod in queue]
    order = sorted(range(len(queue)), key=lambda number: (-queue[number].priority, turn[number]))
    return [queue[number] for number in order]


def stays(pod: PodInfo) -> bool:
    """Return whether a pod belongs to its node: those of DaemonSets, and static ones."""
    return any(owner.kind == "DaemonSet" for owner in references_of(pod)) or is_mirror(pod)
