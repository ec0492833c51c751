"""The scale subresource of workloads and of custom resources.

Mirrors ScaleREST of Kubernetes' pkg/registry/apps and of apiextensions-apiserver's pkg/registry/customresource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.api.kinds import Kind
from bayplan.core.api.status import StatusError, bad_request
from bayplan_devcluster.apiserver.endpoints.backend import Backend, Subresource
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.object_schema import TypedSchema
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.tables.columns import columns_of

_SCALE = TypedSchema(Kind("autoscaling", "v1", "Scale", "", "", namespaced=True, model="autoscaling_v1.Scale"))
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OPERATORS = {"In": "in", "NotIn": "notin"}


def workload_scale() -> Subresource:
    """The scale of a built-in workload."""
    return _subresource(["spec", "replicas"], ["status", "replicas"], _workload_selector)


def custom_scale(paths: Object) -> Subresource:
    """The scale of a custom resource, from the `subresources.scale` of its definition."""
    selector = _keys(paths.get("labelSelectorPath", ""))
    return _subresource(
        _keys(paths["specReplicasPath"]), _keys(paths["statusReplicasPath"]), lambda obj: _at(obj, selector) or ""
    )


def _keys(path: str) -> list[str]:
    return path.removeprefix(".").split(".") if path else []


def _workload_selector(workload: Object) -> str:
    selector = workload["spec"].get("selector") or {}
    terms = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for one in selector.get("matchExpressions", ()):
        key, operator = one["key"], one["operator"]
        if operator in _OPERATORS:
            terms.append(f"{key} {_OPERATORS[operator]} ({','.join(one.get('values', ()))})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms)


def _subresource(desired: list[str], current: list[str], selector: Callable[[Object], str]) -> Subresource:
    """The scale of objects that have the desired and the current number of replicas at these paths."""

    def scale(obj: Object) -> Object:
        metadata, replicas, selected = obj["metadata"], _at(obj, desired), selector(obj)
        status: Object = {"replicas": _at(obj, current) or 0}
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": {**status, "selector": selected} if selected else status,
        }

    def read(backend: Backend, resource: Resource, request: Request) -> Object:
        obj = backend.storage.load(resource, request.info.namespace, request.info.name)
        if _at(obj, desired) is None:
            why = f'the spec replicas field ".{".".join(desired)}" does not exist'
            details = {"causes": [{"message": why}]}
            raise StatusError(500, "InternalError", f"Internal error occurred: {why}", details)
        return scale(obj)

    def write(backend: Backend, resource: Resource, request: Request) -> Object:
        """Changes the desired number of replicas, and nothing else."""
        storage, info = backend.storage, request.info
        old, new = (storage.load(resource, info.namespace, info.name) for _ in range(2))
        written = request.changed(_SCALE, scale(old))
        replicas = (written.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            raise bad_request(f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0")
        version = (written.get("metadata") or {}).get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        *parents, last = desired
        parent = new
        for key in parents:
            parent = parent.setdefault(key, {})
        parent[last] = replicas
        entry = storage.update(resource, old, new, dry_run=request.dry_run())
        return scale(storage.decode(resource, entry))

    return Subresource({"get": read, "update": write, "patch": write}, "Scale", "autoscaling/v1", columns_of("scale"))


def _at(obj: Object, keys: list[str]) -> Any:
    found: Any = obj if keys else None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
