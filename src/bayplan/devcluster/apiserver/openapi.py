"""The OpenAPI documents of the API, from the table of types: enough for `kubectl apply`, `create` and `explain`.

Paths have only the parameters that clients look up, such as `fieldValidation` and `limit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.api_types import Field, fields_of
from bayplan.devcluster.apiserver.documentation import describe
from bayplan.devcluster.apiserver.schema import Object

if TYPE_CHECKING:
    from bayplan.devcluster.apiserver.resources import Resource

_HOMES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
V2, V3 = "#/definitions/", "#/components/schemas/"
"""The prefixes of references to schemas in OpenAPI v2 and v3."""
_LEAVES: dict[str, Object] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "Quantity": {"type": "string", "description": "A quantity: a number with an optional suffix, as in 500m or 1.5Gi."},
    "IntOrString": {"type": "string", "format": "int-or-string"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "object": {"type": "object"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "JSONSchemaPropsOrArray": {"x-kubernetes-preserve-unknown-fields": True},
    "JSONSchemaPropsOrBool": {"x-kubernetes-preserve-unknown-fields": True},
    "JSONSchemaPropsOrStringArray": {"x-kubernetes-preserve-unknown-fields": True},
}


def version_document(resources: Iterable[Resource]) -> Object:
    """The OpenAPI v3 document of one group and version."""
    paths, schemas = _describe(resources, V3)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def swagger(resources: Iterable[Resource]) -> Object:
    """The OpenAPI v2 document of all resources."""
    paths, definitions = _describe(resources, V2)
    info = {"title": "Kubernetes", "version": "v1.36.2"}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _describe(resources: Iterable[Resource], style: str) -> tuple[Object, Object]:
    """The paths and the schemas of resources."""
    paths: Object = {}
    schemas: Object = {}
    for resource in resources:
        name = resource.shape.add_schema(schemas, style)
        schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(resource.kind)]
        paths |= _paths(resource.kind, v3=style == V3)
    return paths, schemas


def schema_name(kind: str) -> str:
    """The name of a type's schema: `io.k8s.api.core.v1.Pod`."""
    module, _, name = kind.rpartition(".")
    group, _, version = module.rpartition("_")
    return f"{_HOMES.get(group, f'io.k8s.api.{group}')}.{version}.{name}"


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def add_type(schemas: Object, kind: str, style: str) -> str:
    """Adds the schemas of a type of the table and of the types that it refers to. Returns the name of its schema."""
    name = schema_name(kind)
    if name in schemas:
        return name
    properties: Object = {}
    schema: Object = {"type": "object", "description": describe(kind), "properties": properties}
    schemas[name] = schema
    for key, field in fields_of(kind).items():
        properties[key] = {"description": describe(kind, key), **_value_schema(schemas, field.type, style)}
        properties[key] |= {extension: value for extension, value in _extensions(field) if value}
    if required := [key for key, field in fields_of(kind).items() if field.required]:
        schema["required"] = required
    return name


def _extensions(field: Field) -> Iterator[tuple[str, Any]]:
    """Kubernetes' extensions of a field's schema, empty ones included."""
    yield "x-kubernetes-patch-strategy", field.patch
    yield "x-kubernetes-patch-merge-key", field.patch_key
    yield "x-kubernetes-list-type" if field.type.startswith("[]") else "x-kubernetes-map-type", field.merge
    yield "x-kubernetes-list-map-keys", list(field.keys)


def _value_schema(schemas: Object, kind: str, style: str) -> Object:
    if kind.startswith("[]"):
        return {"type": "array", "items": _value_schema(schemas, kind[2:], style)}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _value_schema(schemas, kind[2:], style)}
    return dict(_LEAVES[kind]) if kind in _LEAVES else reference(schemas, kind, style)


def reference(schemas: Object, kind: str, style: str) -> Object:
    """A reference to the schema of a type. Adds the schema."""
    target = {"$ref": style + add_type(schemas, kind, style)}
    return {"allOf": [target], "default": {}} if style == V3 else target


def _paths(kind: Kind, *, v3: bool) -> Object:
    """The paths of a kind, with the parameters that kubectl looks up before it uses them."""
    validation = _parameter("fieldValidation", "string", v3=v3)
    write = {
        "parameters": [_parameter("dryRun", "string", v3=v3), validation],
        "x-kubernetes-group-version-kind": _gvk(kind),
        "responses": {"200": {"description": "OK"}},
    }
    read = {
        "parameters": [_parameter("limit", "integer", v3=v3), _parameter("continue", "string", v3=v3)],
        "x-kubernetes-group-version-kind": _gvk(kind),
        "responses": {"200": {"description": "OK"}},
    }
    collection = kind.path("{namespace}")
    single = kind.path("{namespace}", "{name}")
    return {
        collection: {"get": {**read, "x-kubernetes-action": "list"}, "post": {**write, "x-kubernetes-action": "post"}},
        single: {
            "get": {**read, "x-kubernetes-action": "get"},
            "put": {**write, "x-kubernetes-action": "put"},
            "patch": {**write, "x-kubernetes-action": "patch"},
            "delete": {**write, "x-kubernetes-action": "delete"},
        },
    }


def _parameter(name: str, kind: str, *, v3: bool) -> Object:
    typed: Object = {"schema": {"type": kind, "uniqueItems": True}} if v3 else {"type": kind, "uniqueItems": True}
    return {"name": name, "in": "query", **typed}
