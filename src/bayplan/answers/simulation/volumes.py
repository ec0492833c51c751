"""Binds claims and volumes, and provisions volumes, as the volume controller and CSI provisioners do.

Where a scheduler waits for these controllers in PreBind, a simulation does their work at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightkube.models.core_v1 import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
)
from msgspec import structs

from bayplan.core.api.kinds import CSI_NODE, NODE, PERSISTENT_VOLUME, STORAGE_CLASS
from bayplan.core.api.objects import convert
from bayplan.core.api.volumes import BIND_COMPLETED, SELECTED_NODE, annotations_of, class_of_claim
from bayplan.core.cluster.objects import ObjectStores


def patched(obj: Any, patch: Mapping[str, Any]) -> Any:
    """Return a volume or a claim with a patch of VolumeBinding: annotations, and the volume's claimRef."""
    annotations = (patch.get("metadata") or {}).get("annotations") or {}
    metadata = structs.replace(obj.metadata, annotations={**annotations_of(obj), **annotations})
    return structs.replace(obj, metadata=metadata, spec=structs.replace(obj.spec, **(patch.get("spec") or {})))


def claimed(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a volume that is reserved for a claim."""
    assert volume.spec is not None
    assert claim.metadata is not None
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
    )
    return structs.replace(volume, spec=structs.replace(volume.spec, claimRef=reference))


def bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    """Return a volume and a claim, bound to each other."""
    assert volume.metadata is not None
    assert volume.spec is not None
    assert claim.metadata is not None
    assert claim.spec is not None
    annotations = {**annotations_of(claim), BIND_COMPLETED: "yes"}
    bound_claim = structs.replace(
        claim,
        metadata=structs.replace(claim.metadata, annotations=annotations),
        spec=structs.replace(claim.spec, volumeName=volume.metadata.name),
        status=PersistentVolumeClaimStatus(phase="Bound", capacity=volume.spec.capacity),
    )
    return structs.replace(volume, status=PersistentVolumeStatus(phase="Bound")), bound_claim


def provisioned(claim: PersistentVolumeClaim, objects: ObjectStores) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    """Return a new volume for a claim, and the claim bound to it.

    If the claim has a selected node, the nodes with that node's topology, in the terms of the CSI driver, have access
    to the volume; else all nodes have.
    """
    assert claim.metadata is not None
    assert claim.spec is not None
    name, node_name = f"pvc-{claim.metadata.uid}", annotations_of(claim).get(SELECTED_NODE, "")
    storage_class = objects[STORAGE_CLASS].get(class_of_claim(claim))
    driver = storage_class.provisioner if storage_class is not None else ""
    labels = objects[NODE][node_name].metadata.labels or {} if node_name else {}
    drivers = getattr(getattr(objects[CSI_NODE].get(node_name), "spec", None), "drivers", None) or ()
    keys = next((each.topologyKeys or () for each in drivers if each.name == driver), ())
    terms = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}} if terms else {}
    requests = claim.spec.resources.requests if claim.spec.resources is not None else None
    document = {
        "metadata": {"name": name, "uid": name},
        "spec": {
            "accessModes": claim.spec.accessModes or [],
            "capacity": requests or {},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
            "csi": {"driver": driver, "volumeHandle": name},
            "storageClassName": class_of_claim(claim),
            "volumeMode": claim.spec.volumeMode or "Filesystem",
            **affinity,
        },
    }
    return bound(convert(PERSISTENT_VOLUME.type, document), claim)
