"""Evicts a pod: it is gone at once, with what controllers then do to its device claims and budgets."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from bayplan.api.kinds import POD, POD_DISRUPTION_BUDGET, RESOURCE_CLAIM
from bayplan.api.labels import InvalidSelector
from bayplan.api.selectors import label_selector
from bayplan.cluster.pod_info import PodInfo
from bayplan.devices.claims import claim_names, is_made_for, is_reserved_for, reservations
from bayplan.simulation.world import World


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
    _release_claims(world, pod)
    world.change(POD, pod.key, None)


def _use_budgets(world: World, pod: PodInfo) -> None:
    for key, budget in list(world.state.objects[POD_DISRUPTION_BUDGET].items()):
        status = budget.status
        if status is not None and budget.metadata.namespace == pod.namespace and _selects(budget, pod):
            allowed = max((status.disruptionsAllowed or 0) - 1, 0)
            healthy = max((status.currentHealthy or 0) - 1, 0)
            changed = structs.replace(status, disruptionsAllowed=allowed, currentHealthy=healthy)
            world.change(POD_DISRUPTION_BUDGET, key, structs.replace(budget, status=changed))


def _selects(budget: Any, pod: PodInfo) -> bool:
    try:
        selector = label_selector(budget.spec.selector if budget.spec else None)
    except InvalidSelector:
        return False
    return selector is not None and bool(selector.requirements) and selector.matches(pod.labels)


def _release_claims(world: World, pod: PodInfo) -> None:
    """Delete the claims that were made for the pod; claims without any other user are deallocated."""
    store = world.state.objects[RESOURCE_CLAIM]
    if not store or not pod.spec.resourceClaims:
        return
    for name, _ in claim_names(pod.object):
        key = f"{pod.namespace}/{name}"
        claim = store.get(key)
        if claim is None or not is_reserved_for(claim, pod.uid):
            continue
        if is_made_for(claim, pod.uid):
            world.change(RESOURCE_CLAIM, key, None)
            continue
        left = [each for each in reservations(claim) if each.uid != pod.uid]
        allocation = claim.status.allocation if left else None
        status = structs.replace(claim.status, reservedFor=left or None, allocation=allocation)
        world.change(RESOURCE_CLAIM, key, structs.replace(claim, status=status))
