"""The claims of a StatefulSet's pods: their creation, and their owners by the retention policy.

Mirrors pkg/controller/statefulset: stateful_pod_control.go and stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.meta_v1 import OwnerReference

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, Kind
from bayplan.core.api.served import Object, PersistentVolumeClaim, Pod, StatefulSet
from bayplan.core.expansion import stateful_pods
from bayplan.core.expansion.owner_references import controller_reference
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.informers import Informer
from bayplan_devcluster.controllers.ownership import set_owners
from bayplan_devcluster.controllers.recorder import EventRecorder

_DELETE = "Delete"


class StatefulClaims:
    """Creates claims and changes their owners. Each method returns once the informer shows its writes."""

    def __init__(self, client: Client, claims: Informer, recorder: EventRecorder) -> None:
        self._client = client
        self._claims = claims
        self._recorder = recorder

    async def create_missing(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Create the claims that the pod lacks. Raises ApiError unless the pod has all of them afterwards."""
        metadata = stateful_set.metadata
        created: list[PersistentVolumeClaim] = []
        failures = []
        for claim in stateful_pods.new_claims(stateful_set, pod):
            name = claim.metadata.name
            known = self._claims.get(f"{metadata.namespace}/{name}")
            if known is not None and known.metadata.deletionTimestamp is not None:
                failures.append(ApiError(409, "Conflict", f"pvc {name} is being deleted"))
            elif known is None:
                try:
                    created.append(await self._create(stateful_set, pod, claim))
                except ApiError as error:
                    failures.append(
                        ApiError(error.status, error.reason, f"failed to create PVC {name}: {error.message}")
                    )
        await self._claims.observe(created)
        if failures:
            raise failures[0]

    def owners_match(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        """Whether the pod's claims have the owners that the retention policy requires."""
        return all(owners(claim, stateful_set, pod) is None for claim in self._of(stateful_set, pod))

    async def set_owners(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Give the pod's claims the owners that the retention policy requires."""
        written = []
        for claim in self._of(stateful_set, pod):
            wanted = owners(claim, stateful_set, pod)
            if has_other_controller(claim, stateful_set, pod):
                message = (
                    f"PersistentVolumeClaim {claim.metadata.name} has a conflicting OwnerReference that acts as a "
                    "manging controller, the retention policy is ignored for this claim"
                )
                self._recorder.warning(STATEFUL_SET, stateful_set, "ConflictingController", message)
            if wanted is not None:
                changed = await set_owners(self._client, PERSISTENT_VOLUME_CLAIM, claim, wanted)
                written += [changed] if changed is not None else []
        await self._claims.observe(written)

    def are_stale(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        """Whether an old pod of the same name still owns a claim, which will be deleted with it."""
        if _policy(stateful_set)[1] != _DELETE:
            return False
        return any(_is_stale(claim, POD, pod) for claim in self._of(stateful_set, pod))

    async def _create(self, stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        where = f"Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name}"
        namespace = stateful_set.metadata.namespace
        try:
            created: PersistentVolumeClaim = await self._client.create(PERSISTENT_VOLUME_CLAIM, claim, namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                message = f"Create Claim {claim.metadata.name} for {where} failed error: {error.message}"
                self._recorder.warning(STATEFUL_SET, stateful_set, "FailedCreate", message)
            raise
        message = f"Create Claim {claim.metadata.name} {where} success"
        self._recorder.normal(STATEFUL_SET, stateful_set, "SuccessfulCreate", message)
        return created

    def _of(self, stateful_set: StatefulSet, pod: Pod) -> list[PersistentVolumeClaim]:
        """The pod's claims that exist."""
        names = stateful_pods.claim_names(stateful_set, pod).values()
        found = (self._claims.get(f"{stateful_set.metadata.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]


def owners(claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod) -> list[OwnerReference] | None:
    """The owners that the claim should have by the retention policy; None if they don't change.

    If scaling down deletes claims, the removed pod owns its claim; otherwise the StatefulSet owns it, if its deletion
    deletes claims. A claim with an old set or pod, or with another controller, as its owner gets no owners.
    """
    if _is_stale(claim, STATEFUL_SET, stateful_set) or _is_stale(claim, POD, pod):
        return None
    uids = {stateful_set.metadata.uid, pod.metadata.uid}
    references: Iterable[OwnerReference] = claim.metadata.ownerReferences or ()
    ours = [one for one in references if one.uid in uids]
    others = [one for one in references if one.uid not in uids]
    if has_other_controller(claim, stateful_set, pod):
        return others if ours else None
    when_deleted, when_scaled = _policy(stateful_set)
    wanted = []
    if when_scaled == _DELETE and stateful_pods.ordinal(pod) not in stateful_pods.ordinals(stateful_set):
        wanted = [controller_reference(POD, pod)]
    elif when_deleted == _DELETE:
        wanted = [controller_reference(STATEFUL_SET, stateful_set)]
    same = [one.uid for one in ours] == [one.uid for one in wanted] and all(one.controller for one in ours)
    return None if same else [*others, *wanted]


def has_other_controller(claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the retention policy concerns the claim, and another object controls it."""
    uids = {stateful_set.metadata.uid, pod.metadata.uid}
    others = [one for one in claim.metadata.ownerReferences or () if one.uid not in uids]
    return _DELETE in _policy(stateful_set) and any(one.controller for one in others)


def _policy(stateful_set: StatefulSet) -> tuple[str, str]:
    """`whenDeleted` and `whenScaled`."""
    policy = stateful_set.spec.persistentVolumeClaimRetentionPolicy
    return ((policy and policy.whenDeleted) or "Retain", (policy and policy.whenScaled) or "Retain")


def _is_stale(claim: PersistentVolumeClaim, kind: Kind, obj: Object) -> bool:
    """Whether the claim names a former object of this name as its owner."""
    return any(
        (one.apiVersion, one.kind, one.name) == (kind.api_version, kind.kind, obj.metadata.name)
        and one.uid != obj.metadata.uid
        for one in claim.metadata.ownerReferences or ()
    )
