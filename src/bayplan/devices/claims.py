"""ResourceClaims: their allocation, reservations and owner, and which claims a pod uses.

Mirrors k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lightkube.models.core_v1 import Pod, PodResourceClaim
from lightkube.models.resource_v1 import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Prevents the deletion of an allocated claim."""


class UnusableClaim(Exception):
    """A claim that a pod refers to is missing, or the pod cannot use it. The message is the reason."""


def key_of(obj: Pod | ResourceClaim) -> str:
    """The key of an object: `namespace/name`."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata is not None else ""


def uid_of(claim: ResourceClaim) -> str:
    """The UID, "" if the claim has none."""
    return (claim.metadata.uid if claim.metadata is not None else None) or ""


def allocation_of(claim: ResourceClaim) -> AllocationResult | None:
    """The allocation in the claim's status."""
    return claim.status.allocation if claim.status is not None else None


def results_of(allocation: AllocationResult | None) -> Iterable[DeviceRequestAllocationResult]:
    """The devices of an allocation."""
    if allocation is None or allocation.devices is None:
        return ()
    return allocation.devices.results or ()


def reservations(claim: ResourceClaim) -> list[ResourceClaimConsumerReference]:
    """The consumers in the claim's `reservedFor`."""
    return (claim.status.reservedFor if claim.status is not None else None) or []


def is_reserved_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Whether the claim is reserved for a pod."""
    return any(consumer.uid == pod_uid for consumer in reservations(claim))


def is_made_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Whether the pod is the claim's controlling owner."""
    owners = (claim.metadata.ownerReferences if claim.metadata is not None else None) or ()
    return any(owner.controller and owner.uid == pod_uid for owner in owners)


def not_made_for(claim: ResourceClaim, pod_key: str) -> str:
    """The message for a generated claim with another owner than the pod."""
    return f"ResourceClaim {key_of(claim)} was not created for Pod {pod_key} (Pod is not owner)"


def claim_name(pod: Pod, reference: PodResourceClaim) -> str | None:
    """The name of the claim that an item of `spec.resourceClaims` refers to; None if the pod needs no claim for it.

    Raises UnusableClaim if the claim has not been created from its template yet.
    """
    if reference.resourceClaimName is not None:
        return reference.resourceClaimName
    if reference.resourceClaimTemplateName is None:
        problem = "none of the supported fields are set"
        raise UnusableClaim(f'pod "{key_of(pod)}", spec.resourceClaim "{reference.name}": {problem}')
    for status in (pod.status.resourceClaimStatuses if pod.status is not None else None) or ():
        if status.name == reference.name:
            return status.resourceClaimName
    raise UnusableClaim(f'pod "{key_of(pod)}": ResourceClaim not created yet')


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The names of the claims that a pod uses, and whether each was generated from a template. Raises UnusableClaim."""
    for reference in (pod.spec.resourceClaims if pod.spec is not None else None) or ():
        name = claim_name(pod, reference)
        if name is not None:
            yield name, reference.resourceClaimName is None
