"""Which ResourceClaims a pod uses, and whether it may. Mirrors k8s.io/dynamic-resource-allocation/resourceclaim.

Written for controllers and kubelets, and not borrowed from the scheduler, whose mistakes they are there to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.devcluster.controllers import pods
from bayplan.devcluster.controllers.ownership import controller_of
from bayplan.devcluster.controllers.served import Pod, ResourceClaim


class NotCreatedYet(Exception):
    """A claim is still to be made of a template: the message says for which pod."""


def claim_name(pod: Pod, reference: Any) -> str | None:
    """The claim that one of `spec.resourceClaims` means; None where there is to be none. Raises NotCreatedYet."""
    if reference.resourceClaimName is not None:
        return str(reference.resourceClaimName)
    for status in (pod.status.resourceClaimStatuses if pod.status else None) or ():
        if status.name == reference.name:
            name: str | None = status.resourceClaimName
            return name
    raise NotCreatedYet(f'pod "{pod.metadata.namespace}/{pod.metadata.name}": ResourceClaim not created yet')


def extended_claim_name(pod: Pod) -> str | None:
    """The claim that the scheduler has made for the pod's extended resources."""
    status = pod.status.extendedResourceClaimStatus if pod.status else None
    return status.resourceClaimName if status is not None else None


def known_claims(pod: Pod) -> Iterator[str]:
    """Keys of the claims that the pod refers to and that have been made, but for that of extended resources."""
    for reference in pod.spec.resourceClaims or ():
        try:
            name = claim_name(pod, reference)
        except NotCreatedYet:
            continue
        if name is not None:
            yield f"{pod.metadata.namespace}/{name}"


def template_keys(pod: Pod) -> Iterator[str]:
    """Keys of the templates that the pod's claims are made of."""
    for reference in pod.spec.resourceClaims or ():
        if reference.resourceClaimTemplateName is not None:
            yield f"{pod.metadata.namespace}/{reference.resourceClaimTemplateName}"


def reservations(claim: ResourceClaim) -> Sequence[Any]:
    """For whom a claim is reserved."""
    return (claim.status.reservedFor if claim.status else None) or ()


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod may use the claim."""
    return any(consumer.uid == pod.metadata.uid for consumer in reservations(claim))


def is_allocated(claim: ResourceClaim) -> bool:
    """Whether the claim has devices."""
    return claim.status is not None and claim.status.allocation is not None


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for the pod."""
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


def not_made_for(claim: ResourceClaim, pod: Pod) -> str:
    """What to say of a claim that should have been made for the pod, and was not."""
    names = [f"{one.metadata.namespace}/{one.metadata.name}" for one in (claim, pod)]
    return f"ResourceClaim {names[0]} was not created for Pod {names[1]} (Pod is not owner)"


def is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or will ever run."""
    return pods.is_finished(pod) or (pods.is_terminating(pod) and not pod.spec.nodeName)
