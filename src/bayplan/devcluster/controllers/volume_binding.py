"""How the binding of volumes and claims is written, step by step.

Each step is refused by the server if anybody has changed the object since it was looked at, and waited for until all
controllers see it: a binding that breaks half-way is taken up where it stopped. Mirrors bind, unbindVolume and the
updates of pkg/controller/volume/persistentvolume/pv_controller.go.
"""

from __future__ import annotations

from typing import Any

from lightkube.models.core_v1 import ObjectReference, PersistentVolumeClaimStatus

from bayplan.api.kinds import PERSISTENT_VOLUME_CLAIM, Kind
from bayplan.api.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    annotations_of,
    is_bound_to,
    volume_name,
)
from bayplan.client import Client
from bayplan.devcluster.clock import Clock, whole_seconds
from bayplan.devcluster.controllers.informers import Informer
from bayplan.devcluster.controllers.served import Object, PersistentVolume, PersistentVolumeClaim

STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"


class VolumeBinder:
    """Writes bindings, phases and what has to be said to provisioners. Its methods raise ApiError."""

    def __init__(self, client: Client, clock: Clock, volumes: Informer, claims: Informer) -> None:
        self._client = client
        self._clock = clock
        self._volumes = volumes
        self._claims = claims

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind both to each other; what is there of it already is not written again."""
        volume = await self._bind_volume(volume, claim)
        volume = await self.set_volume_phase(volume, "Bound")
        claim = await self._bind_claim(claim, volume)
        await self.set_claim_phase(claim, "Bound", volume)

    async def unbind(self, volume: PersistentVolume) -> None:
        """Make a volume available again: to everybody, if a controller bound it, else to the claim that it names."""
        if BOUND_BY_CONTROLLER in annotations_of(volume):
            patch = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
        else:
            patch = {"spec": {"claimRef": {"uid": None}}}
        await self.set_volume_phase(await self._write(self._volumes, volume, patch), "Available")

    async def set_volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        """Have a volume's status say this phase."""
        if volume.status is not None and volume.status.phase == phase:
            return volume
        # A kube-apiserver notes the moment itself where nobody else does.
        since = whole_seconds(self._clock.now())
        status = {"phase": phase, "message": message or None, "lastPhaseTransitionTime": since}
        return await self._write(self._volumes, volume, {"status": status}, "status")

    async def set_claim_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        """Have a claim's status say this phase, and what it has of `volume`."""
        known = claim.status or PersistentVolumeClaimStatus()
        status = _status_of(known, phase, volume)
        if not status:
            return claim
        return await self._write(self._claims, claim, {"status": status}, "status")

    async def assign_class(self, claim: PersistentVolumeClaim, name: str) -> None:
        """Give a class to a claim that names none."""
        await self._write(self._claims, claim, {"spec": {"storageClassName": name}})

    async def ask_for_volume(self, claim: PersistentVolumeClaim, provisioner: str) -> PersistentVolumeClaim:
        """Have a provisioner make a volume for a claim."""
        if annotations_of(claim).get(STORAGE_PROVISIONER) == provisioner:
            return claim
        asked = {BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
        return await self._write(self._claims, claim, {"metadata": {"annotations": asked}})

    async def _bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """The scheduler does the same to claims that wait for their first consumer. Mirrors GetBindVolumeToClaim."""
        patch: dict[str, Any] = {}
        reference, expected = volume.spec.claimRef, is_bound_to(volume, claim)
        if not expected or reference.uid != claim.metadata.uid:
            patch["spec"] = {"claimRef": reference_to(claim)}
        if not expected and BOUND_BY_CONTROLLER not in annotations_of(volume):
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return await self._write(self._volumes, volume, patch) if patch else volume

    async def _bind_claim(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
        annotations, patch = {}, {}
        if volume_name(claim) != volume.metadata.name:
            patch["spec"] = {"volumeName": volume.metadata.name}
            annotations[BOUND_BY_CONTROLLER] = "yes"
        if BIND_COMPLETED not in annotations_of(claim):
            annotations[BIND_COMPLETED] = "yes"
        if annotations:
            patch["metadata"] = {"annotations": annotations}
        return await self._write(self._claims, claim, patch) if patch else claim

    async def _write(self, view: Informer, obj: Object, patch: dict[str, Any], subresource: str | None = None) -> Any:
        written = await write(self._client, view.kind, obj, patch, subresource)
        await view.observe([written])
        return written


async def write(client: Client, kind: Kind, obj: Object, patch: dict[str, Any], subresource: str | None = None) -> Any:
    """Change a part of an object, if nobody has changed it since it was looked at (ApiError 409), and return it."""
    metadata = obj.metadata
    guard = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
    guarded = {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
    return await client.patch(kind, metadata.name, guarded, metadata.namespace, subresource=subresource)


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    """What a volume says of the claim that it is for."""
    metadata = claim.metadata
    return ObjectReference(
        apiVersion=PERSISTENT_VOLUME_CLAIM.api_version,
        kind=PERSISTENT_VOLUME_CLAIM.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resourceVersion=metadata.resourceVersion,
    )


def _status_of(known: PersistentVolumeClaimStatus, phase: str, volume: PersistentVolume | None) -> dict[str, Any]:
    """What of a claim's status has to change. Mirrors updateClaimStatus."""
    status: dict[str, Any] = {}
    if known.phase != phase:
        status["phase"] = phase
    if volume is None:
        of_volume = ("accessModes", "capacity", "currentVolumeAttributesClassName")
        return status | {name: None for name in of_volume if getattr(known, name)}
    if known.accessModes != volume.spec.accessModes:
        status["accessModes"] = volume.spec.accessModes
    if known.phase != phase and known.capacity != volume.spec.capacity:
        status["capacity"] = volume.spec.capacity
    if known.phase == "Pending" and known.currentVolumeAttributesClassName != volume.spec.volumeAttributesClassName:
        status["currentVolumeAttributesClassName"] = volume.spec.volumeAttributesClassName
    return status
