"""The ResourceClaims of a pod, and whether it may use them. Mirrors k8s.io/dynamic-resource-allocation/resourceclaim.

For controllers and kubelets. It shares no code with the scheduler, so that they detect the scheduler's mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.devcluster.controllers import pods
from bayplan.devcluster.controllers.ownership import controller_of
from bayplan.devcluster.controllers.served import Pod, ResourceClaim


class NotCreatedYet(Exception):
    """A claim from a template doesn't exist yet; the message names the pod."""


def claim_name(pod: Pod, reference: Any) -> str | None:
    """The name of the claim for an entry of `spec.resourceClaims`; None for no claim. Raises NotCreatedYet."""
    if reference.resourceClaimName is not None:
        return str(reference.resourceClaimName)
    for status in (pod.status.resourceClaimStatuses if pod.status else None) or ():
        if status.name == reference.name:
            name: str | None = status.resourceClaimName
            return name
    raise NotCreatedYet(f'pod "{pod.metadata.namespace}/{pod.metadata.name}": ResourceClaim not created yet')


def extended_claim_name(pod: Pod) -> str | None:
    """The name of the claim that the scheduler created for the pod's extended resources, if any."""
    status = pod.status.extendedResourceClaimStatus if pod.status else None
    return status.resourceClaimName if status is not None else None


def known_claims(pod: Pod) -> Iterator[str]:
    """The keys of the pod's existing claims, without the one for extended resources."""
    for reference in pod.spec.resourceClaims or ():
        try:
            name = claim_name(pod, reference)
        except NotCreatedYet:
            continue
        if name is not None:
            yield f"{pod.metadata.namespace}/{name}"


def template_keys(pod: Pod) -> Iterator[str]:
    """The keys of the templates of the pod's claims."""
    for reference in pod.spec.resourceClaims or ():
        if reference.resourceClaimTemplateName is not None:
            yield f"{pod.metadata.namespace}/{reference.resourceClaimTemplateName}"


def reservations(claim: ResourceClaim) -> Sequence[Any]:
    """The consumers that a claim is reserved for."""
    return (claim.status.reservedFor if claim.status else None) or ()


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod may use the claim."""
    return any(consumer.uid == pod.metadata.uid for consumer in reservations(claim))


def is_allocated(claim: ResourceClaim) -> bool:
    """Whether the claim is allocated."""
    return claim.status is not None and claim.status.allocation is not None


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was created for the pod."""
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


def not_made_for(claim: ResourceClaim, pod: Pod) -> str:
    """The error message for a claim that was created for another pod."""
    names = [f"{one.metadata.namespace}/{one.metadata.name}" for one in (claim, pod)]
    return f"ResourceClaim {names[0]} was not created for Pod {names[1]} (Pod is not owner)"


def is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or will run."""
    return pods.is_finished(pod) or (pods.is_terminating(pod) and not pod.spec.nodeName)
