"""Claims that the scheduler creates for pods that get extended resources from devices.

Mirrors findExtendedResourceClaim (plugins/dynamicresources/extendeddynamicresources.go).
"""

from __future__ import annotations

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.devices.claims import key_of
from bayplan.core.devices.observable import Observable

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class ExtendedResourceClaims:
    """An index of these claims: uid of the pod that owns one -> claim."""

    def __init__(self, claims: Observable) -> None:
        self._by_owner: dict[str, dict[str, ResourceClaim]] = {}
        claims.listen(self._changed)

    def of(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was created for a pod."""
        return next(iter(self._by_owner.get(pod_uid, {}).values()), None)

    def _changed(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        for owner, name in _owners(before):
            claims = self._by_owner[owner]
            claims.pop(name, None)
            if not claims:
                del self._by_owner[owner]
        for owner, name in _owners(now):
            assert now is not None
            self._by_owner.setdefault(owner, {})[name] = now


def extended_claim_name(pod: Pod) -> str | None:
    """The name of the claim that was created for a pod's extended resources."""
    status = pod.status.extendedResourceClaimStatus if pod.status is not None else None
    return status.resourceClaimName if status is not None else None


def resources_from_devices(pod: Pod) -> frozenset[str]:
    """The extended resources that a pod gets from the devices of its claim, and not from its node's capacity."""
    status = pod.status.extendedResourceClaimStatus if pod.status is not None else None
    return frozenset(mapping.resourceName for mapping in status.requestMappings) if status is not None else frozenset()


def _owners(claim: ResourceClaim | None) -> list[tuple[str, str]]:
    """The UIDs of the pods that control a claim for extended resources, each with the claim's key."""
    metadata = claim.metadata if claim is not None else None
    if claim is None or metadata is None or (metadata.annotations or {}).get(ANNOTATION) != "true":
        return []
    return [(uid, key_of(claim)) for uid in {owner.uid for owner in metadata.ownerReferences or () if owner.controller}]
