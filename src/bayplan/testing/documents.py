"""Converts the objects of tests, in all their forms, to the documents that a client would send."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import NODE, POD, TYPED_KINDS, VERSIONED_KINDS, Kind, kind_of
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState

Document = Mapping[str, Any]

_BY_NAME = {(kind.api_version, kind.kind): kind for kind in (*TYPED_KINDS, *VERSIONED_KINDS)}
_ASSIGNED = ("creationTimestamp", "uid", "resourceVersion")
"""Metadata that the server assigns."""


@cache
def _by_type() -> dict[type[Any], Kind]:
    return {kind.type: kind for kind in (*TYPED_KINDS, *VERSIONED_KINDS)}


def document_of(obj: Any) -> tuple[Kind, dict[str, Any]]:
    """Return the kind and the document of an object.

    It may be a PodInfo, a typed object, a document with apiVersion and kind, or for custom objects
    `("plural.version.group", document)`. Raises TypeError for anything else, and ValueError for another reference.
    """
    if isinstance(obj, PodInfo):
        return POD, msgspec.json.decode(obj.raw)
    if isinstance(obj, tuple):
        return kind_of(obj[0]), dict(obj[1])
    if isinstance(obj, Mapping):
        wanted = (str(obj.get("apiVersion")), str(obj.get("kind")))
        if wanted not in _BY_NAME:
            raise TypeError(f"no such kind: {' '.join(wanted)}; a custom one is given as (reference, document)")
        return _BY_NAME[wanted], dict(obj)
    if type(obj) not in _by_type():
        raise TypeError(f"expected a pod (PodInfo), a typed object or a document, got {type(obj).__name__}")
    return _by_type()[type(obj)], msgspec.json.decode(encode(obj))


def as_sent(obj: Any, *, status: bool = False) -> tuple[Kind, dict[str, Any]]:
    """Return the kind and the document to send to an API server. Raises the errors of `document_of`.

    The document lacks the fields that the server assigns and `make_pod` sets for tests without a server: the uid, the
    creation time, and a pod's status unless `status` is true.
    """
    kind, document = document_of(obj)
    metadata = {key: value for key, value in document["metadata"].items() if key not in _ASSIGNED}
    document = {**document, "metadata": metadata}
    if kind is POD and not status:
        document.pop("status", None)
    return kind, document


def typed(kind: Kind, document: Document) -> Any:
    """Return an object as plugins get it: a pod as PodInfo, custom ones as CustomObject, others as their models.

    Raises UndecodableObject, or InvalidQuantity for a pod.
    """
    if not kind.model:
        return CustomObject(document)
    obj = convert(kind.type, document)
    return PodInfo(obj) if kind is POD else obj


def key_of(kind: Kind, document: Document) -> str:
    """Return `namespace/name`, or `name` for a kind without namespaces."""
    metadata = document["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}" if kind.namespaced else str(metadata["name"])


def known(obj: Any) -> tuple[Kind, str, Any]:
    """Return the kind, the key and the typed form of an object; a typed object is returned as is. Raises TypeError."""
    if isinstance(obj, PodInfo):
        return POD, obj.key, obj
    if type(obj) in _by_type():
        kind = _by_type()[type(obj)]
        namespace = f"{obj.metadata.namespace or 'default'}/" if kind.namespaced else ""
        return kind, f"{namespace}{obj.metadata.name}", obj
    kind, document = document_of(obj)
    return kind, key_of(kind, document), typed(kind, document)


def put(state: ClusterState, kind: Kind, key: str, obj: Any) -> None:
    """Add or update a typed object in the state, like a watch event."""
    if kind is NODE:
        state.set_node(obj)
    elif kind is POD:
        state.set_pod(obj)
    state.objects[kind].set(key, obj)
