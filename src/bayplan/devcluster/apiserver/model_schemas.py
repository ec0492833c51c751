"""The OpenAPI schemas of the typed models."""

from __future__ import annotations

from functools import cache

from bayplan.devcluster.apiserver.documentation import field_descriptions, type_description
from bayplan.devcluster.apiserver.patch import MERGE_KEYS, RETAIN_KEYS
from bayplan.devcluster.apiserver.schema import QUANTITY_MAPS, Model, Object, field_model, map_model

_HOMES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
V2, V3 = "#/definitions/", "#/components/schemas/"
"""The prefixes of references to schemas in OpenAPI v2 and v3."""
_SCALARS: dict[str, Object] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "float": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "Quantity": {"type": "string", "description": "A quantity: a number with an optional suffix, as in 500m or 1.5Gi."},
    "IntOrString": {"type": "string", "format": "int-or-string"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Any": {"x-kubernetes-preserve-unknown-fields": True},
    "JSON": {"x-kubernetes-preserve-unknown-fields": True},
    "RawExtension": {"type": "object"},
    "FieldsV1": {"type": "object"},
}


@cache
def schema_name(model: Model) -> str:
    """Returns the name of a type's schema, such as `io.k8s.api.core.v1.Pod`."""
    group, _, version = model.__module__.rpartition(".")[2].rpartition("_")
    return f"{_HOMES.get(group, f'io.k8s.api.{group}')}.{version}.{model.__name__}"


def add_model(schemas: Object, model: Model, style: str) -> str:
    """Adds the schemas of a type and of the types that it refers to, if missing; returns the name of the type's."""
    name = schema_name(model)
    if name in schemas:
        return name
    names, encoded = model.__struct_fields__, model.__struct_encode_fields__
    required = list(encoded[: len(names) - len(model.__struct_defaults__)])
    properties: Object = {}
    schema: Object = {"type": "object", "description": type_description(model), "properties": properties}
    schemas[name] = schema
    descriptions = field_descriptions(model)
    for field, json_name in zip(names, encoded, strict=True):
        described = {"description": descriptions.get(field, "")}
        properties[json_name] = {**described, **_field_schema(schemas, model, field, json_name, style)}
    if required:
        schema["required"] = required
    return name


def _field_schema(schemas: Object, model: Model, field: str, json_name: str, style: str) -> Object:
    annotation = model.__annotations__[field].removeprefix("Optional[")
    schema = _value_schema(schemas, model, annotation.rstrip("]"), json_name, style)
    slot = (model.__name__, json_name)
    if slot in MERGE_KEYS:
        strategy = "merge,retainKeys" if slot in RETAIN_KEYS else "merge"
        schema = {**schema, "x-kubernetes-patch-strategy": strategy}
        if MERGE_KEYS[slot]:
            schema["x-kubernetes-patch-merge-key"] = MERGE_KEYS[slot]
    elif slot in RETAIN_KEYS:
        schema = {**schema, "x-kubernetes-patch-strategy": "retainKeys"}
    return schema


def _value_schema(schemas: Object, model: Model, annotation: str, json_name: str, style: str) -> Object:
    if annotation.startswith("List["):
        return {"type": "array", "items": _value_schema(schemas, model, annotation[5:], json_name, style)}
    plain = annotation.rpartition(".")[2]
    if plain in _SCALARS:
        return dict(_SCALARS[plain])
    if plain in {"dict", "Dict"}:
        return {"type": "object", **_map_values(schemas, model, json_name, style)}
    inner = field_model(model, json_name)
    return reference(schemas, inner, style) if inner is not None else {"type": "object"}


def _map_values(schemas: Object, model: Model, json_name: str, style: str) -> Object:
    inner = map_model(model, json_name)
    if inner is not None:
        return {"additionalProperties": reference(schemas, inner, style)}
    if json_name in QUANTITY_MAPS:
        return {"additionalProperties": dict(_SCALARS["Quantity"])}
    return {"additionalProperties": {"type": "string"}}


def reference(schemas: Object, model: Model, style: str) -> Object:
    """Adds the schema of a type, and returns a reference to it."""
    plain = {"$ref": style + add_model(schemas, model, style)}
    return {"allOf": [plain], "default": {}} if style == V3 else plain
