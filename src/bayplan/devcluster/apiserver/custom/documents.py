"""The OpenAPI schemas of custom resources. Mirrors apiextensions-apiserver's pkg/controller/openapi/builder."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import CONFIG_MAP, Kind
from bayplan.devcluster.apiserver.api_types import METADATA
from bayplan.devcluster.apiserver.documentation import describe
from bayplan.devcluster.apiserver.model_schemas import V2, reference
from bayplan.devcluster.apiserver.schema import Object

_NOT_IN_V2 = frozenset({"allOf", "anyOf", "default", "nullable", "not", "oneOf"})


def add_custom_schema(schemas: Object, kind: Kind, schema: Object, references: str) -> str:
    """Adds the schema of a custom resource, and that of its metadata, to a document. Returns the name of the schema."""
    name = f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
    result: Object = _without(schema, _NOT_IN_V2) if references == V2 else dict(schema)
    metadata = reference(schemas, METADATA, references)
    properties = {field: {"type": "string", "description": _described(field)} for field in ("apiVersion", "kind")}
    result["properties"] = {**result.get("properties", {}), **properties, "metadata": metadata}
    schemas[name] = result
    return name


def _described(field: str) -> str:
    """The description of a field that every kind has."""
    return describe(CONFIG_MAP.model, field)


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
