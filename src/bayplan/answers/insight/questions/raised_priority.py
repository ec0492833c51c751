"""Whether a pending pod would preempt if it had another priority class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bayplan.answers.insight.answers import Progress
from bayplan.answers.insight.questions.change import Confirm, Help, make
from bayplan.answers.insight.questions.changes import combined, evicted
from bayplan.answers.insight.questions.new_objects import bind_claims
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import PRIORITY_CLASS
from bayplan.core.api.objects import decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Edit, Remedy, may_make_room

_TRIED = 5
"""The most classes to try."""
_SYSTEM = "system-"
"""Classes with this prefix are for pods of kube-system."""


def priorities_of(snapshot: Snapshot) -> dict[str, int]:
    """Return the priorities of a snapshot's priority classes, by name."""
    known = snapshot.of_kind(PRIORITY_CLASS)
    return {name: decode(PRIORITY_CLASS.type, raw).value or 0 for name, raw in known.items()}


def higher_classes(classes: Mapping[str, int], priority: int) -> list[str]:
    """Return the names of the classes above a priority, the lowest first, without those of the system."""
    higher = [name for name, value in classes.items() if value > priority and not name.startswith(_SYSTEM)]
    return sorted(higher, key=lambda each: (classes[each], each))


def with_class(name: str, priority: int) -> Edit:
    """Return what gives the manifest of a pod a priority class."""
    return partial(_give, name, priority)


def with_higher_priority(
    world: World, pod: PodInfo, progress: Progress, *, classes: Mapping[str, int], confirm: Confirm
) -> Help | None:
    """Return the lowest class with which a pod would preempt, and what that costs; None if there is none.

    `classes`: the priorities of the priority classes. A pod that would evict replicas of its own workload, or pods of a
    DaemonSet, isn't helped. Raises Stopped.
    """
    for name in higher_classes(classes, pod.priority)[:_TRIED]:
        progress(f"trying the priority class {name}")
        remedy = Remedy(f"give the pod the priority class {name}", pod=with_class(name, classes[name]))
        change = combined(pod, None, [remedy])
        with world.trial():
            make(world, change)
            bind_claims(world, pod)
            raised = world.pending.get(pod.key)
            result = None if raised is None else Simulation(world).outcome(raised).get(pod.key)
        if raised is None or result is None or result.node is None or result.fate is not Fate.PREEMPTS:
            continue
        if all(may_make_room(raised, victim) for victim in result.victims):
            victims = tuple(victim.key for victim in result.victims)
            helping = Help(replace(change, cost=evicted(victims)), result.node, victims)
            return confirm(world, pod, helping, progress)
    return None


def _give(name: str, priority: int, document: dict[str, Any]) -> None:
    document["spec"] |= {"priorityClassName": name, "priority": priority}
