"""The verbs: from a request for a resource to its response.

`ResourceHandler.handle` dispatches a request; the functions that it calls follow. Mirrors apiserver's
pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.core.api.patch import APPLY_PATCH, STRATEGIC_PATCH
from bayplan.core.api.status import (
    StatusError,
    future_version,
    internal,
    invalid,
    method_not_allowed,
    name_undeterminable,
    not_found,
    resource_not_found,
    unreadable_patch,
    unreadable_strategic_patch,
)
from bayplan_devcluster.apiserver.authorization.attributes import Attributes
from bayplan_devcluster.apiserver.authorization.claim_status import check_claim_status
from bayplan_devcluster.apiserver.authorization.escalation import check_escalation
from bayplan_devcluster.apiserver.encoding import encode
from bayplan_devcluster.apiserver.endpoints.backend import Backend
from bayplan_devcluster.apiserver.endpoints.decoding import FieldValidation, accept, read_object, warning_header
from bayplan_devcluster.apiserver.endpoints.lists import list_objects, read_selection, read_version
from bayplan_devcluster.apiserver.endpoints.rendering import Renderer
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.endpoints.subresource_catalog import subresources_of
from bayplan_devcluster.apiserver.endpoints.virtual_resources import VIRTUAL
from bayplan_devcluster.apiserver.endpoints.watches import read_watch, watch
from bayplan_devcluster.apiserver.faults import Faults
from bayplan_devcluster.apiserver.http.messages import HttpResponse
from bayplan_devcluster.apiserver.http.negotiation import negotiate
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.deletion import OPTIONS, delete, read_options
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import ensure_matches_url
from bayplan_devcluster.apiserver.storage.store import key_of
from bayplan_devcluster.apiserver.tables import table

STATUS_VERBS = frozenset({"get", "update", "patch"})

WATCH_SECONDS = 1800.0
"""How long a watch without a timeout lasts."""


class ResourceHandler:
    """Carries out requests for resources."""

    def __init__(self, backend: Backend, faults: Faults) -> None:
        self._backend = backend
        self._storage = backend.storage
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

    def handle(self, request: Request) -> HttpResponse:
        """Returns the response to a request for a resource. Raises StatusError."""
        info = request.info
        if not info.verb:
            raise method_not_allowed()
        virtual = VIRTUAL.get((info.group, info.version, info.resource))
        if virtual is not None:
            if info.verb != "create" or info.name:
                raise method_not_allowed()
            body = request.document(virtual.kind_at(info))
            return HttpResponse(201, encode(virtual.create(self._backend, info, request.user, body)))
        resource = self._storage.served.find(info.group, info.version, info.resource)
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
        request.check_options()
        response = self._verbs[info.verb](request, resource)
        if resource.custom is not None and resource.custom.warning:
            response.warnings.insert(0, warning_header(resource.custom.warning))
        return response

    def _subresource(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        subresource = subresources_of(resource).get(info.subresource)
        if subresource is None:
            raise resource_not_found()
        verb = subresource.verbs.get(info.verb)
        if verb is None:
            raise method_not_allowed()
        request.check_options()
        status = 201 if info.verb == "create" else 200
        obj = verb(self._backend, resource, request)
        form = negotiate(request.accept)
        if form.kind == "Table":
            version = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            obj = table(resource.kind, subresource.table, [obj], version, self._storage.clock.now())
        return HttpResponse(status, encode(obj))

    def _get(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        version = read_version(request.query.get("resourceVersion", ""))
        if version > self._storage.store.version:
            raise future_version(version, self._storage.store.version)
        entry = self._storage.find(resource, info.namespace, info.name)
        return HttpResponse(200, self._renderer(request, resource).object(entry))

    def _renderer(self, request: Request, resource: Resource) -> Renderer:
        form, include = negotiate(request.accept), request.query.get("includeObject", "") or "Metadata"
        return Renderer(self._storage.clock, resource, form, include)

    def _list(self, request: Request, resource: Resource) -> HttpResponse:
        renderer = self._renderer(request, resource)
        selection = read_selection(resource, request.info.namespace, "", request.query)
        entries, metadata = list_objects(self._storage, resource, selection, request.query)
        return HttpResponse(200, renderer.list(entries, metadata))

    def _watch(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        renderer = self._renderer(request, resource)
        selection = read_selection(resource, info.namespace, info.name, request.query)
        options = read_watch(self._storage, request.query, WATCH_SECONDS)
        limit = self._faults.watch_seconds
        stream = watch(self._storage, resource, selection, options, renderer, limit)
        return HttpResponse(200, stream=stream)

    def _create(self, request: Request, resource: Resource) -> HttpResponse:
        validation = request.validation()
        obj = read_object(resource.schema, request.body, request.content_type, validation)
        check_escalation(self._backend.access, request.user, resource, request.info.namespace, obj)
        return self._store_new(request, resource, obj, validation)

    def _store_new(
        self, request: Request, resource: Resource, obj: Object, validation: FieldValidation
    ) -> HttpResponse:
        renderer, warnings = self._renderer(request, resource), _warnings(validation, resource, obj)
        entry = self._storage.create(resource, request.info.namespace, obj, dry_run=request.dry_run())
        return HttpResponse(201, renderer.object(entry), warnings=warnings)

    def _update(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        validation = request.validation()
        new = read_object(resource.schema, request.body, request.content_type, validation)
        if not new["metadata"].get("name"):
            raise name_undeterminable(info.name)
        if resource.allow_create_on_update and not info.subresource and self._is_missing(request, resource):
            return self._store_missing(request, resource, new, validation)
        old = self._storage.load(resource, info.namespace, info.name)
        return self._store_changed(request, resource, old, new, validation)

    def _store_missing(
        self, request: Request, resource: Resource, new: Object, validation: FieldValidation
    ) -> HttpResponse:
        """Creates the object that an update or an apply of a missing object names, if the user may. Raises 403."""
        info, access = request.info, self._backend.access
        ensure_matches_url(resource, info.namespace, new["metadata"], info.name)
        access.check(request.user, Attributes("create", info.group, info.resource, "", info.namespace, info.name))
        check_escalation(access, request.user, resource, info.namespace, new)
        return self._store_new(request, resource, new, validation)

    def _store_changed(
        self, request: Request, resource: Resource, old: Object, new: Object, validation: FieldValidation
    ) -> HttpResponse:
        info, renderer, warnings = request.info, self._renderer(request, resource), _warnings(validation, resource, new)
        check_escalation(self._backend.access, request.user, resource, info.namespace, new, old)
        check_claim_status(self._backend.access, request.user, info, resource, new, old)
        entry = self._storage.update(resource, old, new, subresource=info.subresource, dry_run=request.dry_run())
        return HttpResponse(200, renderer.object(entry), warnings=warnings)

    def _is_missing(self, request: Request, resource: Resource) -> bool:
        key = key_of(request.info.namespace, request.info.name)
        return key not in self._storage.collection(resource).objects

    def _patch(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        validation = request.validation()
        if request.media == APPLY_PATCH and self._is_missing(request, resource):
            if info.subresource:
                raise not_found(resource.kind, info.name)
            obj = accept(resource.schema, request.patch(resource.schema), validation)
            return self._store_missing(request, resource, obj, validation)
        old = self._storage.load(resource, info.namespace, info.name)
        new = self._accept_patched(request, resource, old, validation)
        if not new["metadata"].get("name"):
            raise name_undeterminable(info.name)
        return self._store_changed(request, resource, old, new, validation)

    def _accept_patched(self, request: Request, resource: Resource, old: Object, validation: FieldValidation) -> Object:
        """Returns the patched object. Raises 422 if the result is not an object of the kind."""
        document = request.patched(resource.schema, old)
        try:
            return accept(resource.schema, document, validation)
        except StatusError as error:
            if validation.mode == "Strict" and "strict decoding error" in error.message:
                if request.media == STRATEGIC_PATCH:
                    why = error.message[error.message.index("strict decoding error") :]
                    raise unreadable_strategic_patch(why) from error
                raise
            if request.media == APPLY_PATCH:
                raise internal(f"failed to convert the applied configuration: {error.message}") from error
            raise invalid(resource.kind, old["metadata"]["name"], [unreadable_patch(error.message)]) from error

    def _delete(self, request: Request, resource: Resource) -> HttpResponse:
        info = request.info
        renderer = self._renderer(request, resource)
        options = read_options(request.query, request.document(OPTIONS))
        entry, removed = delete(self._storage, resource, info.namespace, info.name, options)
        if removed and not resource.return_deleted_object:
            kind = resource.kind
            details = {"name": entry.name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
            return HttpResponse(200, encode({**_SUCCESS, "details": {**details, "uid": entry.uid}}))
        return HttpResponse(200, renderer.object(entry))

    def _delete_collection(self, request: Request, resource: Resource) -> HttpResponse:
        renderer = self._renderer(request, resource)
        options = read_options(request.query, request.document(OPTIONS))
        selection = read_selection(resource, request.info.namespace, "", request.query)
        entries, metadata = list_objects(self._storage, resource, selection, {})
        deleted = [delete(self._storage, resource, entry.namespace, entry.name, options)[0] for entry in entries]
        return HttpResponse(200, renderer.list(deleted, metadata))


_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _warnings(validation: FieldValidation, resource: Resource, obj: Object) -> list[str]:
    return [warning_header(warning) for warning in (*validation.warnings, *resource.strategy.warn(obj))]
