"""The clusters that the end-to-end tests run on: the embedded API server, and a real kube-apiserver with etcd.

Both enforce RBAC. A scheduler uses the account and the token from the shipped manifests, with its permissions.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from audit import AuditLog
from shipped import ACCOUNT, SUBJECT, deploy, token, until_allowed
from tests.support.cleaners import CLEANERS
from tests.support.control_plane import ControlPlane
from workloads import HOSTNAME, NAME, amounts

from bayplan.client import ClusterAccess, HttpClient, load_kubeconfig
from bayplan.core.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, EVENT, LEASE, NODE, POD, PRIORITY_CLASS, Kind
from bayplan.foundations.clock import RunningClock
from bayplan.testing.observer import Observer, condition_of
from bayplan_devcluster.apiserver import ADMIN, ApiServer
from bayplan_devcluster.apiserver.authorization.attributes import Attributes, Verdict
from bayplan_devcluster.apiserver.authorization.users import User
from bayplan_devcluster.controllers.controller import Controller
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan_devcluster.kubelet import KubeletDelays, Kubelets

ABRUPT = [
    pytest.mark.usefixtures("_unclosed_connections"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""Marks tests that stop a server under load: asyncio does not close connections that it accepts at that moment."""

ADMIN_TOKEN = "admins-token"
QUICK = KubeletDelays(start=0.1, stop=0.3)
"""Most tests wait until pods run or have ended."""


