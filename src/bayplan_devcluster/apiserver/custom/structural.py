"""Objects of a structural schema: prunes unknown fields, fills in defaults, and applies configurations.

Mirrors the packages pruning, defaulting and objectmeta of apiextensions-apiserver's pkg/apiserver/schema.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.kinds import CONFIG_MAP, Kind
from bayplan.core.api.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from bayplan.core.api.status import bad_request, invalid, unsupported_media_type
from bayplan.core.api.type_table import METADATA
from bayplan_devcluster.apiserver.applying import apply_configuration, merge
from bayplan_devcluster.apiserver.custom.structures import EMBEDDED, identity
from bayplan_devcluster.apiserver.model_schemas import V2, describe, reference
from bayplan_devcluster.apiserver.schema import Object, normalize_metadata

PRESERVES = "x-kubernetes-preserve-unknown-fields"
_HEADER = ("apiVersion", "kind")
_RESOURCE_FIELDS = frozenset({*_HEADER, "metadata"})


@dataclass(frozen=True, slots=True)
class StructuralSchema:
    """The schema of a custom resource in one version. `schema` is the definition's openAPIV3Schema."""

    kind: Kind
    schema: Object
    patch_types: tuple[str, ...] = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    converts: bool = True

    def check_kind(self, document: Object) -> None:
        """Rejects a body of another kind or version. A body without them is accepted."""
        kind = self.kind
        given, version = document.get("kind") or kind.kind, document.get("apiVersion") or kind.api_version
        if version != kind.api_version:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
            )
        if given != kind.kind:
            metadata = document.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            raise invalid(kind, name, [field_errors.invalid("kind", given, f"must be {kind.kind}")])

    def normalize(self, body: Object) -> tuple[Object, list[str]]:
        """Prunes unknown fields. Types are checked by validation, except those of the metadata."""
        unknown: list[str] = []
        obj: Object = {"metadata": normalize_metadata(body.get("metadata") or {}, unknown)}
        root = {key: value for key, value in body.items() if key not in _RESOURCE_FIELDS}
        return {**obj, **prune(self.schema, root, "", unknown)}, unknown

    def empty(self) -> Object:
        """Custom resources have no fields that are always written."""
        return {}

    def read_protobuf(self, body: bytes) -> Object:
        """Raises 415: custom resources have no field numbers."""
        raise unsupported_media_type()

    def merge_strategically(self, obj: Object, patch: Any) -> Object:
        """Raises 415: custom resources have no merge keys."""
        raise unsupported_media_type()

    def check_configuration(self, configuration: Object) -> None:
        """Accepts all configurations: the result is checked."""

    def apply(self, obj: Object, configuration: Object) -> Object:
        """Merges lists by the list types of the schema."""
        plain = {key: value for key, value in configuration.items() if key != "metadata"}
        merged: Object = merge(SchemaStructure(self.schema), obj, plain)
        metadata = configuration.get("metadata") or {}
        if isinstance(metadata, dict):  # anything else is rejected when the result is read
            metadata = apply_configuration(METADATA, obj.get("metadata") or {}, metadata)
        return {**merged, "metadata": metadata}

    def add_schema(self, schemas: Object, references: str) -> str:
        """Adds the schema of the definition, and that of its metadata."""
        group, version, kind = self.kind.group, self.kind.version, self.kind.kind
        result: Object = _without(self.schema, _NOT_IN_V2) if references == V2 else dict(self.schema)
        metadata = reference(schemas, METADATA, references)
        texts = {name: {"type": "string", "description": describe(CONFIG_MAP.model, name)} for name in _HEADER}
        result["properties"] = {**result.get("properties", {}), **texts, "metadata": metadata}
        name = f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}"
        schemas[name] = result
        return name

    def fill_defaults(self, obj: Object) -> None:
        """Fills in the schema's defaults, in place."""
        fill_defaults(self.schema, obj)

    def to_storage(self, obj: Object) -> Object:
        """Return the object: all versions are stored as they are."""
        return obj

    def from_storage(self, obj: Object) -> Object:
        """Converts a stored object, of any version and earlier schema, to this version."""
        metadata = obj.pop("metadata")
        shown = {"metadata": metadata, **prune(self.schema, obj, "", [])}
        fill_defaults(self.schema, shown)
        return shown


def prune(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    """A copy without unknown fields and without nulls that the schema does not allow."""
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
    """Fills in the defaults of missing values, and of nulls that are not allowed."""
    if isinstance(value, list):
        items = schema.get("items", {})
        for index, item in enumerate(value):
            if _is_replaced(items, item):
                value[index] = deepcopy(items["default"])
            fill_defaults(items, value[index])
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for key, inner in properties.items():
        if "default" in inner and (key not in value or _is_replaced(inner, value[key])):
            value[key] = deepcopy(inner["default"])
    for key in value:
        inner = properties.get(key, additional)
        if isinstance(inner, dict):
            if _is_replaced(inner, value[key]):
                value[key] = deepcopy(inner["default"])
            fill_defaults(inner, value[key])


def _is_replaced(schema: Object, value: Any) -> bool:
    return value is None and not schema.get("nullable") and "default" in schema


# OpenAPI schemas. Mirrors apiextensions-apiserver's pkg/controller/openapi/builder.


_NOT_IN_V2 = frozenset({"allOf", "anyOf", "default", "nullable", "not", "oneOf"})


def _without(schema: Any, left_out: frozenset[str]) -> Any:
    """The schema without some keywords; properties of these names are kept."""
    if not isinstance(schema, dict):
        return schema
    result: Object = {key: value for key, value in schema.items() if key not in left_out}
    if "properties" in result:
        result["properties"] = {key: _without(value, left_out) for key, value in result["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = _without(result[key], left_out)
    return result


# Server-side apply, by the list types of the schema


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
