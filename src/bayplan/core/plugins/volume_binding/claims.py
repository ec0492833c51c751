"""Classifies a pod's claims, independently of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import PersistentVolumeClaim

from bayplan.core.api.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    class_of_claim,
    is_controlled_by,
    is_fully_bound,
    volume_name,
)
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import Status
from bayplan.core.plugins.volume_binding.candidates import ClaimCandidates, VolumesByClass

UNBOUND = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod, each as often as the pod refers to it.

    `bound` claims have a volume. `waiting` claims are bound when the pod is scheduled, each with its candidates.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[tuple[PersistentVolumeClaim, ClaimCandidates], ...]


def sort_claims(
    pod: PodInfo, claims: ObjectStore, volumes: ObjectStore, classes: ObjectStore
) -> PodClaims | Status | None:
    """The claims of a pod. Returns a Status if they make the pod unschedulable, and None if it has no claims.

    Mirrors podHasPVCs and GetPodVolumeClaims.
    """
    named = _named(pod, claims)
    if isinstance(named, Status):
        return named
    if not named:
        return None
    bound: list[PersistentVolumeClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    immediate = False
    for claim in named:
        if is_fully_bound(claim):
            bound.append(claim)
            continue
        waits = _waits_for_pod(claim, classes)
        if isinstance(waits, Status):
            return waits
        # The volume controller binds a claim that names its volume, whatever the binding mode of its class.
        if waits and not volume_name(claim):
            waiting.append(claim)
        else:
            immediate = True
    if immediate:
        return UNBOUND
    if not waiting:
        return PodClaims(tuple(bound), ())
    by_class = volumes.view(VolumesByClass)
    return PodClaims(tuple(bound), tuple((claim, by_class.candidates(claim)) for claim in waiting))


def _named(pod: PodInfo, claims: ObjectStore) -> list[PersistentVolumeClaim] | Status:
    named = []
    for volume in pod.volumes:
        name = claim_name(pod.name, volume)
        if name is None:
            continue
        ephemeral = volume.persistentVolumeClaim is None
        claim: PersistentVolumeClaim | None = claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            if ephemeral:
                problem = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                return Status.unresolvable(problem)
            return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
        if claim.status is not None and claim.status.phase == "Lost":
            wanted = volume_name(claim)
            problem = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{wanted}"'
            return Status.unresolvable(problem)
        if claim.metadata is not None and claim.metadata.deletionTimestamp is not None:
            return Status.unresolvable(f'persistentvolumeclaim "{name}" is being deleted')
        if ephemeral and not is_controlled_by(claim, pod.uid):
            problem = f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
            return Status.unresolvable(problem)
        named.append(claim)
    return named


def _waits_for_pod(claim: PersistentVolumeClaim, classes: ObjectStore) -> bool | Status:
    """Whether a claim's class has the binding mode WaitForFirstConsumer. Mirrors IsDelayBindingMode."""
    name = class_of_claim(claim)
    found: Any = classes.get(name) if name else None
    if found is None:
        return False
    if found.volumeBindingMode is None:
        return Status.error(f'VolumeBindingMode not set for StorageClass "{name}"')
    return bool(found.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER)
