"""What can be done to an object besides reading and writing it, and the resources that are no more than a question.

Each is a function from a request to the object that answers it; the tables at the end say which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bayplan.api.kinds import NAMESPACE, POD, Kind
from bayplan.devcluster.apiserver import reviews
from bayplan.devcluster.apiserver.authorization.service_account_tokens import TOKEN_REQUEST
from bayplan.devcluster.apiserver.authorization.users import User
from bayplan.devcluster.apiserver.binding import bind
from bayplan.devcluster.apiserver.eviction import evict
from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.requests import RequestInfo
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import StatusError, bad_request

if TYPE_CHECKING:
    from bayplan.devcluster.apiserver.requesting import Request

BINDING = Kind("", "v1", "Binding", "bindings", "binding", namespaced=True, model="core_v1.Binding")
EVICTION = Kind("policy", "v1", "Eviction", "evictions", "eviction", namespaced=True, model="policy_v1.Eviction")

Verb = Callable[[Registry, Resource, "Request"], Object]
"""(registry, the resource, the request) -> the object that answers it. Raises StatusError."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource's verbs, and what discovery says of it. `api_version` is "" for the resource's own."""

    verbs: Mapping[str, Verb] = field(default_factory=dict)
    kind: str = ""
    api_version: str = ""


def _bind(registry: Registry, resource: Resource, request: Request) -> Object:
    info = request.info
    return bind(registry, resource, info.namespace, info.name, request.document(BINDING), dry_run=request.dry_run())


def _evict(registry: Registry, resource: Resource, request: Request) -> Object:
    info = request.info
    return evict(registry, resource, info.namespace, info.name, request.document(EVICTION), dry_run=request.dry_run())


def _read_scale(registry: Registry, resource: Resource, request: Request) -> Object:
    return _scale(registry.load(resource, request.info.namespace, request.info.name))


def _scale(workload: Object) -> Object:
    metadata, spec = workload["metadata"], workload["spec"]
    status: Object = {"replicas": workload.get("status", {}).get("replicas", 0)}
    selector = spec.get("selector") or {}
    terms = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    words = {"In": "in", "NotIn": "notin"}
    for one in selector.get("matchExpressions", ()):
        key, operator = one["key"], one["operator"]
        values = ",".join(one.get("values", ()))
        terms.append(
            f"{key} {words[operator]} ({values})" if operator in words else key if operator == "Exists" else f"!{key}"
        )
    if terms:
        status["selector"] = ",".join(terms)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": status,
    }


def _write_scale(registry: Registry, resource: Resource, request: Request) -> Object:
    """An update or a patch of the scale changes the number of replicas, and nothing else."""
    old = registry.load(resource, request.info.namespace, request.info.name)
    scale = request.changed(_scale(old))
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(wanted, int) or wanted < 0:
        raise bad_request(f"spec.replicas: Invalid value: {wanted}: must be greater than or equal to 0")
    metadata = dict(old["metadata"])
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        metadata["resourceVersion"] = version
    new = {**old, "metadata": metadata, "spec": {**old["spec"], "replicas": wanted}}
    entry = registry.update(resource, old, new, dry_run=request.dry_run())
    return _scale(registry.decoded(resource, entry))


