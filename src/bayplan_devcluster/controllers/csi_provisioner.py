"""Creates PersistentVolumes for claims, in place of the external provisioners of all CSI drivers.

There is no storage behind the volumes. On a real cluster, every driver has its own provisioner, and
kube-controller-manager has none. This one acts for any provisioner that a class names, and ignores the parameters of
the class. Mirrors sig-storage-lib-external-provisioner and kubernetes-csi/external-provisioner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bayplan.core.api.kinds import (
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan.core.api.served import PersistentVolume, PersistentVolumeClaim, StorageClass
from bayplan.core.api.volumes import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, annotations_of, class_of_claim, volume_name
from bayplan.core.expansion.owner_references import reference_to
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.csi_topology import (
    CannotProvision,
    Place,
    has_room,
    place_for_node,
    places_for_anybody,
)
from bayplan_devcluster.controllers.persistent_volume import IN_TREE, driver_of
from bayplan_devcluster.controllers.storage_protection import add_finalizer, remove_finalizer
from bayplan_devcluster.controllers.volume_binder import STORAGE_PROVISIONER, write
from bayplan_devcluster.controllers.volume_reclaim import PROVISIONED_BY

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
"""The finalizer that keeps a volume until its storage is deleted."""
RETRY = 15.0
"""Seconds until the next attempt for a claim that no volume could be created for."""


class CsiProvisioner(Controller):
    """Provisions and deletes volumes. The key of a claim has a slash, the key of a volume doesn't.

    It serves a claim once the persistent volume controller has annotated it. If provisioning fails for the node that
    the scheduler selected, it removes the annotation with the node, and the scheduler selects again.
    """

    name: ClassVar[str] = "csi-provisioner"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.watch(NODE)
        self._csi_nodes = self.watch(CSI_NODE)
        self._capacities = self.watch(CSI_STORAGE_CAPACITY)
        self._classes = self.watch(STORAGE_CLASS)
        self._claims = self.watch(PERSISTENT_VOLUME_CLAIM)
        self._volumes = self.watch(PERSISTENT_VOLUME)
        self._claims.listen(self.enqueue)
        self._volumes.listen(self.enqueue)

    async def sync(self, key: str) -> None:
        """Sync one claim or one volume."""
        if "/" in key:
            claim: PersistentVolumeClaim | None = self._claims.get(key)
            if claim is not None and (storage_class := self._class_to_serve(claim)) is not None:
                await self._provision(key, claim, storage_class)
        else:
            volume: PersistentVolume | None = self._volumes.get(key)
            if volume is not None and _is_of_driver(volume):
                await self._look_after(volume)

    def _class_to_serve(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """The class of a claim, if the claim needs a volume. Mirrors shouldProvision."""
        annotations = annotations_of(claim)
        if volume_name(claim) or STORAGE_PROVISIONER not in annotations or claim.metadata.deletionTimestamp is not None:
            return None
        found: StorageClass | None = self._classes.get(class_of_claim(claim))
        if found is None or driver_of(found) != annotations[STORAGE_PROVISIONER]:
            return None
        # The annotation that requests a volume stays when the selected node is removed.
        waits = found.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER and not annotations.get(SELECTED_NODE)
        return None if waits else found

    async def _provision(self, key: str, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
        name = f"pvc-{claim.metadata.uid}"
        if self._volumes.get(name) is not None:
            return
        message = f'External provisioner is provisioning volume for claim "{key}"'
        self.recorder.normal(PERSISTENT_VOLUME_CLAIM, claim, "Provisioning", message)
        try:
            place = self._place(claim, storage_class)
        except CannotProvision as problem:
            await self._give_up(key, claim, storage_class, problem)
            return
        try:
            created = await self.client.create(PERSISTENT_VOLUME, _volume(name, claim, storage_class, place))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                self._failed(claim, f'failed to save persistentvolume "{name}": {error.message}')
                raise
            return
        await self._volumes.observe([created])
        message = f"Successfully provisioned volume {name}"
        self.recorder.normal(PERSISTENT_VOLUME_CLAIM, claim, "ProvisioningSucceeded", message)

    def _place(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Place:
        """The volume's topology: that of the node that the scheduler selected, or else the best one with capacity."""
        driver, selected = driver_of(storage_class), annotations_of(claim).get(SELECTED_NODE)
        candidates: list[tuple[Place, Mapping[str, str]]]
        if selected:
            node = self._nodes.get(selected)
            if node is None:
                raise CannotProvision(f'node "{selected}" not found')
            place = place_for_node(driver, storage_class, node, self._csi_nodes.get(selected))
            candidates = [(place, node.metadata.labels or {})]
        else:
            nodes, csi_nodes = self._nodes.objects.values(), self._csi_nodes.objects.values()
            places = places_for_anybody(driver, storage_class, claim.metadata.name, nodes, csi_nodes)
            candidates = [(place, place) for place in places]
        capacities = list(self._capacities.objects.values())
        for place, labels in candidates:
            if has_room(capacities, storage_class, claim, labels):
                return place
        raise CannotProvision("rpc error: code = ResourceExhausted desc = not enough capacity")

    async def _give_up(
        self, key: str, claim: PersistentVolumeClaim, storage_class: StorageClass, problem: CannotProvision
    ) -> None:
        """Let the scheduler select another node, or retry later if it didn't select one. Mirrors
        provisionVolumeErrorHandling.
        """
        name = storage_class.metadata.name
        self._failed(claim, f'failed to provision volume with StorageClass "{name}": {problem}')
        if SELECTED_NODE not in annotations_of(claim):
            self.queue.add_after(key, RETRY)
            return
        patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        written = await write(self.client, PERSISTENT_VOLUME_CLAIM, claim, patch)
        await self._claims.observe([written])

    def _failed(self, claim: PersistentVolumeClaim, why: str) -> None:
        self.recorder.warning(PERSISTENT_VOLUME_CLAIM, claim, "ProvisioningFailed", why)

    async def _look_after(self, volume: PersistentVolume) -> None:
        """Add the finalizer to volumes that this controller must delete, and delete them once they are released.
        Mirrors handleProtectionFinalizer, shouldDelete and deleteVolumeOperation.
        """
        metadata, phase = volume.metadata, volume.status.phase
        deletes = volume.spec.persistentVolumeReclaimPolicy == "Delete"
        protected = FINALIZER in (metadata.finalizers or ())
        if protected and not deletes:
            await remove_finalizer(self.client, PERSISTENT_VOLUME, volume, FINALIZER)
        elif deletes and phase == "Bound" and not protected and metadata.deletionTimestamp is None:
            await add_finalizer(self.client, PERSISTENT_VOLUME, volume, FINALIZER)
        elif deletes and phase == "Released":
            if metadata.deletionTimestamp is None:
                with Ignored(404):  # deleted already; else the change leads to another sync
                    await self.client.delete(PERSISTENT_VOLUME, metadata.name, uid=metadata.uid)
            elif protected:
                await remove_finalizer(self.client, PERSISTENT_VOLUME, volume, FINALIZER)


