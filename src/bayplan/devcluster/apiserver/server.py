"""The server: sockets, TLS, credentials, and the loop that hands each request to the handler.

`ApiServer` is an asynchronous context manager: while it is entered, it serves. State lives in memory and ends with it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import web

from bayplan.clock import Clock, SystemClock
from bayplan.devcluster.apiserver.authorization.access import Access
from bayplan.devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan.devcluster.apiserver.authorization.users import AUTHENTICATED, MASTERS, User
from bayplan.devcluster.apiserver.catalog import catalog
from bayplan.devcluster.apiserver.decoding import FieldValidation, accept
from bayplan.devcluster.apiserver.faults import ConnectionDropped, Faults
from bayplan.devcluster.apiserver.garbage import GarbageCollector
from bayplan.devcluster.apiserver.handler import Answer, Handler
from bayplan.devcluster.apiserver.negotiation import negotiate
from bayplan.devcluster.apiserver.pages import Pages
from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.rendering import JSON_TYPE, YAML_TYPE, to_yaml
from bayplan.devcluster.apiserver.requesting import Request
from bayplan.devcluster.apiserver.requests import read_request
from bayplan.devcluster.apiserver.response import DirectResponse
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.served import Served
from bayplan.devcluster.apiserver.status import StatusError, too_large
from bayplan.devcluster.apiserver.store import Store, encode
from bayplan.devcluster.apiserver.tls import Tls

_log = logging.getLogger(__name__)

BODY_LIMIT = 3 * 1024 * 1024


class ApiServer:
    """An embedded kube-apiserver on one address.

    `port` 0 takes a free one. With `tls` it serves HTTPS. `tokens` maps bearer tokens to users; without tokens
    everybody may do everything, with them whoever has one. With `rbac`, roles and bindings decide that, and a cluster's
    own are there from the start: a user that is given by name has no groups but `system:authenticated` then, and
    `ADMIN` is somebody who may do everything. With `alpha` there are PodGroups and Workloads of scheduling.k8s.io too,
    as a kube-apiserver has them by its gate GenericWorkload. `clock` gives the times that it writes, `history` is how
    many changes of a kind are kept for watches to resume from, `advertise` the address that discovery tells if it is
    not the one served.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        tokens: Mapping[str, str | User] | None = None,
        rbac: bool = False,
        alpha: bool = False,
        clock: Clock | None = None,
        history: int = 50_000,
        advertise: str = "",
    ) -> None:
        self.clock = clock or SystemClock()
        self.faults = Faults()
        self.store = Store(history)
        groups = (AUTHENTICATED,) if rbac else (MASTERS, AUTHENTICATED)
        users = {token: User(who, groups) if isinstance(who, str) else who for token, who in (tokens or {}).items()}
        self.access = Access(self.store, self.clock, users, rbac=rbac)
        self.registry = Registry(self.store, self.clock, Served(catalog(alpha=alpha)), self.access)
        self._handler = Handler(self.registry, self.faults)
        self._pages = Pages(self.registry.served)
        self._host = host
        self._port = port
        self._advertise = advertise
        self._tls = tls
        self._first_token = next(iter(users), None)
        self._garbage = GarbageCollector(self.registry)
        self._collecting: asyncio.Task[None] | None = None
        self._runner: web.ServerRunner | None = None
        self._watches: set[asyncio.Task[Any]] = set()
        self._create_initial_objects()
        if rbac:
            self.load(bootstrap_policy(alpha=alpha))

    # Serving

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begins to serve. Raises OSError if the address is taken."""
        server = web.Server(self._serve, request_factory=_request, access_log=None, handler_cancellation=False)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await self._runner.setup()
        context = self._tls.server_context() if self._tls is not None else None
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=context)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._collecting = asyncio.create_task(self._garbage.run(), name="garbage collector")
        self._collecting.add_done_callback(_report)

    async def stop(self) -> None:
        """Ends all watches, lets other requests finish, and closes the socket."""
        self.faults.clear()
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.gather(self._collecting, return_exceptions=True)
            self._collecting = None
        for task in self._watches:
            task.cancel()
        if self._runner is not None:
            server = self._runner.server
            for site in list(self._runner.sites):
                await site.stop()
            for _ in range(
                3
            ):  # asyncio takes so many turns to bring up what it was accepting; only then can it be closed
                await asyncio.sleep(0)
            transports = [connection.transport for connection in server.connections] if server is not None else []
            await self._runner.cleanup()
            self._runner = None
            for transport in transports:
                if transport is not None:
                    transport.abort()  # a TLS client that says no goodbye would keep it open
            await asyncio.sleep(0)  # so that the transports have gone when the loop goes

    @property
    def url(self) -> str:
        """Where it serves, once it has started."""
        return f"{'http' if self._tls is None else 'https'}://{self._host}:{self._port}"

    def kubeconfig(self) -> str:
        """A kubeconfig for this server, as YAML, with its certificate authority and the first of its tokens."""
        cluster: Object = {"server": self.url}
        if self._tls is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self._tls.authority).decode()
        user = {"token": self._first_token} if self._first_token is not None else {}
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

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        """One request of one connection."""
        info, parameters = read_request(http.method, http.raw_path)
        fault = None
        try:
            user = self.access.authenticate(http.headers.get("Authorization", ""))
            user = self.access.admit(user, info, parameters, http.headers.items())
            if self.faults.active:
                fault = await self.faults.before(info)
            body = await http.read()
            headers = http.headers
            request = Request(
                info,
                parameters,
                body,
                headers.get("Content-Type", JSON_TYPE),
                headers.get("Accept", ""),
                user,
            )
            answer = self._answer(request)
            if answer.stream is None and "yaml" in request.accept and negotiate(request.accept).yaml:
                answer = replace(answer, body=to_yaml(answer.body), content_type=YAML_TYPE)
            if fault is not None and fault.drop == "after":
                raise ConnectionDropped
        except StatusError as error:
            answer = _failure(error)
        except web.HTTPRequestEntityTooLarge:
            answer = _failure(too_large())
        except ConnectionDropped:
            if http.transport is not None:
                http.transport.abort()
            return web.Response(status=500)
        except Exception:  # noqa: BLE001 - a fault of the server's own becomes an answer, and a line in its log
            _log.exception("%s %s failed", http.method, http.path_qs)
            message = "Internal error occurred: the request failed inside the embedded API server, see its log"
            answer = _failure(StatusError(500, "InternalError", message))
        if answer.stream is not None:
            return await self._stream(http, answer.stream)
        return DirectResponse(http, answer)

    def _answer(self, request: Request) -> Answer:
        if request.info.resource:
            return self._handler.answer(request)
        return self._pages.answer(request, self._advertise or f"{self._host}:{self._port}")

    async def _stream(self, http: web.BaseRequest, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON_TYPE})
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None  # a request is always served by a task
        self._watches.add(task)
        try:
            await response.prepare(http)
            async for piece in pieces:
                await response.write(piece)
        except (ConnectionResetError, asyncio.CancelledError):
            if http.transport is not None:
                http.transport.abort()
        finally:
            self._watches.discard(task)
        return response

    # What is there from the start

    def load(self, documents: Iterable[Object]) -> None:
        """Creates objects, Lists of objects too. Raises StatusError for the first that cannot be created."""
        for document in documents:
            items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
            for item in items if items is not None else [document]:
                self._load(item)

    def load_file(self, path: Path) -> None:
        """Creates the objects of a file of YAML or JSON documents."""
        with path.open(encoding="utf-8") as file:
            self.load(document for document in yaml.safe_load_all(file) if document)

    def _load(self, document: Object) -> None:
        resource = self.registry.served.of_kind(str(document.get("apiVersion", "")), str(document.get("kind", "")))
        if resource is None:
            message = f"no kind {document.get('kind')!r} is registered for version {document.get('apiVersion')!r}"
            raise StatusError(400, "BadRequest", message)
        obj = accept(resource.shape, document, FieldValidation("Strict"))
        namespace = obj["metadata"].get("namespace", "default") if resource.kind.namespaced else ""
        status = obj.get("status")
        entry = self.registry.create(resource, namespace, obj)
        if status and resource.kind.status and not resource.keeps_status and not resource.own_status:
            old = self.registry.decoded(resource, entry)
            self.registry.update(
                resource, old, {**old, "status": {**old.get("status", {}), **status}}, subresource="status"
            )

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
"""What a cluster has before anybody has created anything, besides its namespaces."""


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("the %s has broken", task.get_name(), exc_info=task.exception())


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


def _failure(error: StatusError) -> Answer:
    retry_after = (error.details or {}).get("retryAfterSeconds", 0)
    return Answer(error.code, encode(error.body()), retry_after=retry_after)
