"""The rows of the kinds for volumes, CSI drivers and devices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Cells, Column, age

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _phase(obj: Object) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(obj["status"].get("phase", ""))


def _volume(volume: Object, now: datetime) -> list[Any]:
    spec, claim = volume["spec"], volume["spec"].get("claimRef")
    return [
        volume["metadata"]["name"],
        spec.get("capacity", {}).get("storage", "0"),
        _modes(spec.get("accessModes", ())),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        volume["status"].get("reason", ""),
        age(volume, now),
        spec.get("volumeMode", "<unset>"),
    ]


def _claim(claim: Object, now: datetime) -> list[Any]:
    spec, status = claim["spec"], claim["status"]
    bound = bool(spec.get("volumeName"))
    return [
        claim["metadata"]["name"],
        _phase(claim),
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "0") if bound else "",
        _modes(status.get("accessModes", ())) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        age(claim, now),
        spec.get("volumeMode", "<unset>"),
    ]


def _storage_class(storage_class: Object, now: datetime) -> list[Any]:
    metadata = storage_class["metadata"]
    default = metadata.get("annotations", {}).get(_DEFAULT_CLASS) == "true"
    return [
        metadata["name"] + (" (default)" if default else ""),
        storage_class["provisioner"],
        storage_class["reclaimPolicy"],
        storage_class["volumeBindingMode"],
        storage_class.get("allowVolumeExpansion", False),
        age(storage_class, now),
    ]


def _csi_node(csi_node: Object, now: datetime) -> list[Any]:
    return [csi_node["metadata"]["name"], len(csi_node["spec"].get("drivers") or ()), age(csi_node, now)]


def _csi_driver(driver: Object, now: datetime) -> list[Any]:
    spec = driver["spec"]
    audiences = ",".join(request.get("audience", "") for request in spec.get("tokenRequests", ()))
    return [
        driver["metadata"]["name"],
        *(spec.get(field, False) for field in ("attachRequired", "podInfoOnMount", "storageCapacity")),
        audiences or "<unset>",
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes", ())) or "<none>",
        age(driver, now),
    ]


def _capacity(capacity: Object, _now: datetime) -> list[Any]:
    return [capacity["metadata"]["name"], capacity["storageClassName"], capacity.get("capacity", "<unset>")]


def _attachment(attachment: Object, now: datetime) -> list[Any]:
    spec = attachment["spec"]
    return [
        attachment["metadata"]["name"],
        spec["attacher"],
        spec["source"].get("persistentVolumeName", ""),
        spec["nodeName"],
        attachment.get("status", {}).get("attached", False),
        age(attachment, now),
    ]


def _resource_claim(claim: Object, now: datetime) -> list[Any]:
    status = claim.get("status", {})
    states = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    states.append("allocated" if "allocation" in status else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return [claim["metadata"]["name"], ",".join(states), age(claim, now)]


def _slice(resource_slice: Object, now: datetime) -> list[Any]:
    spec = resource_slice["spec"]
    where = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else "<unset>")
    return [resource_slice["metadata"]["name"], where, spec["driver"], spec["pool"]["name"], age(resource_slice, now)]


_VOLUME, _CLAIM, _CLAIM_STATUS = (
    "core_v1.PersistentVolumeSpec",
    "core_v1.PersistentVolumeClaimSpec",
    "core_v1.PersistentVolumeClaimStatus",
)

TABLES: dict[kinds.Kind, tuple[tuple[Column, ...], Cells]] = {
    kinds.PERSISTENT_VOLUME: (
        (
            NAME,
            Column("Capacity", f"{_VOLUME}.capacity"),
            Column("Access Modes", f"{_VOLUME}.accessModes"),
            Column("Reclaim Policy", f"{_VOLUME}.persistentVolumeReclaimPolicy"),
            Column("Status", "core_v1.PersistentVolumeStatus.phase"),
            Column("Claim", f"{_VOLUME}.claimRef"),
            Column("StorageClass", "StorageClass of the pv"),
            Column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
            Column("Reason", "core_v1.PersistentVolumeStatus.reason"),
            AGE,
            Column("VolumeMode", f"{_VOLUME}.volumeMode", wide=True),
        ),
        _volume,
    ),
    kinds.PERSISTENT_VOLUME_CLAIM: (
        (
            NAME,
            Column("Status", f"{_CLAIM_STATUS}.phase"),
            Column("Volume", f"{_CLAIM}.volumeName"),
            Column("Capacity", f"{_CLAIM_STATUS}.capacity"),
            Column("Access Modes", f"{_CLAIM_STATUS}.accessModes"),
            Column("StorageClass", "StorageClass of the pvc"),
            Column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
            AGE,
            Column("VolumeMode", f"{_CLAIM}.volumeMode", wide=True),
        ),
        _claim,
    ),
    kinds.STORAGE_CLASS: (
        (
            NAME,
            Column("Provisioner", "storage_v1.StorageClass.provisioner"),
            Column("ReclaimPolicy", "storage_v1.StorageClass.reclaimPolicy"),
            Column("VolumeBindingMode", "storage_v1.StorageClass.volumeBindingMode"),
            Column("AllowVolumeExpansion", "storage_v1.StorageClass.allowVolumeExpansion"),
            AGE,
        ),
        _storage_class,
    ),
    kinds.CSI_NODE: (
        (NAME, Column("Drivers", "Drivers indicates the number of CSI drivers registered on the node", "integer"), AGE),
        _csi_node,
    ),
    kinds.CSI_DRIVER: (
        (
            NAME,
            Column("AttachRequired", "storage_v1.CSIDriverSpec.attachRequired", "boolean"),
            Column("PodInfoOnMount", "storage_v1.CSIDriverSpec.podInfoOnMount", "boolean"),
            Column("StorageCapacity", "storage_v1.CSIDriverSpec.storageCapacity", "boolean"),
            Column("TokenRequests", "storage_v1.CSIDriverSpec.tokenRequests"),
            Column("RequiresRepublish", "storage_v1.CSIDriverSpec.requiresRepublish", "boolean"),
            Column("Modes", "storage_v1.CSIDriverSpec.volumeLifecycleModes"),
            AGE,
        ),
        _csi_driver,
    ),
    kinds.CSI_STORAGE_CAPACITY: (
        (
            NAME,
            Column("StorageClassName", "storage_v1.CSIStorageCapacity.storageClassName"),
            Column("Capacity", "storage_v1.CSIStorageCapacity.capacity"),
        ),
        _capacity,
    ),
    kinds.VOLUME_ATTACHMENT: (
        (
            NAME,
            Column("Attacher", "storage_v1.VolumeAttachmentSpec.attacher", format="name"),
            Column("PV", "storage_v1.VolumeAttachmentSource.persistentVolumeName"),
            Column("Node", "storage_v1.VolumeAttachmentSpec.nodeName"),
            Column("Attached", "storage_v1.VolumeAttachmentStatus.attached", "boolean"),
            AGE,
        ),
        _attachment,
    ),
    kinds.RESOURCE_CLAIM: (
        (NAME, Column("State", "A summary of the current state (allocated, pending, reserved, etc.)."), AGE),
        _resource_claim,
    ),
    kinds.RESOURCE_SLICE: (
        (
            NAME,
            Column("Node", "resource_v1.ResourceSliceSpec.nodeName"),
            Column("Driver", "resource_v1.ResourceSliceSpec.driver"),
            Column("Pool", "resource_v1.ResourcePool.name"),
            AGE,
        ),
        _slice,
    ),
}
