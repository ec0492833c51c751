"""The server's OpenAPI documents: enough for `kubectl apply`, `create` and `explain`.

The paths contain what clients look up: that writes take `fieldValidation`, that lists have limits, and what is in a
path and a body.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.core.api.kinds import Kind
from bayplan_devcluster.apiserver.http.messages import JSON_TYPE, YAML_TYPE
from bayplan_devcluster.apiserver.model_schemas import V2, V3
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource


def group_document(resources: Iterable[Resource], release: str) -> Object:
    """Returns the OpenAPI v3 document of one group and version, for a release of Kubernetes."""
    paths, schemas = _describe(resources, V3)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def swagger(resources: Iterable[Resource], release: str) -> Object:
    """Returns the OpenAPI v2 document of all resources, for a release of Kubernetes."""
    paths, definitions = _describe(resources, V2)
    info = {"title": "Kubernetes", "version": release}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _describe(resources: Iterable[Resource], style: str) -> tuple[Object, Object]:
    """Returns the paths of resources, and their schemas."""
    paths: Object = {}
    schemas: Object = {}
    for resource in resources:
        name = resource.schema.add_schema(schemas, style)
        schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(resource.kind)]
        paths |= _paths(resource, style + name, v3=style == V3)
    return paths, schemas


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(resource: Resource, reference: str, *, v3: bool) -> Object:
    """Returns the paths of a resource, with the parameters that kubectl checks for before it uses them."""
    kind = resource.kind
    in_namespace = [_parameter("namespace", "string", v3=v3, where="path")] if kind.namespaced else []
    named = [*in_namespace, _parameter("name", "string", v3=v3, where="path")]
    paged = [_parameter("limit", "integer", v3=v3), _parameter("continue", "string", v3=v3)]
    written = [_parameter(name, "string", v3=v3) for name in ("dryRun", "fieldManager", "fieldValidation")]
    deleted = [_parameter("dryRun", "string", v3=v3)]

    def operation(
        action: str, parameters: list[Object], media: Iterable[str] = (), schema: Object | None = None
    ) -> Object:
        found: Object = {
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}, "default": {"description": "A Status"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        return found | (_body(media, schema, v3=v3) if schema is not None else {})

    whole: Object = {"$ref": reference}
    return {
        kind.path("{namespace}"): {
            "parameters": in_namespace,
            "get": operation("list", paged),
            "post": operation("post", written, (JSON_TYPE, YAML_TYPE), whole),
            "delete": operation("deletecollection", deleted),
        },
        kind.path("{namespace}", "{name}"): {
            "parameters": named,
            "get": operation("get", []),
            "put": operation("put", written, (JSON_TYPE, YAML_TYPE), whole),
            "patch": operation("patch", written, resource.schema.patch_types, {"type": "object"}),
            "delete": operation("delete", deleted),
        },
    }


def _body(media: Iterable[str], schema: Object, *, v3: bool) -> Object:
    """Returns the fields of an operation that describe its body."""
    if not v3:
        return {"consumes": list(media)}
    return {"requestBody": {"required": True, "content": {one: {"schema": schema} for one in media}}}


def _parameter(name: str, kind: str, *, v3: bool, where: str = "query") -> Object:
    typed: Object = {"schema": {"type": kind, "uniqueItems": True}} if v3 else {"type": kind, "uniqueItems": True}
    return {"name": name, "in": where, **({"required": True} if where == "path" else {}), **typed}
