"""Owner references: which controller manages an object. Mirrors apimachinery's pkg/apis/meta/v1/controller_ref.go."""

from __future__ import annotations

from typing import Any

from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import OwnerReference

from bayplan.core.api.kinds import Kind


def reference_to(kind: Kind, obj: Any) -> ObjectReference:
    """An ObjectReference to an object in its current version."""
    metadata = obj.metadata
    return ObjectReference(
        apiVersion=kind.api_version,
        kind=kind.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resourceVersion=metadata.resourceVersion,
    )


def controller_reference(kind: Kind, owner: Any) -> OwnerReference:
    """The owner reference to `owner` as the managing controller."""
    return OwnerReference(
        apiVersion=kind.api_version,
        kind=kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def controller_of(obj: Any) -> OwnerReference | None:
    """The owner reference to the managing controller, if there is one."""
    for reference in obj.metadata.ownerReferences or ():
        if reference.controller:
            found: OwnerReference = reference
            return found
    return None


def controller_uids(obj: Any) -> tuple[str, ...]:
    """The managing controller's uid, or the value for orphans of the namespace, as index values."""
    reference = controller_of(obj)
    return (reference.uid,) if reference is not None else (orphans_of(obj.metadata.namespace),)


def orphans_of(namespace: str) -> str:
    """The index value of `controller_uids` for the orphans of a namespace."""
    return f"orphans of {namespace}"
