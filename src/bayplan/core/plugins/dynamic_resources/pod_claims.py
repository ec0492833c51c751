"""The claims of a pod."""

from __future__ import annotations

from collections.abc import Mapping

from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import UnusableClaim, claim_names, is_made_for, not_made_for


def claims_of(pod: PodInfo, claims: Mapping[str, ResourceClaim], *, of_groups: bool = False) -> list[ResourceClaim]:
    """The claims that a pod refers to, in order. `claims` by `namespace/name`. Raises UnusableClaim.

    `of_groups`: whether a claim that was made for the pod's PodGroup is one of the pod, too.
    """
    found, group = [], group_name(pod) if of_groups else ""
    for name, generated in claim_names(pod.object):
        claim = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            raise UnusableClaim(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        metadata = claim.metadata
        if metadata is not None and metadata.deletionTimestamp is not None:
            raise UnusableClaim(f'resourceclaim "{name}" is being deleted')
        if generated and not is_made_for(claim, pod.uid, group):
            raise UnusableClaim(not_made_for(claim, pod.key, group))
        found.append(claim)
    return found


def group_name(pod: PodInfo) -> str:
    """The name of the pod's PodGroup, "" if it is in none."""
    return (pod_group_of(pod) or "").partition("/")[2]


def has_claims(pod: PodInfo) -> bool:
    """Whether a pod refers to any claims or claim templates."""
    return bool(pod.spec.resourceClaims)
