"""What the objects of a resource look like: how bodies are read, patches merged and schemas told.

`Shape` is what the verbs rely on; `TypedShape` is that of the built-in kinds, derived from the typed models.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from bayplan.api.kinds import ALPHA_KINDS, KINDS, Kind
from bayplan.devcluster.apiserver import openapi
from bayplan.devcluster.apiserver.applying import apply_configuration
from bayplan.devcluster.apiserver.patch import PATCH_TYPES, apply_strategic_patch
from bayplan.devcluster.apiserver.protobuf import read_protobuf
from bayplan.devcluster.apiserver.schema import Object, normalize
from bayplan.devcluster.apiserver.status import cannot_be_handled
from bayplan.devcluster.apiserver.store import decode, encode


class Shape(Protocol):
    """The form of one kind's objects in one version."""

    @property
    def kind(self) -> Kind:
        """The kind itself."""
        ...

    @property
    def patch_types(self) -> tuple[str, ...]:
        """The media types of patches that it takes."""
        ...

    def check_kind(self, document: Object) -> None:
        """Whether a body is of the kind, as far as it says. Raises StatusError."""
        ...

    def normalize(self, body: Object) -> tuple[Object, list[str]]:
        """The body as it is stored, and the paths of its unknown fields. Shares nothing with it. Raises Mismatch."""
        ...

    def empty(self) -> Object:
        """What an object consists of that says nothing: the fields which are always written."""
        ...

    def read_protobuf(self, body: bytes) -> Object:
        """A protobuf body as plain values. Raises StatusError."""
        ...

    def merge_strategically(self, obj: Object, patch: Any) -> Object:
        """A strategic merge patch, applied. Raises StatusError."""
        ...

    def apply(self, obj: Object, configuration: Object) -> Object:
        """What server-side apply makes of an object. Raises StatusError."""
        ...

    def add_schema(self, schemas: Object, references: str) -> str:
        """Adds the kind's OpenAPI schema, and those it refers to, to a document's; returns its name.

        `references` is where references to schemas point, and so tells the version of OpenAPI.
        """
        ...


@dataclass(frozen=True, slots=True)
class TypedShape:
    """The shape of a kind that has a typed model."""

    kind: Kind
    patch_types: tuple[str, ...] = PATCH_TYPES

    def check_kind(self, document: Object) -> None:
        """Nothing said means the kind itself."""
        kind = self.kind
        given, version = document.get("kind") or kind.kind, document.get("apiVersion") or kind.api_version
        if given == kind.kind and version == kind.api_version:
            return
        if version != kind.api_version or given not in _KNOWN:
            why = f'no kind "{given}" is registered for version "{version}"'
            raise cannot_be_handled(kind, given, kind.version, why)
        internal = kind.group.partition(".")[0] or "core"
        why = f"converting ({kind.version}.{given}) to ({internal}.{kind.kind}): unknown conversion"
        raise cannot_be_handled(kind, given, kind.version, why)

    def normalize(self, body: Object) -> tuple[Object, list[str]]:
        """As Go decodes into the API's type and encodes from it."""
        return normalize(self.kind, body)

    def empty(self) -> Object:
        """A fresh copy."""
        obj: Object = decode(_empty(self.kind))
        return obj

    def read_protobuf(self, body: bytes) -> Object:
        """By the field numbers of the API's type."""
        return read_protobuf(self.kind.model, body)

    def merge_strategically(self, obj: Object, patch: Any) -> Object:
        """By the merge keys of the API's type."""
        return apply_strategic_patch(self.kind, obj, patch)

    def apply(self, obj: Object, configuration: Object) -> Object:
        """By the list types of the API's type."""
        return apply_configuration(self.kind.model, obj, configuration)

    def add_schema(self, schemas: Object, references: str) -> str:
        """Derived from the model."""
        return openapi.add_type(schemas, self.kind.model, references)


_KNOWN = frozenset(kind.kind for kind in (*KINDS, *ALPHA_KINDS))


@cache
def _empty(kind: Kind) -> bytes:
    return encode(normalize(kind, {})[0])
