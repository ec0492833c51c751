"""ApiServer: puts its parts together, and passes each request through authentication, faults and handlers.

    response = await server.handle(request)        # values; a socket is optional

All state is in memory, and belongs to one event loop. Two servers can run in one process.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import yaml

from bayplan.core.api.kinds import (
    ADDED_KINDS,
    CUSTOM_RESOURCE_DEFINITION,
    GATED_KINDS,
    Kind,
    taint_rule_kind,
)
from bayplan.core.api.status import StatusError
from bayplan.core.versions import OLDEST, RELEASES, FeatureGates, Version, gates_of
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.lazy import on_use
from bayplan.foundations.manifest_files import read_documents
from bayplan_devcluster.apiserver.authorization.access import Access
from bayplan_devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan_devcluster.apiserver.authorization.users import AUTHENTICATED, MASTERS, User
from bayplan_devcluster.apiserver.endpoints.backend import Backend
from bayplan_devcluster.apiserver.endpoints.decoding import FieldValidation, accept
from bayplan_devcluster.apiserver.endpoints.non_resource_handler import NonResourceHandler
from bayplan_devcluster.apiserver.endpoints.rendering import to_yaml
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.endpoints.resource_handler import ResourceHandler
from bayplan_devcluster.apiserver.faults import Faults
from bayplan_devcluster.apiserver.http.address import LOOPBACK, Address
from bayplan_devcluster.apiserver.http.messages import (
    JSON_TYPE,
    YAML_TYPE,
    ConnectionDropped,
    HttpRequest,
    HttpResponse,
)
from bayplan_devcluster.apiserver.http.negotiation import negotiate
from bayplan_devcluster.apiserver.http.request_info import read_request_info
from bayplan_devcluster.apiserver.kinds.admission import admit
from bayplan_devcluster.apiserver.kinds.catalog import CONTROLLERS, FINALIZE, catalog
from bayplan_devcluster.apiserver.kinds.declared_features import NEEDED, check_declared_features
from bayplan_devcluster.apiserver.kinds.limit_ranges import check_limits
from bayplan_devcluster.apiserver.kinds.quotas import Quotas
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.garbage_collector import GarbageCollector
from bayplan_devcluster.apiserver.storage.rest_storage import NAMESPACES, RestStorage
from bayplan_devcluster.apiserver.storage.served_resources import ServedResources
from bayplan_devcluster.apiserver.storage.store import Store

with on_use():
    from bayplan_devcluster.apiserver.http import listener


if TYPE_CHECKING:
    from bayplan_devcluster.apiserver.http.listener import HttpListener

_log = logging.getLogger(__name__)

_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
"""The methods whose requests have a body. It is read after authorization."""

IN_MEMORY_URL = "http://in-memory"
"""The URL of a server that does not listen."""


class ApiServer:
    """An embedded kube-apiserver, which serves while its asynchronous context is entered.

    All state is in memory. `handle` carries out a request. Unless `address` is None, the server also listens there.

    `tokens` maps bearer tokens to users. Without tokens, every request is allowed; with tokens, every request that has
    one. With `rbac`, roles and bindings decide, and the server starts with the default ones of a cluster; a user that
    `tokens` gives by name then has only the group `system:authenticated`, and `ADMIN` is a user with all rights.

    `version` is the version of Kubernetes that it emulates. `alpha` adds the kinds of scheduling.k8s.io that this
    version serves with the feature gates GenericWorkload and CompositePodGroup; `gated` has others to serve instead.
    `gates` are the feature gates; by default, those of the version.
    `clock` provides the times in objects. `history` is the number of changes per kind that watches can resume from.
    Raises ValueError if the hosts of the address are invalid.
    """

    def __init__(
        self,
        *,
        address: Address | None = LOOPBACK,
        tokens: Mapping[str, str | User] | None = None,
        rbac: bool = False,
        version: Version = OLDEST,
        alpha: bool = False,
        gated: tuple[Kind, ...] | None = None,
        gates: FeatureGates | None = None,
        clock: Clock | None = None,
        history: int = 50_000,
    ) -> None:
        self.clock = clock or SystemClock()
        self.version = version
        self.faults = Faults()
        self.store = Store(history)
        groups = (AUTHENTICATED,) if rbac else (MASTERS, AUTHENTICATED)
        users = {token: User(who, groups) if isinstance(who, str) else who for token, who in (tokens or {}).items()}
        self.access = Access(self.store, self.clock, users, rbac=rbac)
        if gated is None:
            gated = GATED_KINDS[version] if alpha else ()
        features = (gates or gates_of(version)).on
        added = ADDED_KINDS[version]
        self.taint_rules = taint_rule_kind(version) if "DRADeviceTaintRules" in features else None
        """The kind of DeviceTaintRules; None if they have no effect."""
        self.pod_groups = next((kind for kind in gated if kind.plural == "podgroups"), None)
        """The kind of PodGroups, if these have claims as a whole; None otherwise."""
        if "DRAWorkloadResourceClaims" not in features:
            self.pod_groups = None
        if self.taint_rules is not None and self.taint_rules not in added:
            added = (*added, self.taint_rules)
        served = ServedResources(catalog((*added, *gated), features))
        self.storage = RestStorage(
            self.store, self.clock, served, admit=partial(admit, features=features), controllers=CONTROLLERS
        )
        self._resources = ResourceHandler(Backend(self.storage, self.access), self.faults)
        self._non_resources = NonResourceHandler(self.storage.served, RELEASES[version])
        self._listener: HttpListener | None = None
        if address is not None:
            self._listener = listener.HttpListener(self.handle, address)
        self.address = address
        """The requested address; None if it doesn't listen."""
        self.first_token = next(iter(users), None)
        """The bearer token of the user in its kubeconfig; None if it has no tokens."""
        self._garbage = GarbageCollector(self.storage, FINALIZE)
        self._collecting: asyncio.Task[None] | None = None
        self.storage.reviews.append(partial(check_limits, self.storage))
        if features >= NEEDED:
            self.storage.reviews.append(partial(check_declared_features, self.storage))
        Quotas(self.storage)
        self._create_initial_objects()
        if rbac:
            self.load(bootstrap_policy(version, alpha=alpha))
        self.store.begin()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts background work and, serves. Raises OSError if the address is in use."""
        if self._listener is not None:
            await self._listener.start()
        self._collecting = asyncio.create_task(self._garbage.run(), name="garbage collector")
        self._collecting.add_done_callback(_log_failure)

    async def stop(self) -> None:
        """Ends all watches, waits for other requests to finish, and closes the socket."""
        self.faults.clear()
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.gather(self._collecting, return_exceptions=True)
            self._collecting = None
        if self._listener is not None:
            await self._listener.stop()

    @property
    def listens(self) -> bool:
        """Whether it serves on a socket."""
        return self._listener is not None

    @property
    def url(self) -> str:
        """The URL that it serves on; valid once it has started."""
        return self._listener.url if self._listener is not None else IN_MEMORY_URL

    @property
    def authority(self) -> str:
        """The authority that signed its certificate, as PEM; "" without TLS."""
        tls = self.address.tls if self.address is not None else None
        return tls.authority.decode() if tls is not None else ""

    def kubeconfig(self) -> str:
        """Returns a kubeconfig for this server as YAML, with its certificate authority and the first of its tokens."""
        cluster: Object = {"server": self.url}
        if self.authority:
            cluster["certificate-authority-data"] = base64.b64encode(self.authority.encode()).decode()
        user = {"token": self.first_token} if self.first_token is not None else {}
        context = {"cluster": "bayplan", "user": "bayplan", "namespace": "default"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bayplan", "cluster": cluster}],
            "users": [{"name": "bayplan", "user": user}],
            "contexts": [{"name": "bayplan", "context": context}],
            "current-context": "bayplan",
        }
        text: str = yaml.safe_dump(config, sort_keys=False)
        return text

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Carries out a request and returns the response; an error is a response with a Status.

        Raises ConnectionDropped if a fault closes the connection.
        """
        query, headers = request.query, request.headers
        info = read_request_info(request.method, request.path, query)
        fault = None
        try:
            user = self.access.authenticate(headers.get("Authorization", ""))
            user = self.access.admit(user, info, query, headers.items())
            if self.faults.active:
                fault = await self.faults.before(info)
            body = request.body
            if request.receive is not None and request.method in _WITH_BODY:
                body = await request.receive()
            content_type, accepted = headers.get("Content-Type", JSON_TYPE), headers.get("Accept", "")
            response = self._respond(Request(info, query, body, content_type, accepted, user))
            if response.stream is None and "yaml" in accepted and negotiate(accepted).yaml:
                response = replace(response, body=to_yaml(response.body), content_type=YAML_TYPE)
        except StatusError as error:
            response = HttpResponse.of_error(error)
        except ConnectionDropped:
            raise
        except Exception:  # noqa: BLE001 - an error of the server itself becomes a response, and is logged
            _log.exception("%s %s failed", request.method, request.path)
            message = "Internal error occurred: the request failed inside the embedded API server, see its log"
            response = HttpResponse.of_error(StatusError(500, "InternalError", message))
        if fault is not None and fault.drop == "after":
            raise ConnectionDropped
        return response

    def _respond(self, request: Request) -> HttpResponse:
        if request.info.resource:
            return self._resources.handle(request)
        advertised = self.address.advertised if self.address is not None else ""
        return self._non_resources.handle(request, advertised or self.url.rpartition("/")[2])

    def load(self, documents: Iterable[Object]) -> None:
        """Creates objects and the items of Lists. Raises StatusError for the first that cannot be created."""
        for document in documents:
            items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
            for item in items if items is not None else [document]:
                self._load(item)

    def load_file(self, path: Path) -> None:
        """Creates the objects in a file of YAML or JSON documents. Raises StatusError, and ManifestError."""
        self.load(document for document, _ in read_documents(path))

    def _load(self, document: Object) -> None:
        resource = self.storage.served.of_kind(str(document.get("apiVersion", "")), str(document.get("kind", "")))
        if resource is None:
            message = f"no kind {document.get('kind')!r} is registered for version {document.get('apiVersion')!r}"
            raise StatusError(400, "BadRequest", message)
        obj = accept(resource.schema, document, FieldValidation("Strict"))
        namespace = obj["metadata"].get("namespace", "default") if resource.kind.namespaced else ""
        status = obj.get("status")
        entry = self.storage.create(resource, namespace, obj)
        if status and resource.kind.status and not resource.keeps_status and not resource.server_writes_status:
            old = self.storage.decode(resource, entry)
            new = {**old, "metadata": {**old["metadata"]}, "status": {**old.get("status", {}), **status}}
            self.storage.update(resource, old, new, subresource="status")

    def restore(self, documents: Iterable[Object]) -> list[str]:
        """Stores objects as another server had them: with their uids, versions, times, owners and status.

        To be called before the server starts. Objects whose kind isn't served, or whose fields have wrong types, are
        left out; the returned lines name them. An owner that isn't among the objects counts as existing. A namespace
        that isn't among them is created.
        """
        problems = []
        owners: set[str] = set()
        namespaces: set[str] = set()
        for document in sorted(documents, key=lambda each: each.get("kind") != CUSTOM_RESOURCE_DEFINITION.kind):
            kind, version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
            resource = self.storage.served.of_kind(version, kind)
            if resource is None:
                problems.append(f"{_named(document)}: there is no kind {kind} in {version}")
                continue
            try:
                obj = accept(resource.schema, document, FieldValidation("Ignore"))
            except StatusError as error:
                problems.append(f"{_named(document)}: {error.message}")
                continue
            if resource.kind.namespaced:
                namespaces.add(obj["metadata"].setdefault("namespace", "default"))
            owners.update(self.storage.restore(resource, obj).owners)
        for name in sorted(namespaces - self.store.collection(NAMESPACES).objects.keys()):
            self._load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.store.elsewhere |= owners - self.store.uids.keys()
        self.store.begin()
        return problems

    def _create_initial_objects(self) -> None:
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self._load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.load(INITIAL_OBJECTS)


INITIAL_OBJECTS: tuple[Object, ...] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": (
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        ),
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    },
)
"""The objects of a new cluster, besides its namespaces."""


def _named(document: Object) -> str:
    metadata = document.get("metadata") or {}
    name = "/".join(str(metadata[field]) for field in ("namespace", "name") if metadata.get(field))
    return f"{document.get('kind', 'object')} {name}"


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("the %s failed", task.get_name(), exc_info=task.exception())
