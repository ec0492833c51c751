"""Binds claims to volumes, and updates the status of both.

Mirrors pkg/controller/volume/persistentvolume. Upstream syncs everything every 15 seconds; this controller syncs an
object when something that it depends on changes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from lightkube.models.core_v1 import ObjectReference

from bayplan.core.api.csi_translation import BY_NAME
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan.core.api.served import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from bayplan.core.api.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    annotations_of,
    class_of_claim,
    class_of_volume,
    is_bound_to,
    volume_name,
)
from bayplan.core.expansion import pods
from bayplan.core.expansion.volume_matching import (
    best_match,
    default_class,
    has_class,
    is_free,
    mismatch,
    same_mode,
)
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import key_of, latest
from bayplan_devcluster.controllers.pod_volumes import claim_keys
from bayplan_devcluster.controllers.volume_binder import VolumeBinder
from bayplan_devcluster.controllers.volume_reclaim import DisposalAction, disposal_of, is_made_on_demand

IN_TREE = "kubernetes.io/"
"""The prefix of the names of in-tree provisioners."""
GONE = "Data on the volume is lost!"


class PersistentVolumeController(Controller):
    """Syncs claims and volumes. The key of a claim has a slash, the key of a volume doesn't.

    ::

        volume   Pending --> Available --claim--> Bound --claim gone--> Released --Delete--> (gone) or Failed
        claim    Pending --volume--> Bound --volume gone, or another's--> Lost

    It has one worker, as two claims must not compete for a volume.
    """

    name: ClassVar[str] = "persistentvolume-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = self.watch(PERSISTENT_VOLUME)
        self._claims = self.watch(PERSISTENT_VOLUME_CLAIM)
        self._classes = self.watch(STORAGE_CLASS)
        self._pods = self.watch(POD)
        self._binder = VolumeBinder(self.client, self.clock, self._volumes, self._claims)
        self._volumes_by_claim = self._volumes.index(_claims_named)
        self._claims_by_volume = self._claims.index(lambda one: (volume_name(one),))
        self._unbound_by_class = self._claims.index(_classes_awaited)
        self._pods_by_claim = self._pods.index(claim_keys)
        self._volumes.listen(self._volume_changed)
        self._claims.listen(self._claim_changed)
        self._classes.listen(self._class_changed)
        self._pods.listen(self._pod_changed)

    async def sync(self, key: str) -> None:
        """Sync one claim or one volume."""
        if "/" in key:
            claim: PersistentVolumeClaim | None = self._claims.get(key)
            if claim is not None:
                await self._sync_claim(claim)
        else:
            volume: PersistentVolume | None = self._volumes.get(key)
            if volume is not None:
                await self._sync_volume(volume)

    # Claims

    async def _sync_claim(self, claim: PersistentVolumeClaim) -> None:
        if BIND_COMPLETED in annotations_of(claim):
            await self._sync_bound_claim(claim)
        elif volume_name(claim):
            await self._sync_choosy_claim(claim)
        else:
            await self._sync_unbound_claim(claim)

    async def _sync_bound_claim(self, claim: PersistentVolumeClaim) -> None:
        """Check that a bound claim still has its volume; otherwise it is lost."""
        name = volume_name(claim)
        if not name:
            await self._lose(claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume. " + GONE)
            return
        volume: PersistentVolume | None = self._volumes.get(name)
        if volume is None:
            await self._lose(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. " + GONE)
        elif volume.spec.claimRef is None or volume.spec.claimRef.uid == claim.metadata.uid:
            await self._binder.bind(volume, claim)
        else:
            problem = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", problem)

    async def _lose(self, claim: PersistentVolumeClaim, reason: str, problem: str) -> None:
        if claim.status.phase != "Lost":
            await self._binder.set_claim_phase(claim, "Lost")
            self._warn(claim, reason, problem)

    async def _sync_choosy_claim(self, claim: PersistentVolumeClaim) -> None:
        """Bind a claim to the volume that it names, or let it wait for that volume."""
        name = volume_name(claim)
        volume: PersistentVolume | None = self._volumes.get(name)
        if volume is not None:
            of_another = volume.spec.claimRef is not None and not is_bound_to(volume, claim)
            why = mismatch(volume, claim) if volume.spec.claimRef is None else None
            if of_another:
                self._warn(claim, "FailedBinding", f'volume "{name}" already bound to a different claim.')
            elif why is not None:
                self._warn(claim, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}')
            else:
                await self._binder.bind(volume, claim)
                return
        await self._binder.set_claim_phase(claim, "Pending")

    async def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> None:
        """Bind a claim to any matching volume, request a new volume for it, or let it wait for a pod."""
        delayed = self._is_delayed(claim)
        volume = best_match(claim, self._volumes.objects.values(), delayed=delayed)
        if volume is not None:
            await self._binder.bind(volume, claim)
            return
        if not has_class(claim) and (found := default_class(self._classes.objects.values())) is not None:
            await self._binder.assign_class(claim, found.metadata.name)
            return  # the change leads to another sync
        if delayed and SELECTED_NODE not in annotations_of(claim):
            self._say_what_is_awaited(claim)
        elif class_of_claim(claim):
            await self._provision(claim)
            return
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self.recorder.normal(PERSISTENT_VOLUME_CLAIM, claim, "FailedBinding", message)
        await self._binder.set_claim_phase(claim, "Pending")

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        found: StorageClass | None = self._classes.get(class_of_claim(claim))
        return found is not None and found.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER

    def _say_what_is_awaited(self, claim: PersistentVolumeClaim) -> None:
        named = self._pods_by_claim.get(key_of(claim))
        waiting = sorted(pod.metadata.name for pod in named if not pod.spec.nodeName and not pods.is_finished(pod))
        if waiting:
            noun = "pods" if len(waiting) > 1 else "pod"
            reason, message = "WaitForPodScheduled", f"waiting for {noun} {','.join(waiting)} to be scheduled"
        else:
            reason, message = "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        self.recorder.normal(PERSISTENT_VOLUME_CLAIM, claim, reason, message)

    async def _provision(self, claim: PersistentVolumeClaim) -> None:
        """Request a volume from the class's provisioner. In 1.36, all provisioners are external."""
        name = class_of_claim(claim)
        found: StorageClass | None = self._classes.get(name)
        if found is None:
            self._warn(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
            return
        if found.provisioner.startswith(IN_TREE) and found.provisioner not in BY_NAME:
            self._warn(claim, "ProvisioningFailed", f"no volume plugin matched name: {found.provisioner}")
            return
        provisioner = driver_of(found)
        await self._binder.ask_for_volume(claim, provisioner)
        message = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        self.recorder.normal(PERSISTENT_VOLUME_CLAIM, claim, "ExternalProvisioning", message)

    def _warn(self, claim: PersistentVolumeClaim, reason: str, problem: str) -> None:
        self.recorder.warning(PERSISTENT_VOLUME_CLAIM, claim, reason, problem)

    # Volumes

    async def _sync_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claimRef
        if reference is None or not reference.uid:  # unbound, or reserved for a claim that isn't bound to it yet
            await self._binder.set_volume_phase(volume, "Available")
            return
        claim = await self._claim_of(volume, reference)
        if claim is None:
            await self._release(volume)
        elif not volume_name(claim):
            self._take_to_claim(volume, claim)
        elif volume_name(claim) == volume.metadata.name:
            await self._binder.set_volume_phase(volume, "Bound")
        elif is_made_on_demand(volume) and volume.spec.persistentVolumeReclaimPolicy == "Delete":
            await self._release(volume)
        else:
            await self._binder.unbind(volume)

    async def _claim_of(self, volume: PersistentVolume, reference: ObjectReference) -> PersistentVolumeClaim | None:
        """The claim that a volume is bound to; None if the server confirms that it is gone."""
        claim: PersistentVolumeClaim | None = self._claims.get(f"{reference.namespace}/{reference.name}")
        if claim is not None and claim.metadata.uid == reference.uid:
            return claim
        if claim is None and volume.status.phase in {"Released", "Failed"}:
            return None
        claim = await self.ask_for(PERSISTENT_VOLUME_CLAIM, reference.name or "", reference.namespace)
        return claim if claim is not None and claim.metadata.uid == reference.uid else None

    def _take_to_claim(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if same_mode(volume, claim):
            self.queue.add(key_of(claim))
            return
        of_volume, of_claim = volume.metadata.name, claim.metadata.name
        problem = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{of_claim}" due to incompatible'
        self.recorder.warning(PERSISTENT_VOLUME, volume, "VolumeMismatch", f"{problem} volumeMode.")
        problem = f'Cannot bind PersistentVolume "{of_volume}" to requested PersistentVolumeClaim due to incompatible'
        self._warn(claim, "VolumeMismatch", f"{problem} volumeMode.")

    async def _release(self, volume: PersistentVolume) -> None:
        """Reclaim a volume whose claim is gone, by its policy."""
        if volume.status.phase not in {"Released", "Failed"}:
            volume = await self._binder.set_volume_phase(volume, "Released")
        disposal = disposal_of(volume)
        match disposal.action:
            case DisposalAction.DELETE if volume.metadata.deletionTimestamp is None:
                with Ignored(404):  # deleted already
                    await self.client.delete(PERSISTENT_VOLUME, volume.metadata.name, uid=volume.metadata.uid)
            case DisposalAction.REUSE:
                self.recorder.normal(PERSISTENT_VOLUME, volume, "VolumeRecycled", "Volume recycled")
                await self._binder.unbind(volume)
            case DisposalAction.FAIL if volume.status.phase != "Failed":
                await self._binder.set_volume_phase(volume, "Failed", disposal.problem)
                self.recorder.warning(PERSISTENT_VOLUME, volume, disposal.reason, disposal.problem)

    # Which objects to sync after a change

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for volume in (old, new):
            if volume is not None:
                self.queue.add(key_of(volume))
                for claim in self._claims_by_volume.get(volume.metadata.name):
                    self.queue.add(key_of(claim))
                if (reference := volume.spec.claimRef) is not None:
                    self.queue.add(f"{reference.namespace}/{reference.name}")
        if new is not None and is_free(new):
            self._enqueue_claims_of_class(class_of_volume(new))

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self.enqueue(old, new)
        if old is None:
            return
        if new is None or (old.metadata.uid, volume_name(old)) != (new.metadata.uid, volume_name(new)):
            for volume in self._volumes_by_claim.get(old.metadata.uid):
                self.queue.add(key_of(volume))

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._enqueue_claims_of_class(latest(old, new).metadata.name)
        self._enqueue_claims_of_class("")  # it may be their default class now

    def _enqueue_claims_of_class(self, name: str) -> None:
        for claim in self._unbound_by_class.get(name):
            self.queue.add(key_of(claim))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the claims of a new pod: the events of a waiting claim name the pod."""
        if new is not None and old is None and not new.spec.nodeName:
            for key in claim_keys(new):
                if self._claims.get(key) is not None:
                    self.queue.add(key)


def driver_of(storage_class: StorageClass) -> str:
    """The provisioner of a class: the CSI driver in place of an in-tree provisioner."""
    plugin = BY_NAME.get(storage_class.provisioner)
    return plugin.driver if plugin is not None else str(storage_class.provisioner)


def _claims_named(volume: PersistentVolume) -> tuple[Any, ...]:
    reference = volume.spec.claimRef
    return (reference.uid,) if reference is not None and reference.uid else ()


def _classes_awaited(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return () if volume_name(claim) or BIND_COMPLETED in annotations_of(claim) else (class_of_claim(claim),)
