"""Evicts a pod: it is gone at once, with what controllers then do to its device claims and budgets.

In `bayplan.answers.simulation.timeline`, evicted pods terminate over time instead. Whether an owner replaces the pod is
the caller's business.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from bayplan.answers.simulation.claims import release_claims
from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD, POD_DISRUPTION_BUDGET
from bayplan.core.api.objects import encode
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.pod_info import PodInfo


def evict(world: World, pod: PodInfo) -> None:
    """Remove a pod from a world, with its reservations of devices; the budgets that select it allow one eviction less.

    A pod that is gone already is ignored. Mirrors the ResourceClaim controller and the disruption controller.
    """
    if world.pod(pod.key) is None:
        return
    if pod.node_name and not pod.terminating:
        _use_budgets(world, pod)
    remove(world, pod)


def remove(world: World, pod: PodInfo) -> None:
    """Remove a pod from a world, with its reservations of devices, as its controller does. Budgets don't matter."""
    release_claims(world, pod)
    world.change(POD, pod.key, None)


def budgets_of(world: World, pod: PodInfo) -> list[tuple[str, Any]]:
    """Return the disruption budgets that select a pod, by `namespace/name`.

    An empty selector selects all pods, as for the disruption controller and the eviction subresource. In preemptions,
    it selects none.
    """
    return [
        (key, budget)
        for key, budget in world.state.objects[POD_DISRUPTION_BUDGET].items()
        if budget.metadata.namespace == pod.namespace
        and selector_or_nothing(budget.spec.selector if budget.spec else None).matches(pod.labels)
    ]


def _use_budgets(world: World, pod: PodInfo) -> None:
    for key, budget in budgets_of(world, pod):
        status = budget.status
        if status is not None:
            allowed = max((status.disruptionsAllowed or 0) - 1, 0)
            healthy = max((status.currentHealthy or 0) - 1, 0)
            changed = structs.replace(status, disruptionsAllowed=allowed, currentHealthy=healthy)
            world.change(POD_DISRUPTION_BUDGET, key, structs.replace(budget, status=changed))


def terminating(pod: PodInfo, moment: datetime, why: DepartureReason) -> PodInfo:
    """Return a pod that is being deleted. The condition of a victim keeps its preemptor from preempting again."""
    document: dict[str, Any] = msgspec.json.decode(pod.raw)
    document["metadata"]["deletionTimestamp"] = rfc3339(moment)
    if why is DepartureReason.PREEMPTED:
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        document["status"] = {**(document.get("status") or {}), "conditions": [condition]}
    leaving = PodInfo.from_raw(encode(document))
    leaving.started = pod.started
    return leaving
