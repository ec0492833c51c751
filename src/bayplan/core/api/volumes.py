"""Accessors for the volumes of pods, persistent volume claims and persistent volumes.

Mirrors component-helpers' storage/volume and storage/ephemeral.
"""

from __future__ import annotations

from typing import Any

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim, PodSpec, Volume

from bayplan.core.api import quantity
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.api.well_known_labels import BETA_STORAGE_CLASS

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

_ZONES_DELIMITER = "__"


def decisive(spec: PodSpec) -> tuple[Volume, ...]:
    """The volumes of a pod that can affect scheduling: claims, and disks that the pod's spec names itself."""
    return tuple([volume for volume in spec.volumes or () if _is_decisive(volume)])


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The name of a volume's claim, in the namespace of the pod; None for a volume without a claim."""
    if volume.persistentVolumeClaim is not None:
        return volume.persistentVolumeClaim.claimName
    return f"{pod_name}-{volume.name}" if volume.ephemeral is not None else None


def is_controlled_by(claim: PersistentVolumeClaim, uid: str) -> bool:
    """Whether the pod with this UID owns a claim, as it owns the claims of its ephemeral volumes."""
    owners = (claim.metadata.ownerReferences if claim.metadata else None) or ()
    return next((owner.uid == uid for owner in owners if owner.controller), False)


def annotations_of(obj: Any) -> dict[str, str]:
    """The annotations of an object."""
    return (obj.metadata.annotations if obj.metadata else None) or {}


def full_name(obj: Any) -> str:
    """`namespace/name`, or `name`: the key in an object store."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim; "" for none."""
    spec = claim.spec
    return annotations_of(claim).get(BETA_STORAGE_CLASS, (spec.storageClassName if spec else None) or "")


def class_of_volume(volume: PersistentVolume) -> str:
    """The storage class of a volume; "" for none."""
    spec = volume.spec
    return annotations_of(volume).get(BETA_STORAGE_CLASS, (spec.storageClassName if spec else None) or "")


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The volume that a claim is bound to or requests; "" for none."""
    return (claim.spec.volumeName if claim.spec else None) or ""


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim's binding is complete: claim and volume refer to each other."""
    return bool(volume_name(claim)) and BIND_COMPLETED in annotations_of(claim)


def requested_storage(claim: PersistentVolumeClaim) -> int | None:
    """The storage that a claim requests, in nano-units; None if it requests none."""
    resources = claim.spec.resources if claim.spec else None
    amount = ((resources.requests if resources else None) or {}).get("storage")
    return None if amount is None else _amount(amount)


def capacity(volume: PersistentVolume) -> int:
    """The capacity of a volume, in nano-units."""
    return _amount(((volume.spec.capacity if volume.spec else None) or {}).get("storage"))


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim or reserved for it."""
    reference = volume.spec.claimRef if volume.spec else None
    metadata = claim.metadata
    if reference is None or metadata is None:
        return False
    if (reference.namespace or "", reference.name) != (metadata.namespace or "", metadata.name):
        return False
    return not reference.uid or reference.uid == metadata.uid


def zones(label: str) -> frozenset[str] | None:
    """The zones in a volume's zone label, such as `a__b`; None for a malformed label."""
    names = [name.strip() for name in label.split(_ZONES_DELIMITER)]
    return frozenset(names) if all(names) else None


def _amount(text: str | None) -> int:
    """Nano-units; 0 for a malformed quantity, which no API server stores."""
    try:
        return quantity.parse(text) if text is not None else 0
    except InvalidQuantity:
        return 0


def _is_decisive(volume: Volume) -> bool:
    return (
        volume.persistentVolumeClaim is not None
        or volume.ephemeral is not None
        or volume.gcePersistentDisk is not None
        or volume.awsElasticBlockStore is not None
        or volume.iscsi is not None
        or volume.rbd is not None
        or volume.azureDisk is not None
        or volume.azureFile is not None
        or volume.cinder is not None
        or volume.portworxVolume is not None
        or volume.vsphereVolume is not None
    )
