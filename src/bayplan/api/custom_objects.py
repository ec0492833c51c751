"""Objects of kinds that Bayplan has no types for: custom resources, by their references `plural.version.group`."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api.kinds import KINDS, Kind

_REFERENCE = re.compile(r"(?P<plural>[a-z0-9-]+)\.(?P<version>v[0-9]+[a-z0-9]*)\.(?P<group>[a-z0-9.-]+)")


class CustomObject(dict[str, Any]):
    """A whole document, with its metadata typed too: `group["spec"]["minMember"]`, `group.metadata.name`."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata. Raises msgspec.ValidationError for one that is none."""
        return msgspec.convert(self.get("metadata") or {}, ObjectMeta)


def kind_of(reference: str) -> Kind:
    """The kind that an event or a plugin means: by its name, as in `Pod`, or as `plural.version.group`.

    Raises ValueError.
    """
    for kind in KINDS:
        if kind.kind == reference:
            return kind
    return custom_kind(reference)


def custom_kind(reference: str, *, namespaced: bool = True) -> Kind:
    """The kind that `plural.version.group` refers to, as in `podgroups.v1alpha1.scheduling.x-k8s.io`.

    Its objects are `CustomObject`s. Raises ValueError for what is no such reference.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(
            f"{reference!r} is no kind: expected one that Bayplan knows, as in Pod, or plural.version.group, as in "
            "podgroups.v1alpha1.scheduling.x-k8s.io"
        )
    return Kind(
        group=match["group"],
        version=match["version"],
        kind=reference,  # what it calls itself only the server knows
        plural=match["plural"],
        singular=match["plural"],
        namespaced=namespaced,
        model="",
    )
