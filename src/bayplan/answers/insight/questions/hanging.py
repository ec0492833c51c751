"""Pods that hang while they terminate: their grace period is over, but they are there and keep their room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.pod_info import PodInfo

_SLACK = timedelta(minutes=1)
"""How long a kubelet may take to report that a pod has ended."""
_NODES = 10
"""The most nodes on which pods are deleted, each on its own."""


def hanging_by_node(world: World) -> Mapping[str, list[PodInfo]]:
    """Return the pods that should have ended before now, by node: those with the most of them first."""
    pods = world.state.objects[POD].values()
    found = grouped((pod.node_name, pod) for pod in pods if pod.terminating and pod.node_name and _hangs(world, pod))
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def force_deletions(world: World, nodes: Collection[str] | None = None) -> Iterator[Change]:
    """Yield the force deletion of the pods that hang on each node. `nodes`: only on these."""
    hanging = [item for item in hanging_by_node(world).items() if nodes is None or item[0] in nodes]
    for node, pods in hanging[:_NODES]:
        yield _force_deletion(pods, f" on {node}")


def all_force_deleted(world: World) -> Change | None:
    """Return the force deletion of all pods that hang; None if none does."""
    by_node = hanging_by_node(world)
    pods = [pod for each in by_node.values() for pod in each]
    if not pods:
        return None
    return _force_deletion(pods, f" on {next(iter(by_node)) if len(by_node) == 1 else plural(len(by_node), 'node')}")


def _force_deletion(pods: Collection[PodInfo], where: str) -> Change:
    keys = tuple(sorted(pod.key for pod in pods))
    since = min(end for pod in pods if (end := _end(pod)) is not None)
    what = f"pod {keys[0]}" if len(keys) == 1 else f"{plural(len(keys), 'pod')} ({listed(keys, 3)})"
    hangs = "hangs" if len(keys) == 1 else "hang"
    text = f"force-delete {what}{where}, which {hangs}: its grace period ended at {rfc3339(since)}"
    if len(keys) > 1:
        text = text.replace("its grace period ended at", "the first grace period ended at")
    return Change(text, delete=keys, parts=frozenset(keys), forced=True)


def _hangs(world: World, pod: PodInfo) -> bool:
    end = _end(pod)
    return end is not None and world.handle.now() > end + _SLACK


def _end(pod: PodInfo) -> datetime | None:
    """When the grace period of a pod that is being deleted ends: the API server adds it to the time of the deletion."""
    return pod.metadata.deletionTimestamp
