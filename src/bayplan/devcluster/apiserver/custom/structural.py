"""Objects of a structural schema: unknown fields pruned, defaults filled in, configurations applied.

Mirrors apiextensions-apiserver's pkg/apiserver/schema, its packages pruning, defaulting and objectmeta.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.custom.applying import apply
from bayplan.devcluster.apiserver.custom.documents import add_custom_schema
from bayplan.devcluster.apiserver.custom.structures import EMBEDDED
from bayplan.devcluster.apiserver.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from bayplan.devcluster.apiserver.schema import Object, normalize_metadata
from bayplan.devcluster.apiserver.status import bad_request, invalid, invalid_value, unsupported_media_type

PRESERVES = "x-kubernetes-preserve-unknown-fields"
_RESOURCE_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, slots=True)
class StructuralSchema:
    """The schema of a custom resource in one version. `schema` is the definition's openAPIV3Schema."""

    kind: Kind
    schema: Object
    patch_types: tuple[str, ...] = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    converts: bool = True

    def check_kind(self, document: Object) -> None:
        """Nothing said means the kind itself."""
        kind = self.kind
        given, version = document.get("kind") or kind.kind, document.get("apiVersion") or kind.api_version
        if version != kind.api_version:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
            )
        if given != kind.kind:
            metadata = document.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            raise invalid(kind, name, [invalid_value("kind", given, f"must be {kind.kind}")])

    def normalize(self, body: Object) -> tuple[Object, list[str]]:
        """Prunes what the schema does not know; types are left to validation, but for those of the metadata."""
        unknown: list[str] = []
        obj: Object = {"metadata": normalize_metadata(body.get("metadata") or {}, unknown)}
        root = {key: value for key, value in body.items() if key not in _RESOURCE_FIELDS}
        return {**obj, **prune(self.schema, root, "", unknown)}, unknown

    def empty(self) -> Object:
        """Custom resources have no fields that are always written."""
        return {}

    def read_protobuf(self, body: bytes) -> Object:
        """Nobody knows field numbers of a custom resource: 415."""
        raise unsupported_media_type()

    def merge_strategically(self, obj: Object, patch: Any) -> Object:
        """There are no merge keys without a typed model: 415."""
        raise unsupported_media_type()

    def apply(self, obj: Object, configuration: Object) -> Object:
        """By the list types of the schema."""
        return apply(self.schema, obj, configuration)

    def add_schema(self, schemas: Object, references: str) -> str:
        """The definition's own schema."""
        return add_custom_schema(schemas, self.kind, self.schema, references)

    def fill_defaults(self, obj: Object) -> None:
        """Fills in the schema's defaults, in place."""
        fill_defaults(self.schema, obj)

    def to_storage(self, obj: Object) -> Object:
        """See ObjectSchema."""
        return obj

    def from_storage(self, obj: Object) -> Object:
        """An object as this version shows it, whatever version and whatever schema it was stored under."""
        metadata = obj.pop("metadata")
        shown = {"metadata": metadata, **prune(self.schema, obj, "", [])}
        fill_defaults(self.schema, shown)
        return shown


def prune(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    """A copy without what the schema does not know, and without nulls where it has no place for them."""
    if isinstance(value, list):
        items = schema.get("items")
        if items is None:
            return deepcopy(value) if schema.get(PRESERVES) else [prune({}, one, path, unknown) for one in value]
        return [prune(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    keeps = bool(schema.get(PRESERVES)) or additional is True
    kept: Object = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        inner = properties.get(key, additional)
        if isinstance(inner, dict):
            if item is not None or inner.get("nullable") or "default" in inner:
                kept[key] = prune(inner, item, where, unknown)
        elif keeps or (schema.get(EMBEDDED) and key in _RESOURCE_FIELDS):
            kept[key] = deepcopy(item)
        else:
            unknown.append(where)
    return kept


def fill_defaults(schema: Object, value: Any) -> None:
    """Fills in defaults where a value is missing, or is null and may not be."""
    if isinstance(value, list):
        items = schema.get("items", {})
        for index, item in enumerate(value):
            if _gives_way(items, item):
                value[index] = deepcopy(items["default"])
            fill_defaults(items, value[index])
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for key, inner in properties.items():
        if "default" in inner and (key not in value or _gives_way(inner, value[key])):
            value[key] = deepcopy(inner["default"])
    for key in value:
        inner = properties.get(key, additional)
        if isinstance(inner, dict):
            if _gives_way(inner, value[key]):
                value[key] = deepcopy(inner["default"])
            fill_defaults(inner, value[key])


def _gives_way(schema: Object, value: Any) -> bool:
    return value is None and not schema.get("nullable") and "default" in schema
