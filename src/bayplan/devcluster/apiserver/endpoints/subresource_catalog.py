"""The subresources of all resources, except `status`."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.kinds import NAMESPACE, Kind
from bayplan.devcluster.apiserver.authorization.service_account_tokens import TOKEN_REQUEST
from bayplan.devcluster.apiserver.endpoints.backend import Backend
from bayplan.devcluster.apiserver.endpoints.binding import bind
from bayplan.devcluster.apiserver.endpoints.eviction import evict
from bayplan.devcluster.apiserver.endpoints.request import Request
from bayplan.devcluster.apiserver.endpoints.scale import custom_scale, workload_scale
from bayplan.devcluster.apiserver.endpoints.subresource import Subresource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import StatusError
from bayplan.devcluster.apiserver.storage.resource import Resource

BINDING = Kind("", "v1", "Binding", "bindings", "binding", namespaced=True, model="core_v1.Binding")
EVICTION = Kind("policy", "v1", "Eviction", "evictions", "eviction", namespaced=True, model="policy_v1.Eviction")


def subresources_of(resource: Resource) -> Mapping[str, Subresource]:
    """Returns the subresources of a resource by name, except `status`."""
    if resource.custom is not None:
        return {"scale": custom_scale(resource.custom.scale)} if resource.custom.scale is not None else {}
    return _BUILT_IN.get(resource.kind.resource, {})


def _bind(backend: Backend, resource: Resource, request: Request) -> Object:
    info, binding = request.info, request.document(BINDING)
    return bind(backend.storage, resource, info.namespace, info.name, binding, dry_run=request.dry_run())


def _evict(backend: Backend, resource: Resource, request: Request) -> Object:
    info, eviction = request.info, request.document(EVICTION)
    return evict(backend.storage, resource, info.namespace, info.name, eviction, dry_run=request.dry_run())


def _update_spec(backend: Backend, resource: Resource, request: Request) -> Object:
    """Updates a part of a pod's spec that is immutable in the pod itself: ephemeral containers, or the resources of
    containers.
    """
    old = backend.storage.load(resource, request.info.namespace, request.info.name)
    new = request.object(resource, old)
    field = "ephemeralContainers" if request.info.subresource == "ephemeralcontainers" else "containers"
    part: Object = {field: new["spec"].get(field) or []}
    if field == "containers":
        part["containers"] = [
            {**was, "resources": now["resources"]}
            for was, now in zip(old["spec"]["containers"], new["spec"]["containers"], strict=True)
        ]
    changed = {**old, "spec": {**old["spec"], **part}}
    resource.strategy.default(changed)
    if changed != old:
        changed["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        entry = backend.storage.write(resource, changed, dry_run=request.dry_run())
        changed = backend.storage.decode(resource, entry)
    return {"kind": "Pod", "apiVersion": "v1", **changed}


def _finalize(backend: Backend, resource: Resource, request: Request) -> Object:
    """Replaces a namespace's finalizers; removes the namespace if it is being deleted and none are left."""
    name = request.info.name
    old = backend.storage.load(resource, "", name)
    finalizers = request.object(resource, old).get("spec", {}).get("finalizers", [])
    new = {**old, "spec": {"finalizers": finalizers} if finalizers else {}}
    if not finalizers and "deletionTimestamp" in old["metadata"] and not old["metadata"].get("finalizers"):
        entry = backend.storage.remove(resource, new)
    else:
        entry = backend.storage.write(resource, new)
    return {"kind": NAMESPACE.kind, "apiVersion": "v1", **backend.storage.decode(resource, entry)}


def _create_token(backend: Backend, _resource: Resource, request: Request) -> Object:
    info = request.info
    return backend.access.tokens.create(info.namespace, info.name, request.document(TOKEN_REQUEST))


def _no_log(backend: Backend, resource: Resource, request: Request) -> Object:
    backend.storage.find(resource, request.info.namespace, request.info.name)
    message = "the embedded API server simulates pods: nothing runs in their containers, so there is no log"
    raise StatusError(501, "NotImplemented", message)


_SCALE = workload_scale()

_BUILT_IN: Mapping[str, Mapping[str, Subresource]] = {
    "pods": {
        "binding": Subresource({"create": _bind}, "Binding"),
        "ephemeralcontainers": Subresource({"update": _update_spec, "patch": _update_spec}, "Pod"),
        "eviction": Subresource({"create": _evict}, "Eviction", "policy/v1"),
        "log": Subresource({"get": _no_log}, "Pod"),
        "resize": Subresource({"update": _update_spec, "patch": _update_spec}, "Pod"),
    },
    "serviceaccounts": {"token": Subresource({"create": _create_token}, "TokenRequest", "authentication.k8s.io/v1")},
    "namespaces": {"finalize": Subresource({"update": _finalize}, "Namespace")},
    "deployments.apps": {"scale": _SCALE},
    "replicasets.apps": {"scale": _SCALE},
    "statefulsets.apps": {"scale": _SCALE},
    "replicationcontrollers": {"scale": _SCALE},
}
"""By resource and name."""
