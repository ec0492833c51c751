"""The claims that were made for pods because of the extended resources that they request, by pod.

Mirrors what findExtendedResourceClaim looks for (plugins/dynamicresources/extendeddynamicresources.go).
"""

from __future__ import annotations

from lightkube.models.resource_v1 import ResourceClaim

from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class ExtendedResourceClaims:
    """Those claims, as a view of the store of claims."""

    def __init__(self, store: ObjectStore) -> None:
        self._by_owner: dict[str, dict[str, ResourceClaim]] = {}
        store.listen(self._changed)

    def of(self, pod: PodInfo) -> ResourceClaim | None:
        """The claim that was made for a pod."""
        return next(iter(self._by_owner.get(pod.uid, {}).values()), None)

    def _changed(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        for owner, name in _owners(before):
            claims = self._by_owner[owner]
            claims.pop(name, None)
            if not claims:
                del self._by_owner[owner]
        for owner, name in _owners(now):
            assert now is not None
            self._by_owner.setdefault(owner, {})[name] = now


def _owners(claim: ResourceClaim | None) -> list[tuple[str, str]]:
    """The uids of the pods that control a claim for extended resources, each with the name of the claim."""
    metadata = claim.metadata if claim is not None else None
    if metadata is None or (metadata.annotations or {}).get(ANNOTATION) != "true":
        return []
    owners = {owner.uid for owner in metadata.ownerReferences or () if owner.controller}
    return [(uid, f"{metadata.namespace}/{metadata.name}") for uid in owners]
