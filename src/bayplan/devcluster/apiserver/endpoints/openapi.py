"""The server's OpenAPI documents: enough for `kubectl apply`, `create` and `explain`.

The paths contain only what clients look up: that writes take `fieldValidation`, and that lists have limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.model_schemas import V2, V3
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.storage.resource import Resource


def version_document(resources: Iterable[Resource]) -> Object:
    """Returns the OpenAPI v3 document of one group and version."""
    paths, schemas = _describe(resources, V3)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def swagger(resources: Iterable[Resource]) -> Object:
    """Returns the OpenAPI v2 document of all resources."""
    paths, definitions = _describe(resources, V2)
    info = {"title": "Kubernetes", "version": "v1.36.2"}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _describe(resources: Iterable[Resource], style: str) -> tuple[Object, Object]:
    """Returns the paths of resources, and their schemas."""
    paths: Object = {}
    schemas: Object = {}
    for resource in resources:
        name = resource.schema.add_schema(schemas, style)
        schemas[name]["x-kubernetes-group-version-kind"] = [_gvk(resource.kind)]
        paths |= _paths(resource.kind, v3=style == V3)
    return paths, schemas


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(kind: Kind, *, v3: bool) -> Object:
    """Returns the paths of a kind, with the parameters that kubectl checks for before it uses them."""
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
