"""The scale subresource of a custom resource, whose definition names the paths of the numbers of replicas.

Mirrors ScaleREST of apiextensions-apiserver's pkg/registry/customresource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import StatusError, bad_request
from bayplan.devcluster.apiserver.subresources import Subresource

if TYPE_CHECKING:
    from bayplan.devcluster.apiserver.requesting import Request

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(paths: Object) -> Subresource:
    """The subresource of a definition's `subresources.scale`."""
    replicas_keys = _keys(paths["specReplicasPath"])

    def read(registry: Registry, resource: Resource, request: Request) -> Object:
        obj = registry.load(resource, request.info.namespace, request.info.name)
        if _at(obj, replicas_keys) is None:
            message = f'Internal error occurred: the spec replicas field "{paths["specReplicasPath"]}" does not exist'
            cause = {"message": message.removeprefix("Internal error occurred: ")}
            raise StatusError(500, "InternalError", message, {"causes": [cause]})
        return _scale(obj, paths)

    def write(registry: Registry, resource: Resource, request: Request) -> Object:
        old = registry.load(resource, request.info.namespace, request.info.name)
        scale = request.changed(_scale(old, paths))
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            raise bad_request(f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0")
        new = registry.load(resource, request.info.namespace, request.info.name)
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        _set(new, replicas_keys, replicas)
        entry = registry.update(resource, old, new, dry_run=request.dry_run())
        return _scale(registry.decoded(resource, entry), paths)

    return Subresource({"get": read, "update": write, "patch": write}, "Scale", "autoscaling/v1")


def _scale(obj: Object, paths: Object) -> Object:
    metadata = obj["metadata"]
    status: Object = {"replicas": _at(obj, _keys(paths["statusReplicasPath"])) or 0}
    if selector := _at(obj, _keys(paths.get("labelSelectorPath", ""))):
        status["selector"] = selector
    replicas = _at(obj, _keys(paths["specReplicasPath"]))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _keys(path: str) -> list[str]:
    return path.removeprefix(".").split(".") if path else []


def _at(obj: Object, keys: list[str]) -> Any:
    found: Any = obj if keys else None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _set(obj: Object, keys: list[str], value: Any) -> None:
    *parents, last = keys
    for key in parents:
        obj = obj.setdefault(key, {})
    obj[last] = value