def _volume(name: str, claim: PersistentVolumeClaim, storage_class: StorageClass, place: Place) -> dict[str, Any]:
    """The volume for a claim, with a topology."""
    driver, policy = driver_of(storage_class), storage_class.reclaimPolicy or "Delete"
    spec: dict[str, Any] = {
        "accessModes": claim.spec.accessModes,
        "capacity": {"storage": (claim.spec.resources.requests or {})["storage"]},
        "claimRef": reference_to(PERSISTENT_VOLUME_CLAIM, claim),
        "csi": {"driver": driver, "volumeHandle": name},
        "mountOptions": storage_class.mountOptions or [],
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class_of_claim(claim),
        "volumeMode": claim.spec.volumeMode or "Filesystem",
    }
    if claim.spec.volumeAttributesClassName:
        spec["volumeAttributesClassName"] = claim.spec.volumeAttributesClassName
    if place:
        expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(place.items())]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    metadata: dict[str, Any] = {"name": name, "annotations": {PROVISIONED_BY: driver}}
    if policy == "Delete":
        metadata["finalizers"] = [FINALIZER]
    return {"metadata": metadata, "spec": spec}


def _is_of_driver(volume: PersistentVolume) -> bool:
    """Whether the volume belongs to a CSI driver. Mirrors isProvisionerForVolume."""
    maker = annotations_of(volume).get(PROVISIONED_BY)
    return not maker.startswith(IN_TREE) if maker is not None else volume.spec.csi is not None
