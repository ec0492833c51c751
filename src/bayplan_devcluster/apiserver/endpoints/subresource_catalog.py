"""The subresources of all resources, except `status`."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.core.api.kinds import NAMESPACE, Kind
from bayplan.core.api.status import StatusError
from bayplan_devcluster.apiserver.authorization.service_account_tokens import TOKEN_REQUEST
from bayplan_devcluster.apiserver.endpoints.backend import Backend, Subresource, Verb
from bayplan_devcluster.apiserver.endpoints.binding import bind
from bayplan_devcluster.apiserver.endpoints.eviction import evict
from bayplan_devcluster.apiserver.endpoints.pod_parts import read_pod, resize, set_ephemeral_containers
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.endpoints.scale import custom_scale, workload_scale
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource

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


def _write_status(backend: Backend, resource: Resource, request: Request) -> Object:
    """Replaces the status, as the subresource `status` does."""
    storage, kind = backend.storage, resource.kind
    old = storage.load(resource, request.info.namespace, request.info.name)
    new = request.object(resource, old)
    entry = storage.update(resource, old, new, subresource="status", dry_run=request.dry_run())
    return {"kind": kind.kind, "apiVersion": kind.api_version, **storage.decode(resource, entry)}


def _create_token(backend: Backend, _resource: Resource, request: Request) -> Object:
    info = request.info
    return backend.access.tokens.create(info.namespace, info.name, request.document(TOKEN_REQUEST))


def _refuse(action: str) -> Verb:
    """A verb that is not supported: it returns 501 with the reason, or 404 for a missing pod."""

    def refuse(backend: Backend, resource: Resource, request: Request) -> Object:
        backend.storage.find(resource, request.info.namespace, request.info.name)
        message = f"the embedded API server simulates pods: nothing runs in their containers, so {action}"
        raise StatusError(501, "NotImplemented", message)

    return refuse


def _connection(kind: str, action: str) -> Subresource:
    refuse = _refuse(action)
    return Subresource({"create": refuse, "get": refuse}, kind)


_SCALE = workload_scale()

_BUILT_IN: Mapping[str, Mapping[str, Subresource]] = {
    "pods": {
        "binding": Subresource({"create": _bind}, "Binding"),
        "attach": _connection("PodAttachOptions", "there is no process to attach to"),
        "ephemeralcontainers": Subresource(
            {"get": read_pod, "update": set_ephemeral_containers, "patch": set_ephemeral_containers}, "Pod"
        ),
        "eviction": Subresource({"create": _evict}, "Eviction", "policy/v1"),
        "exec": _connection("PodExecOptions", "there is no container to run a command in or to copy files from"),
        "log": Subresource({"get": _refuse("there is no log")}, "Pod"),
        "portforward": _connection("PodPortForwardOptions", "there is no port to forward to"),
        "proxy": _connection("PodProxyOptions", "there is no server to forward requests to"),
        "resize": Subresource({"get": read_pod, "update": resize, "patch": resize}, "Pod"),
    },
    "certificatesigningrequests.certificates.k8s.io": {
        "approval": Subresource({"update": _write_status, "patch": _write_status}, "CertificateSigningRequest")
    },
    "serviceaccounts": {"token": Subresource({"create": _create_token}, "TokenRequest", "authentication.k8s.io/v1")},
    "namespaces": {"finalize": Subresource({"update": _finalize}, "Namespace")},
    "deployments.apps": {"scale": _SCALE},
    "replicasets.apps": {"scale": _SCALE},
    "statefulsets.apps": {"scale": _SCALE},
    "replicationcontrollers": {"scale": _SCALE},
}
"""By resource and name."""
