"""The clusters that the end-to-end tests run on: the embedded API server, and a real kube-apiserver with etcd.

Both enforce RBAC, and a scheduler has the account, the token and the rights there that the shipped manifests give it.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from audit import AuditLog
from shipped import ACCOUNT, SUBJECT, deploy, token, until_allowed
from workloads import HOSTNAME, NAME, amounts

from bayplan.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, EVENT, LEASE, NODE, POD, Kind
from bayplan.client import ClusterAccess, HttpClient, load_kubeconfig
from bayplan.clock import RunningClock
from bayplan.devcluster.apiserver import ADMIN, ApiServer
from bayplan.devcluster.apiserver.authorization.attributes import Attributes, Verdict
from bayplan.devcluster.apiserver.authorization.users import User
from bayplan.devcluster.controllers.controller import Controller
from bayplan.devcluster.controllers.informers import Informers
from bayplan.devcluster.controllers.manager import ALL, WORKLOADS, ControllerManager
from bayplan.devcluster.kubelet import Kubelets
from bayplan.testing.control_plane import ControlPlane
from bayplan.testing.invariants import condition_of
from bayplan.testing.witness import Witness

ABRUPT = [
    pytest.mark.usefixtures("_forgotten_connections"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""For tests in which a server stops under load: asyncio forgets to close what it accepts at that very moment."""

ADMIN_TOKEN = "admins-token"


