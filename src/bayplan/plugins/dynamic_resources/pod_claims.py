"""The claims of a pod. Mirrors k8s.io/dynamic-resource-allocation/resourceclaim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimConsumerReference

from bayplan.cluster.pod_info import PodInfo


class NoClaim(Exception):
    """A claim that the pod needs is not there, or is not the pod's: the message says which and why."""


def claims_of(pod: PodInfo, claims: Mapping[str, ResourceClaim]) -> list[ResourceClaim]:
    """The claims that a pod refers to, in order. `claims` by `namespace/name`. Raises NoClaim."""
    found = []
    for name, generated in _names(pod):
        claim = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            raise NoClaim(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        metadata = claim.metadata
        if metadata is not None and metadata.deletionTimestamp is not None:
            raise NoClaim(f'resourceclaim "{name}" is being deleted')
        if generated and not _is_controlled_by(claim, pod):
            raise NoClaim(f"ResourceClaim {pod.namespace}/{name} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return found


def has_claims(pod: PodInfo) -> bool:
    """Whether a pod refers to any claims or templates of claims."""
    return bool(pod.spec.resourceClaims)


def reserved_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim is reserved for a pod."""
    return any(each.uid == pod.uid for each in reservations(claim))


def reservations(claim: ResourceClaim) -> list[ResourceClaimConsumerReference]:
    """For whom a claim is reserved."""
    return (claim.status.reservedFor if claim.status is not None else None) or []


def uid_of(claim: ResourceClaim) -> str:
    """A claim's UID."""
    return (claim.metadata.uid if claim.metadata is not None else None) or ""


def key_of(claim: ResourceClaim) -> str:
    """`namespace/name`."""
    metadata = claim.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata is not None else ""


def _names(pod: PodInfo) -> Iterator[tuple[str, bool]]:
    """Every claim's name, and whether it was made for the pod from a template."""
    whole: Pod = pod.object
    statuses = (whole.status.resourceClaimStatuses if whole.status is not None else None) or ()
    for reference in pod.spec.resourceClaims or ():
        if reference.resourceClaimName is not None:
            yield reference.resourceClaimName, False
        elif reference.resourceClaimTemplateName is not None:
            status = next((each for each in statuses if each.name == reference.name), None)
            if status is None:
                raise NoClaim(f'pod "{pod.key}": ResourceClaim not created yet')
            if status.resourceClaimName is not None:  # else there is to be none
                yield status.resourceClaimName, True
        else:
            problem = "none of the supported fields are set"
            raise NoClaim(f'pod "{pod.key}", spec.resourceClaim "{reference.name}": {problem}')


def _is_controlled_by(claim: ResourceClaim, pod: PodInfo) -> bool:
    owners = (claim.metadata.ownerReferences if claim.metadata is not None else None) or ()
    return any(owner.controller and owner.uid == pod.uid for owner in owners)
