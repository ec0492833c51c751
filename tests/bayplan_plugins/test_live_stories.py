"""Bayplan and the compiled scheduler-plugins place the same pods on a real kube-apiserver."""

import asyncio
import os
import shutil
import subprocess
from dataclasses import dataclass, replace

import pytest
from tests.bayplan_plugins.live_clusters import COMPILED, OURS, THEIRS, compiled, live, prometheus
from tests.support.control_plane import ASSETS
from tests.support.waiting import until

from bayplan.client import HttpClient, kind_of, load_kubeconfig
from bayplan.core.api.kinds import NAMESPACE, NODE, POD
from bayplan_plugins.capacity_scheduling.plugin import CapacityScheduling
from bayplan_plugins.coscheduling.plugin import Coscheduling
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch

# A cancelled request over TLS closes its connection later, possibly after the test's event loop has ended.
pytestmark = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

PLUGINS = CapacityScheduling, Coscheduling, NodeResourceTopologyMatch
QUOTAS = kind_of("elasticquotas.v1alpha1.scheduling.x-k8s.io")
GROUPS = kind_of("podgroups.v1alpha1.scheduling.x-k8s.io")
TOPOLOGIES = replace(kind_of("noderesourcetopologies.v1alpha2.topology.node.k8s.io"), namespaced=False)
GPU = "example.com/gpu"
LOADS = {"quiet": 0.05, "half": 0.3, "busy": 0.95}
"""How much of the CPUs of the nodes of the load story is used."""
SEEN = 2
"""Seconds within which a scheduler sees a custom resource: pods come by another watch."""


def profiles(prometheus):
    """One profile for each story. All profiles of a scheduler sort pods in one way."""
    sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}

    def profile(name, plugins, args=()):
        config = [{"name": plugin, "args": given} for plugin, given in args]
        return {"schedulerName": name, "plugins": {"queueSort": sort, **plugins}, "pluginConfig": config}

    def everywhere(name):
        return {"multiPoint": {"enabled": [{"name": name}]}}

    provider = {"type": "Prometheus", "address": prometheus}
    only = {"enabled": [{"name": "TargetLoadPacking"}], "disabled": [{"name": "*"}]}
    preempt = {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]}
    return [
        profile("quota", {**everywhere("CapacityScheduling"), "postFilter": preempt}),
        profile("zones", everywhere("NodeResourceTopologyMatch")),
        profile("load", {"score": only}, [("TargetLoadPacking", {"metricProvider": provider})]),
        profile("gang", everywhere("Coscheduling")),
    ]


@dataclass
class Cluster:
    """A cluster with a scheduler, which is running."""

    client: HttpClient
    programs: list[subprocess.Popen]

    async def until(self, condition):
        """Wait until a coroutine function returns something true, and return that."""

        async def checked():
            assert all(each.poll() is None for each in self.programs), "a program has ended"
            return await condition()

        return await until(checked, within=60, step=0.2)

    async def node(self, name, **room):
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"} | room
        await self.client.create(NODE, {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}})
        await self.client.patch(NODE, name, {"spec": {"taints": None}})

    async def custom(self, kind, name, document, namespace=None):
        await self.client.create(kind, {"apiVersion": kind.api_version, "kind": name, **document}, namespace)

    async def pod(self, name, scheduler, requests, namespace="default", *, labels=None):
        container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}
        spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
        await self.client.create(POD, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}, namespace)

    async def pods(self):
        """All pods by name."""
        return {pod.metadata.name: pod async for page in self.client.pages(POD) for pod in page.items}

    async def placed(self, *names):
        """Wait until pods have nodes. Returns these."""

        async def nodes():
            pods = await self.pods()
            found = [pods[name].spec.nodeName for name in names if name in pods]
            return found if len(found) == len(names) and all(found) else None

        return await self.until(nodes)

    async def reason(self, name):
        """Wait until a pod is said to be unschedulable. Returns the message, without a word that 1.36 added."""

        async def message():
            pod = (await self.pods())[name]
            found = [each.message for each in pod.status.conditions or () if each.reason == "Unschedulable"]
            return found[0] if found else None

        return (await self.until(message)).replace("preemption: ", "")

    async def run(self, *names, namespace="default"):
        """Do what the kubelet does."""
        for name in names:
            await self.client.patch(POD, name, {"status": {"phase": "Running"}}, namespace, subresource="status")

    async def status(self, kind, name, namespace, **expected):
        """Wait until the status of an object has these values."""

        async def has():
            found = (await self.client.get(kind, name, namespace)).get("status") or {}
            return {field: found.get(field) for field in expected} == expected

        await self.until(has)


async def quota_story(cluster):
    """One namespace borrows what another one doesn't use, and gives it back."""
    await cluster.node("gpus", **{GPU: "5"})
    for namespace, least in (("lender", 1), ("borrower", 4)):
        bounds = {"cpu": "4", "memory": "8Gi"}
        spec = {"min": {**bounds, GPU: str(least)}, "max": {**bounds, GPU: "5"}}
        await cluster.client.create(NAMESPACE, {"metadata": {"name": namespace}})
        await cluster.custom(QUOTAS, "ElasticQuota", {"metadata": {"name": "quota"}, "spec": spec}, namespace)
    one = {"cpu": "100m", "memory": "64Mi", GPU: "1"}
    names = [f"borrower-{number}" for number in range(5)]
    for name in names:
        await cluster.pod(name, "quota", one, "borrower")
    await cluster.placed(*names)
    await cluster.run(*names, namespace="borrower")
    used = {"cpu": "500m", "memory": "320Mi", GPU: "5"}
    await cluster.status(QUOTAS, "quota", "borrower", used=used)
    await cluster.pod("beyond", "quota", one, "borrower")
    said = [await cluster.reason("beyond")]
    await cluster.pod("owner", "quota", one, "lender")
    said += await cluster.placed("owner")
    await cluster.run("owner", namespace="lender")
    await cluster.status(QUOTAS, "quota", "borrower", used={"cpu": "400m", "memory": "256Mi", GPU: "4"})
    await cluster.status(QUOTAS, "quota", "lender", used={"cpu": "100m", "memory": "64Mi", GPU: "1"})
    return [*said, len(set(names) & (await cluster.pods()).keys())]