class Cluster(ABC):
    """One cluster, as a test sees it. `client` is an administrator's, straight to the server; so is the witness.

    `scheduler_kubeconfig` is that of the account that the shipped manifests make.
    """

    client: HttpClient
    witness: Witness
    scheduler_kubeconfig: Path

    def __init__(self) -> None:
        self._let: list[tuple[Kind, str]] = []

    @property
    @abstractmethod
    def refused(self) -> set[Attributes]:
        """What the scheduler asked for and may not."""

    @abstractmethod
    async def stop_server(self) -> None:
        """The API server is gone, without a word to anybody; what it knows survives."""

    @abstractmethod
    async def start_server(self) -> None:
        """The API server is back, where it was before."""

    @property
    def access(self) -> ClusterAccess:
        """How the scheduler gets to the server."""
        return load_kubeconfig(self.scheduler_kubeconfig)

    async def create(self, *pods: Mapping[str, Any]) -> None:
        """Create pods, in this order, and have the witness see them."""
        for one in pods:
            await self.client.create(POD, one)
        await self._seen(pods)

    async def create_fast(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Create many pods, in no order, and have the witness see them."""
        gate = asyncio.Semaphore(20)

        async def create(one: Mapping[str, Any]) -> None:
            async with gate:
                await self.client.create(POD, one)

        async with asyncio.TaskGroup() as tasks:
            for one in pods:
                tasks.create_task(create(one))
        await self._seen(pods)

    async def let(self, verbs: str, resource: str) -> None:
        """Let the scheduler do more than it is shipped with rights for, as its administrator would for a plugin."""
        name, _, group = resource.partition(".")
        rule = {"apiGroups": [group], "resources": [name], "verbs": verbs.split()}
        role = {"metadata": {"name": f"let-{uuid4()}"}, "rules": [rule]}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **role["metadata"]}
        await self.client.create(CLUSTER_ROLE, role)
        await self.client.create(CLUSTER_ROLE_BINDING, {**role, "roleRef": reference, "subjects": [SUBJECT]})
        self._let += [(kind, reference["name"]) for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE)]
        for verb in verbs.split():
            await until_allowed(self.client, verb, resource)

    async def delete(self, name: str) -> None:
        """A pod is gone at once, and the witness has seen it go."""
        await self.client.delete(POD, name, "default", grace_period_seconds=0)
        await self.witness.until(lambda: f"default/{name}" not in self.witness.pods)

    async def add_nodes(self, count: int, cpu: str = "4", **others: str) -> list[str]:
        """node-0 to node-(count-1)."""
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
        """A node that is ready: a kubelet says so, and the node controller takes the taint of what is new away."""
        metadata = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}}
        room = amounts(cpu, **more)
        status = {"capacity": room, "allocatable": room}
        await self.client.create(NODE, {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status})
        await self.witness.until(lambda: self._is_ready(name, len(list(taints))))

    async def _seen(self, pods: Iterable[Mapping[str, Any]]) -> None:
        keys = {f"default/{one['metadata']['name']}" for one in pods}
        await self.witness.until(lambda: keys <= self.witness.pods.keys())

    def _is_ready(self, name: str, taints: int) -> bool:
        node = self.witness.nodes.get(name)
        ready = node and condition_of(node, "Ready")
        return bool(ready) and ready["status"] == "True" and len(node["spec"].get("taints") or ()) == taints

    @asynccontextmanager
    async def controlled_by(self, *controllers: type[Controller]) -> AsyncIterator[None]:
        """These controllers run meanwhile, beside those that run already."""
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
        """Everything that a test leaves behind is gone."""
        now = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).encode()
        for kind in (POD, NODE, EVENT, LEASE):
            for namespace in ("default", "kube-system") if kind.namespaced else (None,):
                await self.client.request("DELETE", kind.path(namespace), body=now)

    async def take_back(self) -> None:
        """The scheduler may do no more than it could at first."""
        for kind, name in self._let:
            await self.client.delete(kind, name)
        self._let.clear()


class Embedded(Cluster):
    """Bayplan's own API server, in this process. `asked` is what the scheduler asked of it.

    `deploy` makes the scheduler's account first.
    """

    def __init__(self, server: ApiServer, folder: Path) -> None:
        super().__init__()
        self.server = server
        self.asked: set[Attributes] = set()
        self._refused: set[Attributes] = set()
        self._folder = folder
        self.client = HttpClient(load_kubeconfig(self._kubeconfig("admin", ADMIN_TOKEN)))
        server.access.audit.append(self._listen)

    @property
    def refused(self) -> set[Attributes]:
        return self._refused

    async def deploy(self, *files: str) -> None:
        """Apply files of deploy/, and have the scheduler use the account that they make."""
        await deploy(self.client, *files)
        self.scheduler_kubeconfig = self._kubeconfig(NAME, await token(self.client))

    async def stop_server(self) -> None:
        await self.server.stop()

    async def start_server(self) -> None:
        await self.server.start()

    def _listen(self, user: User, asked: Attributes, verdict: Verdict) -> None:
        if user.name == ACCOUNT:
            self.asked.add(asked)
            if not verdict.allowed:
                self._refused.add(asked)

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
        self._refused_before: set[Attributes] = set()
        self.client = HttpClient(load_kubeconfig(plane.admin))
        self.scheduler_kubeconfig = scheduler_kubeconfig

    @property
    def refused(self) -> set[Attributes]:
        return self._refused_before | self._audit.refused_since(self._began)

    async def stop_server(self) -> None:
        self._plane.stop_api_server(kill=True)
        self._refused_before = self.refused

    async def start_server(self) -> None:
        await self._plane.start_api_server()
        self._began = self._audit.end  # until it has read its roles, a server refuses what they allow


@asynccontextmanager
async def embedded(
    folder: Path, without: Sequence[type[Controller]] = (), *, files: Iterable[str] = (), **server_options: Any
) -> AsyncIterator[Embedded]:
    """A cluster with what deploy/bayplan.yaml makes, and other files of deploy/; without these controllers.

    Raises AssertionError in the end if the scheduler asked for anything that it may not do.
    """
    async with unjudged(folder, without, files=files, **server_options) as cluster:
        yield cluster
    check_rights(cluster)


@asynccontextmanager
async def unjudged(
    folder: Path, without: Sequence[type[Controller]] = (), *, files: Iterable[str] = (), **server_options: Any
) -> AsyncIterator[Embedded]:
    """The same, on which the scheduler may ask for anything: it is up to the test to look what was refused."""
    async with ApiServer(tokens={ADMIN_TOKEN: ADMIN}, rbac=True, **server_options) as server:
        cluster = Embedded(server, folder)
        async with cluster.client, _alive(cluster, [one for one in WORKLOADS if one not in without]):
            await cluster.deploy("bayplan.yaml", *files)
            yield cluster


@asynccontextmanager
async def real(
    plane: ControlPlane, scheduler_kubeconfig: Path, audit: AuditLog, without: Sequence[type[Controller]] = ()
) -> AsyncIterator[Real]:
    """A control plane to which deploy/bayplan.yaml has been applied, emptied of what other tests left in it; without
    these controllers.

    Raises AssertionError in the end if the scheduler asked for anything that it may not do.
    """
    cluster = Real(plane, scheduler_kubeconfig, audit)
    async with cluster.client:
        await cluster.clear()
        async with _alive(cluster, [one for one in ALL if one not in without]):
            yield cluster
        if "kube-apiserver" not in plane.running:
            await cluster.start_server()
        await cluster.take_back()
    check_rights(cluster)


def check_rights(cluster: Cluster) -> None:
    """Raises AssertionError, which names the rights that the scheduler would have needed."""
    lacking = sorted({right_to(asked) for asked in cluster.refused})
    assert not lacking, f"the shipped rights lack {', '.join(lacking)}"


def right_to(asked: Attributes) -> str:
    """A request as the right to it, as in `create pods/binding`."""
    return f"{asked.verb} {asked.combined}.{asked.group}" if asked.group else f"{asked.verb} {asked.combined}"


@asynccontextmanager
async def _alive(cluster: Cluster, controllers: Sequence[type[Controller]]) -> AsyncIterator[None]:
    """Controllers and kubelets for all nodes run, and a witness sees all."""
    clock, informers = RunningClock(), Informers(cluster.client)
    kubelets = Kubelets(cluster.client, clock, informers=informers, adopt=True)
    manager = ControllerManager(cluster.client, clock, controllers, informers=informers)
    async with Witness(cluster.client) as cluster.witness, _running(kubelets, manager, informers):
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
