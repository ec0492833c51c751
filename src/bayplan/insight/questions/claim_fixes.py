"""Objects that a pod's persistent volume claims lack: the claims themselves, storage classes, and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.api.objects import convert, encode
from bayplan.api.volumes import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    annotations_of,
    claim_name,
    class_of_claim,
    full_name,
    is_fully_bound,
    volume_name,
)
from bayplan.cluster.pod_info import PodInfo
from bayplan.simulation import volumes
from bayplan.simulation.world import World

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

Document = Mapping[str, Any]


def claim_objects(world: World, pod: PodInfo) -> tuple[str, tuple[Document, ...]]:
    """Return what to create so that all claims of a pod may be bound, as text and as documents.

    Empty if nothing is missing, or it isn't known what to create.
    """
    texts, documents = [], []
    for name in _claim_names(pod):
        for text, document in _missing(world, pod.namespace, name):
            texts.append(text)
            documents.append(document)
    return " and ".join(dict.fromkeys(texts)), tuple(documents)


def settle_claims(world: World, pod: PodInfo) -> None:
    """Bind the pod's claims that controllers would bind now: to a volume from `claim_objects`, or a provisioned one."""
    objects = world.state.objects
    for name in _claim_names(pod):
        key = f"{pod.namespace}/{name}"
        claim = objects[PERSISTENT_VOLUME_CLAIM].get(key)
        storage_class = None if claim is None else objects[STORAGE_CLASS].get(class_of_claim(claim))
        waits = storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
        if claim is None or volume_name(claim):
            continue
        volume = objects[PERSISTENT_VOLUME].get(_volume_name(claim))
        if volume is not None:
            volume, claim = volumes.bound(volume, claim)
        elif storage_class is not None and not waits and storage_class.provisioner != NO_PROVISIONER:
            volume, claim = volumes.provisioned(claim, objects)
        else:
            continue
        world.change(PERSISTENT_VOLUME, full_name(volume), volume)
        world.change(PERSISTENT_VOLUME_CLAIM, key, claim)


def _volume_name(claim: Any) -> str:
    return f"{claim.metadata.namespace}-{claim.metadata.name}"


def _claim_names(pod: PodInfo) -> list[str]:
    names = [claim_name(pod.name, volume) for volume in pod.volumes if volume.persistentVolumeClaim is not None]
    return [name for name in names if name is not None]


def _missing(world: World, namespace: str, name: str) -> Iterator[tuple[str, Document]]:
    """Yield what a claim lacks."""
    claim = world.state.objects[PERSISTENT_VOLUME_CLAIM].get(f"{namespace}/{name}")
    classes = world.state.objects[STORAGE_CLASS]
    if claim is None:
        model = _model(world)
        document = _claim(namespace, name, model.metadata.name if model is not None else "")
        if model is not None:
            yield f"create the persistentvolumeclaim {name} with storage class {model.metadata.name}", document
        else:
            yield f"create the persistentvolumeclaim {name}", document
            volume = _volume(convert(PERSISTENT_VOLUME_CLAIM.type, document), "", "1Gi")
            del volume["spec"]["claimRef"]["uid"]  # the server gives the claim another one
            yield "a persistent volume of 1Gi for it", volume
        return
    if is_fully_bound(claim):
        return
    wanted = class_of_claim(claim)
    storage_class = classes.get(wanted)
    if storage_class is None and wanted:
        model = _model(world)
        if model is not None:
            text = f"create the storage class {wanted} like {model.metadata.name}"
            yield text, _storage_class(wanted, model)
    elif storage_class is None or storage_class.provisioner == NO_PROVISIONER:
        size = ((claim.spec.resources.requests if claim.spec.resources else None) or {}).get("storage", "1Gi")
        yield f"create a persistent volume of {size} for the persistentvolumeclaim {name}", _volume(claim, wanted, size)


def _model(world: World) -> Any:
    """The storage class to use where none is known: the default one, or the first one with a provisioner."""
    classes = [each for each in world.state.objects[STORAGE_CLASS].values() if each.provisioner != NO_PROVISIONER]

    def order(each: Any) -> tuple[bool, bool, str]:
        is_default = annotations_of(each).get(_DEFAULT_CLASS) == "true"
        return not is_default, each.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER, each.metadata.name

    return min(classes, key=order, default=None)


def _claim(namespace: str, name: str, storage_class: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"new-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
        },
    }


def _storage_class(name: str, model: Any) -> Document:
    document = msgspec.json.decode(encode(model))
    return {**document, "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}


def _volume(claim: Any, storage_class: str, size: str) -> dict[str, Any]:
    metadata = claim.metadata
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace}
    name = _volume_name(claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"new-{name}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(claim.spec.accessModes or ["ReadWriteOnce"]),
            "storageClassName": storage_class,
            "claimRef": {**reference, "name": metadata.name, "uid": metadata.uid},
            "hostPath": {"path": f"/var/lib/volumes/{name}"},
        },
        "status": {"phase": "Available"},
    }