def _write_part(registry: Registry, resource: Resource, request: Request) -> Object:
    """Subresources of a pod that change a part of its spec which the pod itself does not let go: ephemeral containers,
    and the resources of containers.
    """
    old = registry.load(resource, request.info.namespace, request.info.name)
    new = request.object(resource, old)
    field = "ephemeralContainers" if request.info.subresource == "ephemeralcontainers" else "containers"
    part: Object = {field: new["spec"].get(field) or []}
    if field == "containers":
        part["containers"] = [
            {**was, "resources": now["resources"]}
            for was, now in zip(old["spec"]["containers"], new["spec"]["containers"], strict=True)
        ]
    changed = {**old, "spec": {**old["spec"], **part}}
    resource.default(changed)
    if changed != old:
        changed["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        entry = registry.write(resource, changed, dry_run=request.dry_run())
        changed = registry.decoded(resource, entry)
    return {"kind": "Pod", "apiVersion": "v1", **changed}


def _finalize(registry: Registry, resource: Resource, request: Request) -> Object:
    """Takes a namespace's finalizer away; without one, a namespace that is being deleted goes."""
    name = request.info.name
    old = registry.load(resource, "", name)
    finalizers = request.object(resource, old).get("spec", {}).get("finalizers", [])
    new = {**old, "spec": {"finalizers": finalizers} if finalizers else {}}
    if not finalizers and "deletionTimestamp" in old["metadata"] and not old["metadata"].get("finalizers"):
        entry = registry.remove(resource, new)
    else:
        entry = registry.write(resource, new)
    return {"kind": NAMESPACE.kind, "apiVersion": "v1", **registry.decoded(resource, entry)}


def _create_token(registry: Registry, _resource: Resource, request: Request) -> Object:
    info = request.info
    return registry.access.tokens.create(info.namespace, info.name, request.document(TOKEN_REQUEST))


def _no_log(registry: Registry, resource: Resource, request: Request) -> Object:
    registry.find(resource, request.info.namespace, request.info.name)
    message = "the embedded API server simulates pods: nothing runs in their containers, so there is no log"
    raise StatusError(501, "NotImplemented", message)


_SCALE = Subresource({"get": _read_scale, "update": _write_scale, "patch": _write_scale}, "Scale", "autoscaling/v1")

SUBRESOURCES: dict[str, dict[str, Subresource]] = {
    "pods": {
        "binding": Subresource({"create": _bind}, "Binding"),
        "ephemeralcontainers": Subresource({"update": _write_part, "patch": _write_part}, "Pod"),
        "eviction": Subresource({"create": _evict}, "Eviction", "policy/v1"),
        "log": Subresource({"get": _no_log}, "Pod"),
        "resize": Subresource({"update": _write_part, "patch": _write_part}, "Pod"),
    },
    "serviceaccounts": {"token": Subresource({"create": _create_token}, "TokenRequest", "authentication.k8s.io/v1")},
    "namespaces": {"finalize": Subresource({"update": _finalize}, "Namespace")},
    "deployments.apps": {"scale": _SCALE},
    "replicasets.apps": {"scale": _SCALE},
    "statefulsets.apps": {"scale": _SCALE},
    "replicationcontrollers": {"scale": _SCALE},
}
"""By resource and name, besides `status`."""


def _bind_from_collection(registry: Registry, info: RequestInfo, _user: User, document: Object) -> Object:
    pods = registry.resource("", "v1", POD.plural)
    name = document["metadata"].get("name", "")
    if pods is None or not name:
        raise bad_request("name is required in a Binding")
    return bind(registry, pods, info.namespace, name, document)


@dataclass(frozen=True, slots=True)
class VirtualResource:
    """A resource of which nothing is stored: a create is a question, and its answer is all there is."""

    kind: str
    answer: Callable[[Registry, RequestInfo, User, Object], Object]
    """(registry, the request, the user who asks, the body) -> the answer. Raises StatusError."""
    namespaced: bool = False

    def kind_at(self, info: RequestInfo) -> Kind:
        """The kind that a question in a request is of."""
        module = f"{info.group.partition('.')[0] or 'core'}_{info.version}"
        model = f"{module}.{self.kind}"
        return Kind(info.group, info.version, self.kind, info.resource, "", namespaced=self.namespaced, model=model)


VIRTUAL: dict[tuple[str, str, str], VirtualResource] = {
    ("", "v1", "bindings"): VirtualResource("Binding", _bind_from_collection, namespaced=True),
    ("authentication.k8s.io", "v1", "tokenreviews"): VirtualResource("TokenReview", reviews.review_token),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): VirtualResource("SelfSubjectReview", reviews.review_self),
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): VirtualResource(
        "SubjectAccessReview", reviews.review_access
    ),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews"): VirtualResource(
        "LocalSubjectAccessReview", reviews.review_access, namespaced=True
    ),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): VirtualResource(
        "SelfSubjectAccessReview", reviews.review_own_access
    ),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"): VirtualResource(
        "SelfSubjectRulesReview", reviews.review_own_rules
    ),
}
