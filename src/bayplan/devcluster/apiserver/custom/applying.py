"""Server-side apply of custom resources, by the list types of their schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.devcluster.apiserver.api_types import METADATA
from bayplan.devcluster.apiserver.applying import apply_configuration, merge
from bayplan.devcluster.apiserver.custom.structures import identity
from bayplan.devcluster.apiserver.schema import Object


@dataclass(frozen=True, slots=True)
class SchemaStructure:
    """The structure of a value that an OpenAPI schema describes."""

    schema: Object

    @property
    def merge(self) -> str:
        """By the OpenAPI extensions; lists are atomic unless their schemas have another list type."""
        found: str = self.schema.get("x-kubernetes-list-type") or self.schema.get("x-kubernetes-map-type", "")
        return found

    def identity(self, element: Any) -> Any:
        """With the schema's defaults for missing keys."""
        return identity(self.schema, element)

    def element(self) -> SchemaStructure:
        """By the schema of the elements."""
        return SchemaStructure(self.schema.get("items", {}))

    def member(self, key: str) -> SchemaStructure:
        """By the schema of the property, or that of additional ones."""
        inner = self.schema.get("properties", {}).get(key, self.schema.get("additionalProperties"))
        return SchemaStructure(inner if isinstance(inner, dict) else {})


def apply(schema: Object, obj: Object, configuration: Object) -> Object:
    """The object with the configuration merged into it."""
    plain = {key: value for key, value in configuration.items() if key != "metadata"}
    merged: Object = merge(SchemaStructure(schema), obj, plain)
    metadata = configuration.get("metadata") or {}
    if isinstance(metadata, dict):  # anything else is rejected when the result is read
        metadata = apply_configuration(METADATA, obj.get("metadata") or {}, metadata)
    return {**merged, "metadata": metadata}