class Cluster(ABC):
    """A cluster. `client` and `observer` connect to the server directly, as an administrator.

    `scheduler_kubeconfig` is for the account in the shipped manifests. Tests that check the scheduler's invariants set
    `foreign`, the keys of pods that others bind, and `schedulers`, the number of those that run at once.
    """

    client: HttpClient
    observer: Observer
    scheduler_kubeconfig: Path
    foreign: Collection[str] = ()
    schedulers: int = 1

    def __init__(self) -> None:
        self._granted: list[tuple[Kind, str]] = []

    @property
    @abstractmethod
    def denied(self) -> set[Attributes]:
        """The requests of the scheduler that were denied."""

    @abstractmethod
    async def stop_server(self) -> None:
        """Stops the API server without notice. Its data survives."""

    @abstractmethod
    async def start_server(self) -> None:
        """Starts the API server again, at the same address."""

    @property
    def access(self) -> ClusterAccess:
        """The scheduler's access to the server."""
        return load_kubeconfig(self.scheduler_kubeconfig)

    async def create(self, *pods: Mapping[str, Any]) -> None:
        """Create pods in this order, and wait until the observer has seen them."""
        for one in pods:
            await self.client.create(POD, one)
        await self._seen(pods)

    async def create_fast(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Create many pods in any order, and wait until the observer has seen them."""
        gate = asyncio.Semaphore(20)

        async def create(one: Mapping[str, Any]) -> None:
            async with gate:
                await self.client.create(POD, one)

        async with asyncio.TaskGroup() as tasks:
            for one in pods:
                tasks.create_task(create(one))
        await self._seen(pods)

    async def grant(self, verbs: str, resource: str) -> None:
        """Give the scheduler permissions beyond the shipped ones, as an administrator does for a plugin."""
        name, _, group = resource.partition(".")
        rule = {"apiGroups": [group], "resources": [name], "verbs": verbs.split()}
        role = {"metadata": {"name": f"granted-{uuid4()}"}, "rules": [rule]}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **role["metadata"]}
        await self.client.create(CLUSTER_ROLE, role)
        await self.client.create(CLUSTER_ROLE_BINDING, {**role, "roleRef": reference, "subjects": [SUBJECT]})
        self._granted += [(kind, reference["name"]) for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE)]
        for verb in verbs.split():
            await until_allowed(self.client, verb, resource)

    async def delete(self, name: str) -> None:
        """Delete a pod immediately, and wait until the observer has seen it."""
        await self.client.delete(POD, name, "default", grace_period_seconds=0)
        await self.observer.until(lambda: f"default/{name}" not in self.observer.pods)

    async def add_nodes(self, count: int, cpu: str = "4", **others: str) -> list[str]:
        """Add node-0 to node-(count-1)."""
        names = [f"node-{number}" for number in range(count)]
        for name in names:
            await self.add_node(name, cpu, **others)
        return names

    async def add_node(
        self,
        name: str,
        cpu: str = "4",
        *,
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Any] = (),
        **more: str,
    ) -> None:
        """Add a node, and wait until its kubelet reports it ready and the node controller has removed its taint."""
        metadata = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}}
        room = amounts(cpu, **more)
        status = {"capacity": room, "allocatable": room}
        await self.client.create(NODE, {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status})
        await self.observer.until(lambda: self._is_ready(name, len(list(taints))))

    async def _seen(self, pods: Iterable[Mapping[str, Any]]) -> None:
        keys = {f"default/{one['metadata']['name']}" for one in pods}
        await self.observer.until(lambda: keys <= self.observer.pods.keys())

    def _is_ready(self, name: str, taints: int) -> bool:
        node = self.observer.nodes.get(name)
        ready = node and condition_of(node, "Ready")
        return bool(ready) and ready["status"] == "True" and len(node["spec"].get("taints") or ()) == taints

    @asynccontextmanager
    async def controlled_by(self, *controllers: type[Controller]) -> AsyncIterator[None]:
        """Run these controllers in addition to those that run already."""
        informers = Informers(self.client)
        manager = ControllerManager(self.client, RunningClock(), controllers, informers=informers)
        async with _running(manager, informers):
            yield

    async def condition(self, name: str) -> dict[str, Any] | None:
        """A pod's PodScheduled condition."""
        found = json.loads(await self.client.request("GET", POD.path("default", name)))
        conditions = found["status"].get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == "PodScheduled"), None)

    async def clear(self) -> None:
        """Delete the objects that tests leave behind."""
        now = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).encode()
        for kind in (POD, NODE, EVENT, LEASE):
            for namespace in ("default", "kube-system") if kind.namespaced else (None,):
                await self.client.request("DELETE", kind.path(namespace), body=now)
        for each in (await self.client.list(PRIORITY_CLASS)).items:
            if not each.metadata.name.startswith("system-"):
                await self.client.delete(PRIORITY_CLASS, each.metadata.name)

    async def revoke(self) -> None:
        """Remove the permissions that `grant` gave."""
        for kind, name in self._granted:
            await self.client.delete(kind, name)
        self._granted.clear()


