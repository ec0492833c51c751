"""Writes the bindings of volumes and claims, step by step.

The server rejects a step if the object has changed since it was read. Each step returns once the view has its outcome,
so a binding that fails halfway resumes where it stopped. Mirrors bind, unbindVolume and the updates of
pkg/controller/volume/persistentvolume/pv_controller.go.
"""

from __future__ import annotations

from typing import Any

from lightkube.models.core_v1 import PersistentVolumeClaimStatus

from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, Kind
from bayplan.core.api.served import Object, PersistentVolume, PersistentVolumeClaim
from bayplan.core.api.times import whole_seconds
from bayplan.core.api.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, annotations_of, is_bound_to, volume_name
from bayplan.core.expansion.owner_references import reference_to
from bayplan.foundations.clock import TimerClock
from bayplan.running.client.client import Client
from bayplan_devcluster.controllers.informers import Informer

STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"

Patch = dict[str, Any]
"""The body of a merge patch."""


class VolumeBinder:
    """Writes bindings, phases, and requests to provisioners. Raises ApiError and TransportError."""

    def __init__(self, client: Client, clock: TimerClock, volumes: Informer, claims: Informer) -> None:
        self._client = client
        self._clock = clock
        self._volumes = volumes
        self._claims = claims

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind both to each other. Existing parts of the binding aren't written again."""
        volume = await self._bind_volume(volume, claim)
        volume = await self._write_volume_phase(volume, "Bound")
        claim = await self._bind_claim(claim, volume)
        claim = await self._write_claim_phase(claim, "Bound", volume)
        await self._volumes.observe([volume])
        await self._claims.observe([claim])

    async def unbind(self, volume: PersistentVolume) -> None:
        """Make a volume available again: to all claims if a controller bound it, or else to the claim that it names."""
        if BOUND_BY_CONTROLLER in annotations_of(volume):
            patch = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
        else:
            patch = {"spec": {"claimRef": {"uid": None}}}
        await self.set_volume_phase(await self._write_volume(volume, patch), "Available")

    async def set_volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        """Set the phase of a volume."""
        written: PersistentVolume = await self._write_volume_phase(volume, phase, message)
        await self._volumes.observe([written])
        return written

    async def set_claim_phase(self, claim: PersistentVolumeClaim, phase: str) -> None:
        """Set the phase of a claim without a volume."""
        await self._claims.observe([await self._write_claim_phase(claim, phase, None)])

    async def assign_class(self, claim: PersistentVolumeClaim, name: str) -> None:
        """Set the class of a claim that names none."""
        await self._claims.observe([await self._write_claim(claim, {"spec": {"storageClassName": name}})])

    async def ask_for_volume(self, claim: PersistentVolumeClaim, provisioner: str) -> None:
        """Request a volume for a claim from a provisioner."""
        if annotations_of(claim).get(STORAGE_PROVISIONER) != provisioner:
            asked = {BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
            await self._claims.observe([await self._write_claim(claim, {"metadata": {"annotations": asked}})])

    async def _bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Set a volume's claimRef, as the scheduler does for delayed binding. Mirrors GetBindVolumeToClaim."""
        patch: Patch = {}
        reference, expected = volume.spec.claimRef, is_bound_to(volume, claim)
        if not expected or reference is None or reference.uid != claim.metadata.uid:
            patch["spec"] = {"claimRef": reference_to(PERSISTENT_VOLUME_CLAIM, claim)}
        if not expected and BOUND_BY_CONTROLLER not in annotations_of(volume):
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return await self._write_volume(volume, patch) if patch else volume

    async def _bind_claim(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
        annotations: dict[str, str] = {}
        patch: Patch = {}
        if volume_name(claim) != volume.metadata.name:
            patch["spec"] = {"volumeName": volume.metadata.name}
            annotations[BOUND_BY_CONTROLLER] = "yes"
        if BIND_COMPLETED not in annotations_of(claim):
            annotations[BIND_COMPLETED] = "yes"
        if annotations:
            patch["metadata"] = {"annotations": annotations}
        return await self._write_claim(claim, patch) if patch else claim

    async def _write_volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        if volume.status is not None and volume.status.phase == phase:
            return volume
        # kube-apiserver sets the time itself if no client does.
        since = whole_seconds(self._clock.now())
        status = {"phase": phase, "message": message or None, "lastPhaseTransitionTime": since}
        return await self._write_volume(volume, {"status": status}, "status")

    async def _write_claim_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
    ) -> PersistentVolumeClaim:
        status = _status_of(claim.status or PersistentVolumeClaimStatus(), phase, volume)
        return await self._write_claim(claim, {"status": status}, "status") if status else claim

    async def _write_volume(
        self, volume: PersistentVolume, patch: Patch, subresource: str | None = None
    ) -> PersistentVolume:
        written: PersistentVolume = await write(self._client, PERSISTENT_VOLUME, volume, patch, subresource)
        return written

    async def _write_claim(
        self, claim: PersistentVolumeClaim, patch: Patch, subresource: str | None = None
    ) -> PersistentVolumeClaim:
        written: PersistentVolumeClaim = await write(self._client, PERSISTENT_VOLUME_CLAIM, claim, patch, subresource)
        return written


async def write(client: Client, kind: Kind, obj: Object, patch: Patch, subresource: str | None = None) -> Any:
    """Patch an object and return it, unless it has changed since it was read (ApiError 409)."""
    metadata = obj.metadata
    guard = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
    guarded = {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
    return await client.patch(kind, metadata.name, guarded, metadata.namespace, subresource=subresource)


def _status_of(known: PersistentVolumeClaimStatus, phase: str, volume: PersistentVolume | None) -> dict[str, Any]:
    """The changes to a claim's status. Mirrors updateClaimStatus."""
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
