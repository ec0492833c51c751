"""The claims of PodGroups: the group has them as a whole. Mirrors the feature gate DRAWorkloadResourceClaims.

The first member that is placed allocates such a claim, and the others use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimConsumerReference

from bayplan.core.api.kinds import POD
from bayplan.core.api.pod_groups import POD_GROUPS, GroupClaim, claims_made_for, spec_of
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_groups import PodsByGroup, pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import (
    UnusableClaim,
    allocation_of,
    group_reservation,
    is_made_for,
    is_of_group,
    is_reserved_for,
)
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import CycleState
from bayplan.core.plugins.dynamic_resources.pod_claims import group_name
from bayplan.core.versions import FeatureGates


class GroupClaims:
    """Which claims belong to the PodGroups of pods. Without the feature gate, none do."""

    def __init__(self, handle: Handle, claims: ObjectStore, gates: FeatureGates) -> None:
        self.enabled = gates.enabled("DRAWorkloadResourceClaims")
        self._handle = handle
        self._claims = claims
        self._pod_groups: Any = handle.objects(POD_GROUPS) if self.enabled else {}
        self._members: Any = PodsByGroup(handle.objects(POD), pod_group_of) if self.enabled else {}

    def name_of(self, pod: PodInfo) -> str:
        """The name of the PodGroup whose claims a pod may use, "" if there is none."""
        return group_name(pod) if self.enabled else ""

    def reservations(self, pod: PodInfo) -> list[ResourceClaimConsumerReference]:
        """The consumers of a pod's claims, in the order of its references: the pod or its group. Raises UnusableClaim.

        Empty if all of them are for the pod itself.
        """
        if not self.name_of(pod):
            return []
        pod_group = self._pod_group(pod)
        of_group = _references(pod_group)
        by_pod = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        by_group = group_reservation(pod_group.metadata.name or "", pod_group.metadata.uid or "")
        return [by_group if is_of_group(each, of_group) else by_pod for each in pod.spec.resourceClaims or ()]

    def unused(self, cycle: CycleState, pod: PodInfo) -> Iterator[tuple[ResourceClaim, str]]:
        """Yield the allocated claims that are reserved for the group of a pod, each with the UID of the group.

        There are none if any pod of the group has a node. Raises UnusableClaim.
        """
        name = self.name_of(pod)
        if not name or self._is_placed(cycle, pod):
            return
        pod_group = self._pod_group(pod)
        uid, made = pod_group.metadata.uid or "", claims_made_for(pod_group)
        for reference in _references(pod_group):
            generated = reference.resourceClaimName is None
            if generated and reference.name not in made:
                raise UnusableClaim(f"PodGroup {pod_group_of(pod)}: ResourceClaim not created yet")
            found = made[reference.name] if generated else reference.resourceClaimName
            if found is None:
                continue
            claim: ResourceClaim | None = self._claims.get(f"{pod.namespace}/{found}")
            if claim is None:
                raise UnusableClaim(f'could not find ResourceClaim "{pod.namespace}/{found}"')
            if generated and not is_made_for(claim, uid):
                continue
            if allocation_of(claim) is not None and is_reserved_for(claim, pod.uid, name):
                yield claim, uid

    def _is_placed(self, cycle: CycleState, pod: PodInfo) -> bool:
        """Whether any pod of a pod's group has a node, and not only in this attempt of the group."""
        gang: Gang | None = cycle.data.get(PLACED_WITH)
        trying = {member.uid for member in gang.members} if gang is not None else ()
        table = self._handle.nodes.table
        rows = (table.row_of_pod.get(uid) for uid in self._members[pod_group_of(pod) or ""].pods if uid not in trying)
        return any(row is not None and table.live[row] for row in rows)

    def _pod_group(self, pod: PodInfo) -> Any:
        pod_group = self._pod_groups.get(pod_group_of(pod))
        if pod_group is None:
            raise UnusableClaim(f'podgroup.scheduling.k8s.io "{group_name(pod)}" not found')
        return pod_group


def _references(pod_group: Any) -> list[GroupClaim]:
    """The references of a PodGroup to claims. Raises UnusableClaim."""
    key = f"{pod_group.metadata.namespace}/{pod_group.metadata.name}"
    try:
        references = spec_of(pod_group).resourceClaims or []
    except msgspec.ValidationError as error:
        raise UnusableClaim(f"PodGroup {key} is invalid: {error}") from error
    for each in references:
        if each.resourceClaimName is None and each.resourceClaimTemplateName is None:
            raise UnusableClaim(f"PodGroup {key} claim {each.name}: none of the supported fields are set")
    return references