async def zone_story(cluster):
    """A pod fits the node and no zone of it, until a zone has room."""

    def topology(scope, *left):
        zones = [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [
                    {"name": name, "capacity": whole, "allocatable": whole, "available": amount}
                    for name, whole, amount in (("cpu", "4", cpu), ("memory", "16Gi", "8Gi"))
                ],
            }
            for number, cpu in enumerate(left)
        ]
        attributes = [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": scope},
        ]
        return {"metadata": {"name": "numa"}, "attributes": attributes, "topologyPolicies": [], "zones": zones}

    said = []
    await cluster.node("numa")
    for scope, name in (("container", "one"), ("pod", "other")):
        await cluster.custom(TOPOLOGIES, "NodeResourceTopology", topology(scope, "2", "2"))
        await asyncio.sleep(SEEN)
        await cluster.pod(name, "zones", {"cpu": "3", "memory": "1Gi"})
        said.append(await cluster.reason(name))
        await cluster.client.patch(TOPOLOGIES, "numa", topology(scope, "2", "4"))
        said += await cluster.placed(name)
        await cluster.client.delete(POD, name, "default")
        await cluster.client.delete(TOPOLOGIES, "numa")
    return said


async def load_story(cluster):
    """Pods go to the node that comes nearest to the wanted load with them."""
    for name in LOADS:
        await cluster.node(name, cpu="4")
    await cluster.pod("small", "load", {"cpu": "100m", "memory": "64Mi"})
    said = await cluster.placed("small")
    await cluster.pod("large", "load", {"cpu": "2", "memory": "64Mi"})
    return said + await cluster.placed("large")


async def gang_story(cluster):
    """Two pods of a gang of three wait for the third one."""
    await cluster.node("rack", cpu="3")
    group = {"metadata": {"name": "gang"}, "spec": {"minMember": 3, "scheduleTimeoutSeconds": 10}}
    await cluster.custom(GROUPS, "PodGroup", group, "default")
    labels = {"scheduling.x-k8s.io/pod-group": "gang"}
    one, names = {"cpu": "1", "memory": "1Gi"}, ["g0", "g1", "g2"]
    await cluster.pod("g0", "gang", one, labels=labels)
    await cluster.pod("g1", "gang", one, labels=labels)
    said = [await cluster.reason("g1")]
    await cluster.status(GROUPS, "gang", "default", phase="Pending")
    await cluster.pod("g2", "gang", one, labels=labels)
    said += await cluster.placed(*names)
    await cluster.run(*names)
    await cluster.status(GROUPS, "gang", "default", phase="Running", running=3)
    return said


ABOVE_MAX = (
    "0/1 nodes are available: Pod borrower/beyond is rejected in PreFilter because ElasticQuota borrower is more than "
    "Max. 0/1 nodes are available: 1 No victims found on node gpus for preemptor pod beyond."
)
NO_ZONE = (
    "0/1 nodes are available: 1 cannot align {}. no new claims to deallocate, 0/1 nodes are available: 1 No preemption "
    "victims found for incoming pod."
)
TOO_FEW = (
    "0/1 nodes are available: pre-filter pod g1 cannot find enough sibling pods, current pods number: 2, minMember of "
    "group: 3. no new claims to deallocate, 0/1 nodes are available: 1 Preemption is not helpful for scheduling., "
    "PodGroup default/gang gets rejected due to Pod g1 is unschedulable even after PostFilter"
)
STORIES = {
    "quota": (quota_story, [ABOVE_MAX, "gpus", 4]),
    "zones": (zone_story, [NO_ZONE.format("container"), "numa", NO_ZONE.format("pod"), "numa"]),
    "load": (load_story, ["half", "quiet"]),
    "gang": (gang_story, [TOO_FEW, "rack", "rack", "rack"]),
}
"""What is said and where pods go, by story. `quota`: also how many pods of the borrower are left."""


@pytest.fixture(scope="module", params=[OURS, THEIRS])
def live_plane(request, tmp_path_factory):
    """A control plane with one of the schedulers. All stories share it, each with nodes of its own."""
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    if request.param == THEIRS and compiled() is None:
        pytest.skip(f"{COMPILED} is not set: it names a folder with kube-scheduler and controller of scheduler-plugins")
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus on the PATH")
    folder = tmp_path_factory.mktemp(request.param)
    with (
        prometheus(folder, LOADS) as address,
        live(folder, request.param, PLUGINS, {"profiles": profiles(address)}) as found,
    ):
        yield found


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", STORIES)
async def test_a_story_ends_as_with_the_compiled_scheduler(name, live_plane):
    (story, expected), (plane, programs) = STORIES[name], live_plane
    async with HttpClient(load_kubeconfig(plane.admin)) as client:
        cluster = Cluster(client, programs)
        said = await story(cluster)
        for pod in (await cluster.pods()).values():
            await client.delete(POD, pod.metadata.name, pod.metadata.namespace)
        for node in (await client.list(NODE)).items:
            await client.delete(NODE, node.metadata.name)
    assert said == expected
