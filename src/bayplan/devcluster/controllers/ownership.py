"""Who owns whom: owner references, and the claim of a controller on what its selector matches.

Mirrors pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import OwnerReference

from bayplan.api.kinds import Kind
from bayplan.client import ApiError, Client, PatchType
from bayplan.devcluster.controllers.selectors import Selector


def reference_to(kind: Kind, obj: Any) -> ObjectReference:
    """What an object says of another, as it is now."""
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
    """The reference that makes `owner` the managing controller of a dependent."""
    return OwnerReference(
        apiVersion=kind.api_version,
        kind=kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def controller_of(obj: Any) -> OwnerReference | None:
    """The reference to the managing controller, if there is one."""
    for reference in obj.metadata.ownerReferences or ():
        if reference.controller:
            found: OwnerReference = reference
            return found
    return None


def controller_uids(obj: Any) -> tuple[str, ...]:
    """The managing controller's uid as index values; "" stands for an orphan, with its namespace."""
    reference = controller_of(obj)
    return (reference.uid,) if reference is not None else (orphans_of(obj.metadata.namespace),)


def orphans_of(namespace: str) -> str:
    """The value under which `controller_uids` has the orphans of a namespace."""
    return f"orphans of {namespace}"


async def claim(
    client: Client,
    owner_kind: Kind,
    owner: Any,
    dependent_kind: Kind,
    selector: Selector,
    owned: Iterable[Any],
    orphans: Iterable[Any],
) -> list[Any]:
    """The dependents of `owner`: orphans that match are adopted, dependents that no longer match are released.

    `owned` are those whose controller is `owner` already. An owner that is being deleted claims nothing new.
    """
    claimed = []
    for dependent in owned:
        if selector.matches(dependent.metadata.labels):
            claimed.append(dependent)
        elif owner.metadata.deletionTimestamp is None:
            await _release(client, owner, dependent_kind, dependent)
    if owner.metadata.deletionTimestamp is None:
        for dependent in orphans:
            if selector.matches(dependent.metadata.labels) and dependent.metadata.deletionTimestamp is None:
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
    """Write the owners of a dependent, unless it has changed since (ApiError 409). Returns None if it is gone."""
    metadata = dependent.metadata
    patch = {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion, "ownerReferences": references}
    }
    try:
        return await client.patch(kind, metadata.name, patch, metadata.namespace, type=PatchType.MERGE)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
