"""Subresources of pods that change a part of the spec which is immutable in the pod itself.

Mirrors the resize and ephemeral containers strategies of Kubernetes' pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from bayplan.core.api.kinds import POD
from bayplan.core.api.status import invalid
from bayplan_devcluster.apiserver.endpoints.backend import Backend
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.validation.pod_updates import validate_resize
from bayplan_devcluster.apiserver.validation.rules import check


def read_pod(backend: Backend, resource: Resource, request: Request) -> Object:
    """Returns the pod."""
    return _shown(backend.storage.load(resource, request.info.namespace, request.info.name))


def resize(backend: Backend, resource: Resource, request: Request) -> Object:
    """Changes the resources of containers; other changes are ignored. Raises 422, and 403 from admission."""
    storage, info = backend.storage, request.info
    old = storage.load(resource, info.namespace, info.name)
    new = request.object(resource, old)
    changed = {**old, "spec": {**old["spec"]}}
    for field in ("containers", "initContainers"):
        if field in old["spec"] or field in new["spec"]:
            changed["spec"][field] = _with_resources(new["spec"].get(field) or [], old["spec"].get(field) or [])
    resource.schema.fill_defaults(changed)
    errors = [*check(POD.model, changed), *validate_resize(changed, old)]
    if errors:
        raise invalid(resource.kind, info.name, errors)
    for review in storage.reviews:
        review(resource, changed, old, "resize")
    return _write(backend, resource, request, changed, old)


def _with_resources(new: list[Object], old: list[Object]) -> list[Object]:
    """The old containers with the new resources; the new containers if they are not the same ones."""
    if [one.get("name") for one in new] != [one.get("name") for one in old]:
        return new
    fields = ("resources", "resizePolicy")
    return [
        {**was, **{field: now[field] for field in fields if field in now}} for now, was in zip(new, old, strict=True)
    ]


def set_ephemeral_containers(backend: Backend, resource: Resource, request: Request) -> Object:
    """Replaces the ephemeral containers; other changes are ignored."""
    old = backend.storage.load(resource, request.info.namespace, request.info.name)
    new = request.object(resource, old)
    changed = {**old, "spec": {**old["spec"], "ephemeralContainers": new["spec"].get("ephemeralContainers") or []}}
    resource.schema.fill_defaults(changed)
    return _write(backend, resource, request, changed, old)


def _write(backend: Backend, resource: Resource, request: Request, changed: Object, old: Object) -> Object:
    if changed != old:
        generation = old["metadata"].get("generation", 0) + 1
        changed["metadata"] = {**changed["metadata"], "generation": generation}
        entry = backend.storage.write(resource, changed, dry_run=request.dry_run())
        changed = backend.storage.decode(resource, entry)
    return _shown(changed)


def _shown(pod: Object) -> Object:
    return {"kind": "Pod", "apiVersion": "v1", **pod}