class Embedded(Cluster):
    """Bayplan's own API server, in this process. `requested` has the attributes of the scheduler's requests.

    Call `deploy` first; it creates the scheduler's account.
    """

    def __init__(self, server: ApiServer, folder: Path) -> None:
        super().__init__()
        self.server = server
        self.requested: set[Attributes] = set()
        self._denied: set[Attributes] = set()
        self._folder = folder
        self.client = HttpClient(load_kubeconfig(self._kubeconfig("admin", ADMIN_TOKEN)))
        server.access.audit.append(self._record)

    @property
    def denied(self) -> set[Attributes]:
        return self._denied

    async def deploy(self, *files: str) -> None:
        """Apply files of deploy/, and use their account for the scheduler."""
        await deploy(self.client, *files)
        self.scheduler_kubeconfig = self._kubeconfig(NAME, await token(self.client))

    async def stop_server(self) -> None:
        await self.server.stop()

    async def start_server(self) -> None:
        await self.server.start()

    def _record(self, user: User, attributes: Attributes, verdict: Verdict) -> None:
        if user.name == ACCOUNT:
            self.requested.add(attributes)
            if not verdict.allowed:
                self._denied.add(attributes)

    def _kubeconfig(self, name: str, token: str) -> Path:
        document = {
            "clusters": [{"name": "c", "cluster": {"server": self.server.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self._folder / f"{name}.yaml"
        path.write_text(json.dumps(document))
        return path


class Real(Cluster):
    """kube-apiserver and etcd, shared by the tests of a run."""

    def __init__(self, plane: ControlPlane, scheduler_kubeconfig: Path, audit: AuditLog) -> None:
        super().__init__()
        self._plane, self._audit = plane, audit
        self._began = audit.end
        self._denied_before: set[Attributes] = set()
        self.client = HttpClient(load_kubeconfig(plane.admin))
        self.scheduler_kubeconfig = scheduler_kubeconfig

    @property
    def denied(self) -> set[Attributes]:
        return self._denied_before | self._audit.denied_since(self._began)

    async def stop_server(self) -> None:
        self._plane.stop_api_server(kill=True)
        self._denied_before = self.denied

    async def start_server(self) -> None:
        await self._plane.start_api_server()
        self._began = self._audit.end  # a server denies requests until it has read its roles


@asynccontextmanager
async def embedded(
    folder: Path, without: Sequence[type[Controller]] = (), *, files: Iterable[str] = (), **server_options: Any
) -> AsyncIterator[Embedded]:
    """A cluster to which deploy/bayplan.yaml and other files of deploy/ are applied, without these controllers.

    Raises AssertionError at the end if a request of the scheduler was denied.
    """
    async with unchecked(folder, without, files=files, **server_options) as cluster:
        yield cluster
    check_permissions(cluster)


@asynccontextmanager
async def unchecked(
    folder: Path, without: Sequence[type[Controller]] = (), *, files: Iterable[str] = (), **server_options: Any
) -> AsyncIterator[Embedded]:
    """Like `embedded`, but without the check of denied requests."""
    async with ApiServer(tokens={ADMIN_TOKEN: ADMIN}, rbac=True, **server_options) as server:
        cluster = Embedded(server, folder)
        async with cluster.client, _alive(cluster, [one for one in WORKLOADS if one not in without]):
            await cluster.deploy("bayplan.yaml", *files)
            yield cluster


@asynccontextmanager
async def real(
    plane: ControlPlane, scheduler_kubeconfig: Path, audit: AuditLog, without: Sequence[type[Controller]] = ()
) -> AsyncIterator[Real]:
    """A control plane to which deploy/bayplan.yaml has been applied, without objects of other tests and without these
    controllers.

    Raises AssertionError at the end if a request of the scheduler was denied.
    """
    cluster = Real(plane, scheduler_kubeconfig, audit)
    async with cluster.client:
        await cluster.clear()
        async with _alive(cluster, [one for one in (*WORKLOADS, *CLEANERS) if one not in without]):
            yield cluster
        if "kube-apiserver" not in plane.running:
            await cluster.start_server()
        await cluster.revoke()
    check_permissions(cluster)


def check_permissions(cluster: Cluster) -> None:
    """Raises AssertionError with the permissions that the scheduler lacked."""
    missing = sorted({permission_for(attributes) for attributes in cluster.denied})
    assert not missing, f"the shipped permissions lack {', '.join(missing)}"


def permission_for(attributes: Attributes) -> str:
    """The permission for a request: `create pods/binding`."""
    permission = f"{attributes.verb} {attributes.combined}"
    return f"{permission}.{attributes.group}" if attributes.group else permission


@asynccontextmanager
async def _alive(cluster: Cluster, controllers: Sequence[type[Controller]]) -> AsyncIterator[None]:
    """Run controllers, the kubelets of all nodes, and a observer."""
    clock, informers = RunningClock(), Informers(cluster.client)
    kubelets = Kubelets(cluster.client, clock, informers=informers, delays=QUICK, adopt=True)
    manager = ControllerManager(cluster.client, clock, controllers, informers=informers)
    async with Observer(cluster.client) as cluster.observer, _running(kubelets, manager, informers):
        yield


@asynccontextmanager
async def _running(*parts: Kubelets | ControllerManager | Informers) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run()) for part in parts]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
