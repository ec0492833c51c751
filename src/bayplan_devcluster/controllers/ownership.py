"""The adoption of objects that a controller's selector matches.

Mirrors pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lightkube.models.meta_v1 import OwnerReference

from bayplan.core.api.kinds import Kind
from bayplan.core.api.labels import LabelSelector
from bayplan.core.expansion.owner_references import controller_reference
from bayplan.running.client.client import Client, PatchType
from bayplan_devcluster.controllers.controller import Ignored


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
