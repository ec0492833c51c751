"""The device claims that are reserved for a pod, and what happens to them when the pod is gone.

Mirrors the ResourceClaim controller and the garbage collector: a claim without users is deallocated, and one that was
made for the pod is deleted with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightkube.models.resource_v1 import ResourceClaim
from msgspec import structs

from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import is_made_for, is_reserved_for, key_of, made_claim_names, reservations
from bayplan.core.devices.extended_claims import ExtendedResourceClaims


def claims_of(world: World, pod: PodInfo) -> Iterator[ResourceClaim]:
    """Yield the claims that are reserved for a pod: those of its spec, and the one for its extended resources."""
    store = world.state.objects[RESOURCE_CLAIM]
    if not store:
        return
    extended = store.view(ExtendedResourceClaims).of(pod.uid)
    if extended is not None:
        yield extended
    for name in made_claim_names(pod.object):
        claim = store.get(f"{pod.namespace}/{name}")
        if claim is not None and is_reserved_for(claim, pod.uid):
            yield claim


def without(claim: ResourceClaim, pod: PodInfo) -> ResourceClaim:
    """Return a claim that is no longer reserved for a pod; without any other user, it is deallocated."""
    left = [each for each in reservations(claim) if each.uid != pod.uid]
    assert claim.status is not None
    allocation = claim.status.allocation if left else None
    status = structs.replace(claim.status, reservedFor=left or None, allocation=allocation)
    return structs.replace(claim, status=status)


def released(world: World, pod: PodInfo, *, gone: bool) -> Iterator[tuple[str, ResourceClaim | None]]:
    """Yield the keys of the claims of a pod that leaves its node, and each claim afterwards: None is deleted.

    `gone`: whether the pod itself is gone. Then the claims that were made for it are deleted; otherwise only the one
    for its extended resources: the scheduler makes another one. Mirrors the ResourceClaim controller and the
    garbage collector.
    """
    extended = world.state.objects[RESOURCE_CLAIM].view(ExtendedResourceClaims).of(pod.uid)
    for claim in list(claims_of(world, pod)):
        deleted = is_made_for(claim, pod.uid) if gone else claim is extended
        yield key_of(claim), None if deleted else without(claim, pod)


def release_claims(world: World, pod: PodInfo, *, gone: bool = True) -> None:
    """Free what a pod that leaves its node has reserved, as `released` says."""
    for key, claim in released(world, pod, gone=gone):
        world.change(RESOURCE_CLAIM, key, claim)
