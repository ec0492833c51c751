"""The revision history of StatefulSets and DaemonSets: one ControllerRevision for each pod template they have had.

Mirrors pkg/controller/history/controller_history.go. A revision's data is a strategic merge patch that restores the
template, as `kubectl rollout undo` applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import PodTemplateSpec

from bayplan.core.api.kinds import CONTROLLER_REVISION, Kind
from bayplan.core.api.objects import UndecodableObject, convert
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.served import ControllerRevision, Metadata, Workload
from bayplan.core.expansion import rollout
from bayplan.core.expansion.owner_references import controller_reference, controller_uids, orphans_of
from bayplan.running.client.client import Client, PatchType
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import Ignored
from bayplan_devcluster.controllers.informers import Informer
from bayplan_devcluster.controllers.ownership import claim

LONGEST_PREFIX = 223
"""Characters of the owner's name in the names of its revisions."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RevisionHistory:
    """The ControllerRevisions of the owners of one kind."""

    def __init__(self, client: Client, owner_kind: Kind, informer: Informer, hash_label: str) -> None:
        self._client = client
        self._kind = owner_kind
        self._informer = informer
        self._hash_label = hash_label
        """The label of a revision with the hash of its template."""
        self._by_controller = informer.index(controller_uids)

    async def claim(self, owner: Workload) -> list[ControllerRevision]:
        """The owner's revisions, oldest first; orphans that match its selector are adopted."""
        metadata = owner.metadata
        claimed = await claim(
            self._client,
            self._kind,
            owner,
            CONTROLLER_REVISION,
            selector_or_nothing(owner.spec.selector),
            self._by_controller.get(metadata.uid),
            self._by_controller.get(orphans_of(metadata.namespace)),
        )
        await self._informer.observe(claimed)
        return sorted(claimed, key=_age)

    async def current(
        self, owner: Workload, revisions: Sequence[ControllerRevision]
    ) -> tuple[ControllerRevision, int | None]:
        """The revision of the owner's present template, and the number of name collisions for its status.

        A new template gets a new revision; one that the owner goes back to gets the highest number again. `revisions`
        are those of the owner, oldest first.
        """
        collisions = owner.status.collisionCount if owner.status else None
        template = rollout.canonical(owner.spec.template)
        equal = [one for one in revisions if rollout.canonical(template_of(one)) == template]
        latest = revisions[-1].revision or 0 if revisions else 0
        if not equal:
            return await self._create(owner, latest + 1, collisions)
        found = equal[-1]
        if found is not revisions[-1]:
            found = await self._renumber(found, latest + 1)
        return found, collisions

    async def delete(self, revisions: Iterable[ControllerRevision]) -> None:
        """Delete revisions from the history."""
        for one in revisions:
            metadata = one.metadata
            with Ignored(404, 409):  # gone already, or replaced by a namesake
                await self._client.delete(CONTROLLER_REVISION, metadata.name, metadata.namespace, uid=metadata.uid)

    async def _create(
        self, owner: Workload, number: int, collisions: int | None
    ) -> tuple[ControllerRevision, int | None]:
        while True:
            revision = new_revision(self._kind, owner, number, collisions, self._hash_label)
            metadata = revision.metadata
            try:
                created = await self._client.create(CONTROLLER_REVISION, revision, owner.metadata.namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                created = await self._client.get(CONTROLLER_REVISION, metadata.name, owner.metadata.namespace)
                if rollout.canonical(template_of(created)) != rollout.canonical(owner.spec.template):
                    collisions = (collisions or 0) + 1
                    continue
            await self._informer.observe([created])
            return created, collisions

    async def _renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        metadata = revision.metadata
        patch = {"metadata": {"uid": metadata.uid}, "revision": number}
        written: ControllerRevision = await self._client.patch(
            CONTROLLER_REVISION, metadata.name, patch, metadata.namespace, type=PatchType.MERGE
        )
        await self._informer.observe([written])
        return written


def new_revision(
    owner_kind: Kind, owner: Workload, number: int, collisions: int | None, hash_label: str
) -> ControllerRevision:
    """The revision of the owner's present template. It carries the owner's annotations, such as the change cause."""
    template = owner.spec.template
    digest = rollout.pod_template_hash(template, collisions)
    labels = (template.metadata.labels if template.metadata else None) or {}
    return ControllerRevision(
        metadata=Metadata(
            name=f"{owner.metadata.name[:LONGEST_PREFIX]}-{digest}",
            labels={**labels, hash_label: digest},
            annotations=dict(owner.metadata.annotations or {}) or None,
            ownerReferences=[controller_reference(owner_kind, owner)],
        ),
        data={"spec": {"template": {"$patch": "replace", **_document(template)}}},
        revision=number,
    )


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """The pod template that a revision restores. An empty one for a revision with other data."""
    data: Any = revision.data
    for name in ("spec", "template"):
        data = data.get(name) if isinstance(data, dict) else None
    document = {name: value for name, value in (data or {}).items() if name != "$patch"}
    try:
        return convert(PodTemplateSpec, document)
    except UndecodableObject:
        return PodTemplateSpec()


def _document(template: PodTemplateSpec) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(template)
    return document


def _age(revision: ControllerRevision) -> tuple[int, datetime, str]:
    metadata = revision.metadata
    return (revision.revision or 0, metadata.creationTimestamp or _LONG_AGO, metadata.name)
