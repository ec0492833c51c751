"""The verbs: from a request to its answer.

`Handler.answer` is the way of every request; what it calls follows in the order of the calls. Mirrors apiserver's
pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.devcluster.apiserver.authorization.attributes import Attributes
from bayplan.devcluster.apiserver.authorization.claim_status import check_claim_status
from bayplan.devcluster.apiserver.authorization.escalation import check_escalation
from bayplan.devcluster.apiserver.decoding import FieldValidation, accept, read_object, warning_header
from bayplan.devcluster.apiserver.deletion import OPTIONS, delete, read_options
from bayplan.devcluster.apiserver.encoding import encode
from bayplan.devcluster.apiserver.faults import Faults
from bayplan.devcluster.apiserver.http.messages import HttpResponse
from bayplan.devcluster.apiserver.negotiation import negotiate
from bayplan.devcluster.apiserver.patch import APPLY_PATCH
from bayplan.devcluster.apiserver.reading import list_objects, read_selection, read_watch, watch
from bayplan.devcluster.apiserver.registry import Registry, place
from bayplan.devcluster.apiserver.rendering import Renderer
from bayplan.devcluster.apiserver.requesting import Request
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import (
    StatusError,
    invalid,
    method_not_allowed,
    not_found,
    resource_not_found,
    unreadable_patch,
)
from bayplan.devcluster.apiserver.store import key_of
from bayplan.devcluster.apiserver.subresources import VIRTUAL

STATUS_VERBS = frozenset({"get", "update", "patch"})

WATCH_SECONDS = 1800.0
"""How long a watch lasts that does not say."""


class Handler:
    """Carries out requests for resources."""

    def __init__(self, registry: Registry, faults: Faults) -> None:
        self._registry = registry
        self._faults = faults
        self._verbs: dict[str, Callable[[Request, Resource], HttpResponse]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def answer(self, request: Request) -> HttpResponse:
        """The answer to a request for a resource. Raises StatusError."""
        info = request.info
        virtual = VIRTUAL.get((info.group, info.version, info.resource))
        if virtual is not None:
            if info.verb != "create" or info.name:
                raise method_not_allowed()
            question = request.document(virtual.kind_at(info))
            return HttpResponse(201, encode(virtual.answer(self._registry, info, request.user, question)))
        resource = self._registry.resource(info.group, info.version, info.resource)
        if resource is None or (info.namespace and not resource.kind.namespaced):
            raise resource_not_found()
        if info.subresource and not (info.subresource == "status" and resource.kind.status):
            return self._subresource(request, resource)
        if info.subresource and info.verb not in STATUS_VERBS:
            raise method_not_allowed()
        if info.verb == "create" and info.name:
            raise method_not_allowed()
        if info.verb in {"update", "patch"} and not info.name:
            raise method_not_allowed()
        if resource.kind.namespaced and not info.namespace and info.verb not in {"list", "watch"}:
            raise method_not_allowed()
        answer = self._verbs[info.verb](request, resource)
        if resource.warning:
            answer.warnings.insert(0, warning_header(resource.warning))
        return answer

    def _subresource(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        subresource = resource.subresources.get(info.subresource)
        if subresource is None:
            raise resource_not_found()
        verb = subresource.verbs.get(info.verb)
        if verb is None:
            raise method_not_allowed()
        status = 201 if info.verb == "create" else 200
        return HttpResponse(status, encode(verb(self._registry, resource, request)))

    def _get(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        entry = self._registry.find(resource, info.namespace, info.name)
        return HttpResponse(200, self._renderer(request, resource).object(entry))

    def _renderer(self, request: Request, resource: Resource) -> Renderer:
        form, include = negotiate(request.accept), request.parameters.get("includeObject", "") or "Metadata"
        return Renderer(self._registry.clock, resource, form, include)

    def _list(self, request: Request, resource: Resource) -> HttpResponse:
        renderer = self._renderer(request, resource)
        selection = read_selection(resource, request.info.namespace, "", request.parameters)
        entries, metadata = list_objects(self._registry, resource, selection, request.parameters)
        return HttpResponse(200, renderer.list(entries, metadata))

    def _watch(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        renderer = self._renderer(request, resource)
        selection = read_selection(resource, info.namespace, info.name, request.parameters)
        options = read_watch(self._registry, request.parameters, WATCH_SECONDS)
        limit = self._faults.watch_seconds
        stream = watch(self._registry, resource, selection, options, renderer, limit)
        return HttpResponse(200, stream=stream)

    def _create(self, request: Request, resource: Resource) -> HttpResponse:
        renderer = self._renderer(request, resource)
        validation = request.validation()
        obj = read_object(resource.shape, request.body, request.content_type, validation)
        check_escalation(self._registry.access, request.user, resource, request.info.namespace, obj)
        entry = self._registry.create(resource, request.info.namespace, obj, dry_run=request.dry_run())
        return HttpResponse(201, renderer.object(entry), warnings=_warnings(validation))

    def _update(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        renderer = self._renderer(request, resource)
        validation = request.validation()
        new = read_object(resource.shape, request.body, request.content_type, validation)
        if resource.create_on_update and not info.subresource and self._is_missing(request, resource):
            place(resource, info.namespace, new["metadata"], info.name)
            self._check_creation(request, resource, new)
            entry = self._registry.create(resource, info.namespace, new, dry_run=request.dry_run())
            return HttpResponse(201, renderer.object(entry), warnings=_warnings(validation))
        old = self._registry.load(resource, info.namespace, info.name)
        check_escalation(self._registry.access, request.user, resource, info.namespace, new, old)
        check_claim_status(self._registry.access, request.user, info, resource, new, old)
        entry = self._registry.update(resource, old, new, subresource=info.subresource, dry_run=request.dry_run())
        return HttpResponse(200, renderer.object(entry), warnings=_warnings(validation))

    def _check_creation(self, request: Request, resource: Resource, new: Object) -> None:
        """Who updates what is not there creates it, and has to be allowed to. Raises 403."""
        info, access = request.info, self._registry.access
        access.check(request.user, Attributes("create", info.group, info.resource, "", info.namespace, info.name))
        check_escalation(access, request.user, resource, info.namespace, new)

    def _is_missing(self, request: Request, resource: Resource) -> bool:
        key = key_of(request.info.namespace, request.info.name)
        return key not in self._registry.collection(resource).objects

    def _patch(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        renderer = self._renderer(request, resource)
        validation = request.validation()
        if request.media == APPLY_PATCH and self._is_missing(request, resource):
            if info.subresource:
                raise not_found(resource.kind, info.name)
            obj = accept(resource.shape, request.patch(resource.shape), validation)
            place(resource, info.namespace, obj["metadata"], info.name)
            self._check_creation(request, resource, obj)
            entry = self._registry.create(resource, info.namespace, obj, dry_run=request.dry_run())
            return HttpResponse(201, renderer.object(entry), warnings=_warnings(validation))
        old = self._registry.load(resource, info.namespace, info.name)
        new = self._accept_patched(request, resource, old, validation)
        check_escalation(self._registry.access, request.user, resource, info.namespace, new, old)
        check_claim_status(self._registry.access, request.user, info, resource, new, old)
        entry = self._registry.update(resource, old, new, subresource=info.subresource, dry_run=request.dry_run())
        return HttpResponse(200, renderer.object(entry), warnings=_warnings(validation))

    def _accept_patched(self, request: Request, resource: Resource, old: Object, validation: FieldValidation) -> Object:
        """What a patch makes of an object. That this is no object of the kind is the patch's fault: 422."""
        document = request.patched(resource.shape, old)
        try:
            return accept(resource.shape, document, validation)
        except StatusError as error:
            if validation.mode == "Strict" and "strict decoding error" in error.message:
                raise
            raise invalid(resource.kind, old["metadata"]["name"], [unreadable_patch(error.message)]) from error

    def _delete(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        renderer = self._renderer(request, resource)
        options = read_options(request.parameters, request.document(OPTIONS))
        entry, gone = delete(self._registry, resource, info.namespace, info.name, options)
        if gone and not resource.returns_deleted:
            kind = resource.kind
            details = {"name": entry.name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
            return HttpResponse(200, encode({**_SUCCESS, "details": {**details, "uid": entry.uid}}))
        return HttpResponse(200, renderer.object(entry))

    def _delete_collection(self, request: Request, resource: Resource) -> HttpResponse:
        renderer = self._renderer(request, resource)
        options = read_options(request.parameters, request.document(OPTIONS))
        selection = read_selection(resource, request.info.namespace, "", request.parameters)
        entries, metadata = list_objects(self._registry, resource, selection, {})
        deleted = [delete(self._registry, resource, entry.namespace, entry.name, options)[0] for entry in entries]
        return HttpResponse(200, renderer.list(deleted, metadata))


_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _warnings(validation: FieldValidation) -> list[str]:
    return [warning_header(warning) for warning in validation.warnings]
