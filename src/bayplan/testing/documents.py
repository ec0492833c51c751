"""Objects in whatever form a test has them, as documents: what a server would be sent, and what can be printed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from bayplan.api.custom_objects import CustomObject
from bayplan.api.kinds import ALPHA_KINDS, KINDS, NODE, POD, Kind, kind_of
from bayplan.api.objects import convert, encode
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState

Document = Mapping[str, Any]

_BY_NAME = {(kind.api_version, kind.kind): kind for kind in (*KINDS, *ALPHA_KINDS)}
_ASSIGNED = ("creationTimestamp", "uid", "resourceVersion")
"""Metadata that the server assigns."""


@cache
def _by_type() -> dict[type[Any], Kind]:
    return {kind.type: kind for kind in (*KINDS, *ALPHA_KINDS)}


def document_of(obj: Any) -> tuple[Kind, dict[str, Any]]:
    """An object with its kind: a pod (PodInfo), a typed object, a document with apiVersion and kind, or, for custom
    ones, `("plural.version.group", document)`.

    Raises TypeError for what is none of these, and ValueError for a reference that is not `plural.version.group`.
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
    """An object as it is sent to an API server, with its kind. Raises what `document_of` raises.

    It leaves out what the server assigns, which `make_pod` sets for tests without a server: the uid and the creation
    time, and a pod's status unless `status` is true.
    """
    kind, document = document_of(obj)
    metadata = {key: value for key, value in document["metadata"].items() if key not in _ASSIGNED}
    document = {**document, "metadata": metadata}
    if kind is POD and not status:
        document.pop("status", None)
    return kind, document


def typed(kind: Kind, document: Document) -> Any:
    """An object as plugins see it: pods as PodInfo, others as their models, custom ones as CustomObject.

    Raises UndecodableObject, or InvalidQuantity for a pod.
    """
    if not kind.model:
        return CustomObject(document)
    obj = convert(kind.type, document)
    return PodInfo(obj) if kind is POD else obj


def key_of(kind: Kind, document: Document) -> str:
    """`namespace/name`, or `name` where the kind has no namespaces."""
    metadata = document["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}" if kind.namespaced else str(metadata["name"])


def known(obj: Any) -> tuple[Kind, str, Any]:
    """An object in any form with its kind and key, typed: one that is typed already stays itself. Raises TypeError."""
    if isinstance(obj, PodInfo):
        return POD, obj.key, obj
    if type(obj) in _by_type():
        kind = _by_type()[type(obj)]
        namespace = f"{obj.metadata.namespace or 'default'}/" if kind.namespaced else ""
        return kind, f"{namespace}{obj.metadata.name}", obj
    kind, document = document_of(obj)
    return kind, key_of(kind, document), typed(kind, document)


def put(state: ClusterState, kind: Kind, key: str, obj: Any) -> None:
    """Tell a cluster of a typed object, as a server would: it is new, or has changed."""
    if kind is NODE:
        state.set_node(obj)
    elif kind is POD:
        state.set_pod(obj)
    state.objects[kind].set(key, obj)
