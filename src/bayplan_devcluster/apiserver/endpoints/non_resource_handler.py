"""The non-resource paths: health, version, discovery and OpenAPI schemas."""

from __future__ import annotations

from functools import cached_property

from bayplan.core.api.status import StatusError, method_not_allowed
from bayplan_devcluster.apiserver.encoding import encode
from bayplan_devcluster.apiserver.endpoints import openapi, openapi_protobuf
from bayplan_devcluster.apiserver.endpoints.discovery import Discovery, version_document
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.http.messages import HttpResponse
from bayplan_devcluster.apiserver.http.negotiation import Form, negotiate
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.served_resources import ServedResources

HEALTH = ("/healthz", "/livez", "/readyz")
AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class NonResourceHandler:
    """Carries out requests for non-resource paths.

    Documents are built at their first request, and again after the served resources have changed. `release` is the
    release of Kubernetes that they name, such as v1.36.2.
    """

    def __init__(self, served: ServedResources, release: str) -> None:
        self._served = served
        self._release = release
        self._cached: _Documents | None = None

    def handle(self, request: Request, address: str) -> HttpResponse:
        """Returns the response to a request for a non-resource path. Raises StatusError."""
        path = request.info.path.rstrip("/") or "/"
        if path.startswith(HEALTH):
            return HttpResponse(200, b"ok", "text/plain")
        if request.info.verb != "get":
            raise method_not_allowed()
        match path:
            case "/version":
                return HttpResponse(200, encode(version_document(self._release)))
            case "/openapi/v2":
                return self._swagger(request.accept)
            case "/openapi/v3":
                return HttpResponse(200, encode(self._schema_index()))
            case _ if path.startswith("/openapi/v3/"):
                return self._schema(path.removeprefix("/openapi/v3/"))
            case "/":
                return HttpResponse(200, encode({"paths": self._paths()}))
            case _ if path.split("/")[1] in {"api", "apis"}:
                return self._discover(request, path, address)
            case _:
                return _page_not_found()

    def _paths(self) -> list[str]:
        known = self._documents.discovery.versions()
        versions = [f"/apis/{group}/{version}" if group else f"/api/{version}" for group, version in known]
        return sorted(["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version", *HEALTH, *versions])

    def _discover(self, request: Request, path: str, address: str) -> HttpResponse:
        form = _form(request.accept)
        aggregated = form.kind == "APIGroupDiscoveryList" and form.version == "v2" and path in {"/api", "/apis"}
        document = self._documents.discovery.document(path, aggregated=aggregated, address=address)
        if document is None:
            return _page_not_found()
        return HttpResponse(200, encode(document), AGGREGATED_TYPE if aggregated else "application/json")

    @property
    def _documents(self) -> _Documents:
        if self._cached is None or self._cached.revision != self._served.revision:
            self._cached = _Documents(self._served, self._release)
        return self._cached

    def _swagger(self, accept: str) -> HttpResponse:
        if openapi_protobuf.ACCEPTED in accept:
            return HttpResponse(200, self._documents.protobuf_swagger, openapi_protobuf.CONTENT_TYPE)
        return HttpResponse(200, self._documents.swagger)

    def _schema_index(self) -> Object:
        paths = {}
        for group, version in self._documents.discovery.versions():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash=embedded"}
        return {"paths": paths}

    def _schema(self, name: str) -> HttpResponse:
        parts = name.split("/")
        match parts:
            case ["api", version] if ("", version) in self._documents.discovery.versions():
                group = ""
            case ["apis", group, version] if (group, version) in self._documents.discovery.versions():
                pass
            case _:
                return _page_not_found()
        schemas = self._documents.schemas
        if name not in schemas:
            resources = self._documents.discovery.resources(group, version)
            schemas[name] = encode(openapi.group_document(resources, self._release))
        return HttpResponse(200, schemas[name])


class _Documents:
    """The documents for one revision of the served resources."""

    def __init__(self, served: ServedResources, release: str) -> None:
        self.revision = served.revision
        self._release = release
        self.discovery = Discovery(served)
        self.schemas: dict[str, bytes] = {}
        self._resources = list(served)

    @cached_property
    def swagger(self) -> bytes:
        return encode(openapi.swagger(self._resources, self._release))

    @cached_property
    def protobuf_swagger(self) -> bytes:
        return openapi_protobuf.encode_swagger(openapi.swagger(self._resources, self._release))


def _form(accept: str) -> Form:
    try:
        return negotiate(accept)
    except StatusError:
        return Form()


def _page_not_found() -> HttpResponse:
    return HttpResponse(404, b"404 page not found\n", "text/plain")
