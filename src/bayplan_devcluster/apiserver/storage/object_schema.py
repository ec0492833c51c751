"""How objects of a kind are decoded, converted, patched and described in OpenAPI.

`ObjectSchema` is the protocol that the verbs use; `TypedSchema` implements it for built-in kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from bayplan.core.api.defaults import set_defaults
from bayplan.core.api.kinds import KINDS, VERSIONED_KINDS, Kind
from bayplan.core.api.patch import PATCH_TYPES, apply_strategic_patch
from bayplan.core.api.status import cannot_be_handled, internal
from bayplan_devcluster.apiserver.applying import apply_configuration
from bayplan_devcluster.apiserver.configuration_types import type_problem
from bayplan_devcluster.apiserver.encoding import decode, encode
from bayplan_devcluster.apiserver.model_schemas import add_type
from bayplan_devcluster.apiserver.protobuf import read_protobuf
from bayplan_devcluster.apiserver.schema import Object, normalize


class ObjectSchema(Protocol):
    """The schema of one kind's objects in one version."""

    @property
    def kind(self) -> Kind:
        """The kind."""
        ...

    @property
    def patch_types(self) -> tuple[str, ...]:
        """The media types of supported patches."""
        ...

    @property
    def converts(self) -> bool:
        """Whether `from_storage` and `to_storage` change objects."""
        ...

    def check_kind(self, document: Object) -> None:
        """Checks `kind` and `apiVersion` of a body, where it has them. Raises StatusError."""
        ...

    def normalize(self, body: Object) -> tuple[Object, list[str]]:
        """Returns a deep copy in the form that is stored, and the paths of unknown fields. Raises Mismatch."""
        ...

    def empty(self) -> Object:
        """Returns a new object with only the fields that are always present."""
        ...

    def fill_defaults(self, obj: Object) -> None:
        """Sets the values of missing fields of a normalized object, in place."""
        ...

    def from_storage(self, obj: Object) -> Object:
        """Converts a stored object, which it may change, to this version."""
        ...

    def to_storage(self, obj: Object) -> Object:
        """Converts an object of this version to the version that is stored."""
        ...

    def read_protobuf(self, body: bytes) -> Object:
        """Decodes a protobuf body to plain values. Raises StatusError."""
        ...

    def merge_strategically(self, obj: Object, patch: Any) -> Object:
        """Applies a strategic merge patch. Raises StatusError."""
        ...

    def check_configuration(self, configuration: Object) -> None:
        """Checks the types of the values in a configuration for `apply`. Raises StatusError."""
        ...

    def apply(self, obj: Object, configuration: Object) -> Object:
        """Applies a configuration as server-side apply does. Raises StatusError."""
        ...

    def add_schema(self, schemas: Object, references: str) -> str:
        """Adds the kind's OpenAPI schema, and the schemas that it refers to, to `schemas`; returns its name.

        `references` is the prefix of references, which differs between the versions of OpenAPI.
        """
        ...


@dataclass(frozen=True, slots=True)
class TypedSchema:
    """The schema of a built-in kind."""

    kind: Kind
    patch_types: tuple[str, ...] = PATCH_TYPES
    converts: bool = False

    def check_kind(self, document: Object) -> None:
        """Check that a document is of this kind and version. Raises StatusError with kube-apiserver's words."""
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
        """Decodes into the API's type and encodes again, as Go does."""
        return normalize(self.kind, body)

    def empty(self) -> Object:
        """An object of the kind without any field."""
        obj: Object = decode(_empty(self.kind))
        return obj

    def fill_defaults(self, obj: Object) -> None:
        """Sets the defaults of the API's types."""
        set_defaults(self.kind.model, obj)

    def from_storage(self, obj: Object) -> Object:
        """Returns the object: it is stored in this version."""
        return obj

    def to_storage(self, obj: Object) -> Object:
        """Returns the object: it is stored in this version."""
        return obj

    def read_protobuf(self, body: bytes) -> Object:
        """Uses the field numbers of the API's type."""
        return read_protobuf(self.kind.model, body)

    def merge_strategically(self, obj: Object, patch: Any) -> Object:
        """Uses the merge keys of the API's type."""
        return apply_strategic_patch(self.kind, obj, patch)

    def check_configuration(self, configuration: Object) -> None:
        """Uses the API's type. The error is 500, like upstream's."""
        problem = type_problem(self.kind.model, configuration)
        if problem:
            raise internal(f"failed to create typed patch object ({self._described(configuration)}): {problem}")

    def _described(self, configuration: Object) -> str:
        metadata = configuration.get("metadata")
        names = [metadata.get(key) if isinstance(metadata, dict) else "" for key in ("namespace", "name")]
        namespace, name = (one if isinstance(one, str) else "" for one in names)
        return f"{namespace}/{name}; {self.kind.group}/{self.kind.version}, Kind={self.kind.kind}"

    def apply(self, obj: Object, configuration: Object) -> Object:
        """Uses the list types of the API's type."""
        given = {key: value for key, value in configuration.items() if key != "metadata" or value is not None}
        return apply_configuration(self.kind.model, obj, given)

    def add_schema(self, schemas: Object, references: str) -> str:
        """Derives the schema from the table of types."""
        return add_type(schemas, self.kind.model, references)


@dataclass(frozen=True, slots=True)
class ConvertedSchema(TypedSchema):
    """The schema of a version that is converted when it is stored, by functions that don't change their arguments."""

    converts: bool = True
    read: Callable[[Object], Object] = dict
    write: Callable[[Object], Object] = dict

    def from_storage(self, obj: Object) -> Object:
        """Converts a stored object with `read`."""
        return self.read(obj)

    def to_storage(self, obj: Object) -> Object:
        """Converts an object of this version with `write`."""
        return self.write(obj)


_KNOWN = frozenset(kind.kind for kind in (*KINDS, *VERSIONED_KINDS))


@cache
def _empty(kind: Kind) -> bytes:
    return encode(normalize(kind, {})[0])
