"""Controllers and kubelets with a real kube-apiserver."""

import asyncio
import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.support.binding import bind_all
from tests.support.cleaners import CLEANERS
from tests.support.control_plane import ASSETS, ControlPlane
from tests.support.tables import cases

from bayplan.client import HttpClient, PatchType, load_kubeconfig
from bayplan.core.api.kinds import CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, NODE, POD, REPLICA_SET
from bayplan.core.expansion import pods
from bayplan.foundations.clock import RunningClock
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.job_status import finished_condition
from bayplan_devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan_devcluster.controllers.node_lifecycle import NOT_READY, is_tainted
from bayplan_devcluster.kubelet import KubeletDelays, Kubelets, make_nodes
from bayplan_devcluster.kubelet_nodes import is_healthy

# Over TLS, the connection of a cancelled request closes later, maybe after the end of the test's event loop. Such
# connections are collected at the end of each test, and their warnings are ignored.
pytestmark = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

NODES = 3
DELAYS = KubeletDelays(start=0.1, stop=0.1, job=0.2)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Any]:
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    plane = ControlPlane()
    with asyncio.Runner() as runner:
        runner.run(plane.__aenter__())
        try:
            yield plane.admin
        finally:
            runner.run(plane.__aexit__())


class Real:
    """The cluster with its components, and a trivial binder."""

    def __init__(self, client: HttpClient) -> None:
        clock = RunningClock()
        self.client = client
        self.informers = Informers(client)
        self.views = {kind: self.informers.of(kind) for kind in (CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, NODE, POD)}
        self.views[REPLICA_SET] = self.informers.of(REPLICA_SET)
        self._changed = asyncio.Event()
        for view in self.views.values():
            view.listen(lambda *_: self._changed.set())
        self.parts = (
            ControllerManager(client, clock, [*WORKLOADS, *CLEANERS], informers=self.informers),
            Kubelets(client, clock, make_nodes(NODES), informers=self.informers, delays=DELAYS),
        )

    def all(self, kind: Any, namespace: str | None = None) -> list[Any]:
        return [one for one in self.views[kind].objects.values() if one.metadata.namespace == namespace]

    async def until(self, check: Callable[[], Any]) -> None:
        async with asyncio.timeout(30):
            while not check():
                self._changed.clear()
                await self._changed.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self.informers, *self.parts):
                tasks.create_task(part.run())
            tasks.create_task(self._bind())

    async def _bind(self) -> None:
        nodes = itertools.cycle(f"node-{number}" for number in range(NODES))
        await bind_all(self.client, self.views[POD].objects, lambda _: next(nodes))


@pytest.fixture
async def cluster(kubeconfig) -> AsyncIterator[Real]:
    async with HttpClient(load_kubeconfig(kubeconfig)) as client:
        real = Real(client)
        running = asyncio.create_task(real.run())
        try:
            await real.until(lambda: len(real.all(NODE)) == NODES)
            yield real
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.result()
    gc.collect()


def deployment(namespace: str, replicas: int = 3) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web", "namespace": namespace}, "spec": spec}


def job(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": template, **spec}}


def rolled_out(one: Any) -> bool:
    status, replicas = one.status, one.spec.replicas
    counts = {status.replicas or 0, status.updatedReplicas or 0, status.availableReplicas or 0}
    return status.observedGeneration == one.metadata.generation and counts == {replicas}


async def namespace(cluster: Real, name: str) -> str:
    await cluster.client.create(NAMESPACE, {"metadata": {"name": name}})
    return name


async def test_nodes_become_ready_and_lose_their_taint(cluster: Real):
    await cluster.until(lambda: all(is_healthy(node) and not is_tainted(node, NOT_READY) for node in cluster.all(NODE)))


async def test_deployment_rolls_out_and_is_deleted_with_its_pods(cluster: Real):
    where = await namespace(cluster, "rollouts")
    await cluster.client.create(DEPLOYMENT, deployment(where))
    await cluster.until(lambda: cluster.all(DEPLOYMENT, where) and rolled_out(cluster.all(DEPLOYMENT, where)[0]))
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}
    changed = await cluster.client.patch(DEPLOYMENT, "web", template, where, type=PatchType.STRATEGIC)
    await cluster.views[DEPLOYMENT].observe([changed])
    await cluster.until(lambda: rolled_out(cluster.all(DEPLOYMENT, where)[0]))
    active = [pod for pod in cluster.all(POD, where) if pods.is_active(pod)]
    assert [pod.spec.containers[0].image for pod in active] == ["two"] * 3
    await cluster.client.delete(DEPLOYMENT, "web", where, propagation_policy="Foreground")
    await cluster.until(lambda: not cluster.all(DEPLOYMENT, where) + cluster.all(REPLICA_SET, where))
    await cluster.until(lambda: not cluster.all(POD, where))


async def test_orphans_are_kept(cluster: Real):
    where = await namespace(cluster, "orphans")
    await cluster.client.create(DEPLOYMENT, deployment(where, 1))
    await cluster.until(lambda: cluster.all(DEPLOYMENT, where) and rolled_out(cluster.all(DEPLOYMENT, where)[0]))
    await cluster.client.delete(DEPLOYMENT, "web", where, propagation_policy="Orphan")
    await cluster.until(lambda: not cluster.all(DEPLOYMENT, where))
    [left] = cluster.all(REPLICA_SET, where)
    assert not left.metadata.ownerReferences
    assert len(cluster.all(POD, where)) == 1


@cases(
    "spec, outcome, succeeded",
    {
        "plain": ({"completions": 3, "parallelism": 2}, "Complete", 3),
        "indexed": ({"completions": 2, "parallelism": 2, "completionMode": "Indexed"}, "Complete", 2),
        "too late": ({"activeDeadlineSeconds": 1, "parallelism": 0, "completions": 1}, "Failed", 0),
    },
)
async def test_api_server_accepts_the_status_of_finished_jobs(cluster: Real, spec, outcome, succeeded):
    where = await namespace(cluster, f"jobs-{outcome.lower()}-{succeeded}-{len(spec)}")
    await cluster.client.create(JOB, job(where, "work", **spec))
    await cluster.until(lambda: cluster.all(JOB, where) and finished_condition(cluster.all(JOB, where)[0]))
    [found] = cluster.all(JOB, where)
    assert finished_condition(found).type == outcome
    assert (found.status.succeeded or 0) == succeeded
    assert not any(pod.metadata.finalizers for pod in cluster.all(POD, where))


async def test_namespace_is_deleted_with_its_contents(cluster: Real):
    where = await namespace(cluster, "leaving")
    await cluster.client.create(CONFIG_MAP, {"metadata": {"name": "c"}}, where)
    await cluster.client.create(DEPLOYMENT, deployment(where, 2))
    await cluster.until(lambda: len(cluster.all(POD, where)) == 2)
    await cluster.client.delete(NAMESPACE, where)
    await cluster.until(lambda: where not in cluster.views[NAMESPACE].objects)
    await cluster.until(lambda: not cluster.all(POD, where) + cluster.all(CONFIG_MAP, where))
