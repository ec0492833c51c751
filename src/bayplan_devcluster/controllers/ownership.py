"""Owner references, and the adoption of objects that a controller's selector matches.

Mirrors pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import OwnerReference

from bayplan.core.api.kinds import Kind
from bayplan.core.api.labels import LabelSelector
from bayplan.running.client.client import Client, PatchType
from bayplan_devcluster.controllers.controller import Ignored


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


async def claim(
    client: Client,
    owner_kind: Kind,
    owner: Any,
    dependent_kind: Kind,
    selector: LabelSelector,
    owned: Iterable[Any],
    orphans: Iterable[Any],
) -> list[Any]:
    """The dependents of `owner`, after it has adopted matching orphans and released dependents that no longer match.

    `owned` are the objects whose controller is `owner` already. A terminating owner doesn't adopt.
    """
    claimed = []
    for dependent in owned:
        if selector.matches(dependent.metadata.labels or {}):
            claimed.append(dependent)
        elif owner.metadata.deletionTimestamp is None:
            await _release(client, owner, dependent_kind, dependent)
    if owner.metadata.deletionTimestamp is None:
        for dependent in orphans:
            if selector.matches(dependent.metadata.labels or {}) and dependent.metadata.deletionTimestamp is None:
                adopted = await _adopt(client, owner_kind, owner, dependent_kind, dependent)
                claimed += [adopted] if adopted is not None else []
    return claimed


async def _adopt(client: Client, owner_kind: Kind, owner: Any, kind: Kind, dependent: Any) -> Any | None:
    references = [*(dependent.metadata.ownerReferences or ()), controller_reference(owner_kind, owner)]
    return await set_owners(client, kind, dependent, references)


async def _release(client: Client, owner: Any, kind: Kind, dependent: Any) -> None:
    references = [one for one in dependent.metadata.ownerReferences if one.uid != owner.metadata.uid]
    await set_owners(client, kind, dependent, references)


async def set_owners(client: Client, kind: Kind, dependent: Any, references: list[OwnerReference]) -> Any | None:
    """Set the owners of a dependent, unless it has changed (ApiError 409). Returns None if it is gone.

    The uid in the patch excludes a new object of the same name.
    """
    metadata = dependent.metadata
    patch = {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion, "ownerReferences": references}
    }
    with Ignored(404):
        return await client.patch(kind, metadata.name, patch, metadata.namespace, type=PatchType.MERGE)
    return None
