"""Remedies for persistent volume claims that lack something: the claim itself, its storage class, or a volume.

A remedy has the documents to apply, so that a question can try it (`bayplan.core.framework.remedies`). It never changes
a decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.objects import convert, encode
from bayplan.core.api.volumes import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    annotations_of,
    claim_name,
    class_of_claim,
    is_fully_bound,
)
from bayplan.core.api.well_known_labels import DEFAULT_STORAGE_CLASS
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.remedies import Document, Remedy


class MissingVolumes:
    """Remedies for claims that are missing, or that no volume can be bound to."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)
        self._classes = handle.objects(STORAGE_CLASS)

    def remedies(self, pod: PodInfo) -> Iterator[Remedy]:
        """Yield what to create so that all claims of a pod may be bound; nothing if that is unknown or not needed."""
        names = [claim_name(pod.name, volume) for volume in pod.volumes if volume.persistentVolumeClaim is not None]
        missing = [each for name in names if name is not None for each in self._missing(pod.namespace, name)]
        if missing:
            texts = dict.fromkeys(text for text, _ in missing)
            yield Remedy(" and ".join(texts), apply=tuple(document for _, document in missing))

    def _missing(self, namespace: str, name: str) -> Iterator[tuple[str, Document]]:
        """Yield what a claim lacks."""
        claim = self._claims.get(f"{namespace}/{name}")
        if claim is None:
            model = self._model()
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
        storage_class = self._classes.get(wanted)
        if storage_class is None and wanted:
            model = self._model()
            if model is not None:
                text = f"create the storage class {wanted} like {model.metadata.name}"
                yield text, _storage_class(wanted, model)
        elif storage_class is None or storage_class.provisioner == NO_PROVISIONER:
            size = ((claim.spec.resources.requests if claim.spec.resources else None) or {}).get("storage", "1Gi")
            yield (
                f"create a persistent volume of {size} for the persistentvolumeclaim {name}",
                _volume(claim, wanted, size),
            )

    def _model(self) -> Any:
        """The storage class to use where none is known: the default one, or the first one with a provisioner."""
        classes = [each for each in self._classes.values() if each.provisioner != NO_PROVISIONER]

        def order(each: Any) -> tuple[bool, bool, str]:
            is_default = annotations_of(each).get(DEFAULT_STORAGE_CLASS) == "true"
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
    name = f"{metadata.namespace}-{metadata.name}"
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
