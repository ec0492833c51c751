"""ResourceClaims: their allocation, reservations and owner, and which claims a pod uses.

Mirrors k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lightkube.models.core_v1 import Pod, PodResourceClaim
from lightkube.models.meta_v1 import OwnerReference
from lightkube.models.resource_v1 import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Prevents the deletion of an allocated claim."""
SCHEDULING_GROUP = "scheduling.k8s.io"
"""The API group of PodGroups."""
POD_GROUP_RESOURCE = "podgroups"


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


def group_of(pod: Pod) -> str:
    """The name of the PodGroup that a pod is in, "" if it is in none."""
    group = pod.spec.schedulingGroup if pod.spec is not None else None
    return (group.podGroupName if group is not None else None) or ""


def is_reserved_for(claim: ResourceClaim, uid: str, group: str = "") -> bool:
    """Whether the claim is reserved for the pod with this UID, or for the PodGroup with the name `group`.

    Pods don't know the UID of their group.
    """
    return any(
        consumer.uid == uid or (bool(group) and _is_group(consumer) and consumer.name == group)
        for consumer in reservations(claim)
    )


def _is_group(consumer: ResourceClaimConsumerReference) -> bool:
    return consumer.apiGroup == SCHEDULING_GROUP and consumer.resource == POD_GROUP_RESOURCE


def is_made_for(claim: ResourceClaim, uid: str, group: str = "") -> bool:
    """Whether the claim's controlling owner has this UID, or is the PodGroup with the name `group`."""
    owners = (claim.metadata.ownerReferences if claim.metadata is not None else None) or ()
    return any(
        owner.controller and (owner.uid == uid or (bool(group) and is_pod_group(owner) and owner.name == group))
        for owner in owners
    )


def is_pod_group(owner: OwnerReference) -> bool:
    """Whether an owner is a PodGroup, of any version."""
    return owner.kind == "PodGroup" and owner.apiVersion.startswith(f"{SCHEDULING_GROUP}/")


def not_made_for(claim: ResourceClaim, pod_key: str, group: str = "") -> str:
    """The message for a generated claim with another owner than the pod, or its PodGroup with the name `group`."""
    why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    return f"ResourceClaim {key_of(claim)} was not created for Pod {pod_key} ({why})"


def is_of_group(reference: Any, of_group: Iterable[Any]) -> bool:
    """Whether a pod's reference is to a claim of its PodGroup, whose references are given: one is the same."""
    return any(_fields(each) == _fields(reference) for each in of_group)


def _fields(reference: Any) -> tuple[str, str | None, str | None]:
    return reference.name, reference.resourceClaimName, reference.resourceClaimTemplateName


def group_reservation(name: str, uid: str) -> ResourceClaimConsumerReference:
    """The reservation of a claim for a whole PodGroup."""
    return ResourceClaimConsumerReference(apiGroup=SCHEDULING_GROUP, resource=POD_GROUP_RESOURCE, name=name, uid=uid)


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


def made_claim_names(pod: Pod) -> Iterator[str]:
    """The names of the claims that a pod uses, without those that have not been made from their templates yet."""
    for reference in (pod.spec.resourceClaims if pod.spec is not None else None) or ():
        try:
            name = claim_name(pod, reference)
        except UnusableClaim:
            continue
        if name is not None:
            yield name


def claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The names of the claims that a pod uses, and whether each was generated from a template. Raises UnusableClaim."""
    for reference in (pod.spec.resourceClaims if pod.spec is not None else None) or ():
        name = claim_name(pod, reference)
        if name is not None:
            yield name, reference.resourceClaimName is None
