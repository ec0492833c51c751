"""Kinds that a dump lacks although its objects refer to them: its author didn't ask for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.answers.snapshots.documents import identify
from bayplan.answers.snapshots.reading import Documents, Gap, SnapshotError
from bayplan.answers.snapshots.rights import EFFECTS
from bayplan.core.api import kinds
from bayplan.core.api.coscheduling import POD_GROUP_LABEL
from bayplan.core.api.coscheduling import POD_GROUPS as COSCHEDULING_POD_GROUPS
from bayplan.core.api.kinds import Kind, custom_kind
from bayplan.core.api.objects import encode
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS


@dataclass(frozen=True, slots=True)
class _Reference:
    """Objects of `kind` refer to another kind if their JSON has `field`, a pattern.

    `without`: a field that makes the other kind needless.
    """

    kind: Kind
    field: bytes
    what: str
    without: bytes = b""


_CLAIM_OF_POD = _Reference(kinds.POD, b'"persistentVolumeClaim":', "pods refer to them")
_DEVICES_OF_POD = _Reference(kinds.POD, b'"resourceClaims":', "pods refer to them")
_REFERENCES: Mapping[Kind, _Reference] = {
    kinds.PRIORITY_CLASS: _Reference(
        kinds.POD, b'"priorityClassName":"', "pods name some", b'"priorityClassName":"system-'
    ),
    kinds.PERSISTENT_VOLUME_CLAIM: _CLAIM_OF_POD,
    kinds.PERSISTENT_VOLUME: _Reference(kinds.PERSISTENT_VOLUME_CLAIM, b'"volumeName":"', "claims are bound to them"),
    kinds.STORAGE_CLASS: _Reference(
        kinds.PERSISTENT_VOLUME_CLAIM, b'"storageClassName":"[^"]', "claims need them", b'"volumeName":"'
    ),
    kinds.RESOURCE_CLAIM: _DEVICES_OF_POD,
    kinds.DEVICE_CLASS: _Reference(kinds.RESOURCE_CLAIM, b'"deviceClassName":', "claims refer to them"),
    kinds.RESOURCE_SLICE: _Reference(kinds.RESOURCE_CLAIM, b'"deviceClassName":', "claims need their devices"),
    kinds.NAMESPACE: _Reference(kinds.POD, b'"namespaceSelector":{"', "pods select them"),
    custom_kind(POD_GROUPS): _Reference(kinds.POD, b'"podGroupName":"', "pods refer to them"),
    custom_kind(COMPOSITES): _Reference(
        custom_kind(POD_GROUPS), b'"parentCompositePodGroupName":"', "PodGroups are in them"
    ),
    custom_kind(COSCHEDULING_POD_GROUPS): _Reference(kinds.POD, f'"{POD_GROUP_LABEL}":'.encode(), "pods refer to them"),
}


def lacking(documents: Documents) -> tuple[Gap, ...]:
    """The kinds that should have objects and have none, with what that costs the answers."""
    gaps = [] if documents.get(kinds.NODE) else [Gap(kinds.NODE, "there are none in the files", "no pod can be placed")]
    for kind, reference in _REFERENCES.items():
        if documents.get(kind):
            continue
        for raw in documents.get(reference.kind, {}).values():
            if re.search(reference.field, raw) and (not reference.without or reference.without not in raw):
                reason = f"there are none in the files, although {reference.what}"
                gaps.append(Gap(kind, reason, EFFECTS[kind]))
                break
    return tuple(gaps)


def lacking_for(documents: Documents, manifests: Iterable[Mapping[str, Any]]) -> tuple[Gap, ...]:
    """The kinds without an object in a dump or in manifests, although the manifests need some.

    PriorityClasses aren't among them: pods that name an unknown one are refused, and say so.
    """
    found = [_found(manifest) for manifest in manifests]
    given, text = {kind for kind, _ in found}, b"\n".join(raw for _, raw in found)
    return tuple(
        Gap(kind, "there are none in the files, although the manifests refer to them", EFFECTS[kind])
        for kind, reference in _REFERENCES.items()
        if kind not in {*given, kinds.PRIORITY_CLASS} and not documents.get(kind) and re.search(reference.field, text)
    )


def _found(document: Mapping[str, Any]) -> tuple[Kind | None, bytes]:
    try:
        kind, _, raw = identify(document)
    except SnapshotError:  # without a name, for example
        return None, encode(document)
    return kind, raw
