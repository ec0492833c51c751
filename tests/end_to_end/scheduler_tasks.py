"""The tasks of a scheduler on a cluster. Each needs certain permissions and starts with a new cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp
from clusters import Embedded
from running import FAST
from shipped import NAMESPACE, token
from workloads import NAME, pod, pods

from bayplan.client import HttpClient
from bayplan.core.api.coscheduling import POD_GROUP_LABEL, POD_GROUPS
from bayplan.core.api.kinds import (
    CLUSTER_ROLE_BINDING,
    DEVICE_CLASS,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD_GROUP_V1ALPHA2,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    custom_kind,
)
from bayplan.core.config import default_profile, load_configuration
from bayplan.core.config.loading import parse_configuration
from bayplan.core.config.profiles import build_profile
from bayplan.running.client.leader_election import LeaderElectionSettings
from bayplan.running.service.leader_election import ElectionThread
from bayplan.running.service.scheduler import BuildProfiles, Scheduler
from bayplan.running.service.serving.endpoints import Endpoints
from bayplan.running.service.serving.options import SecureServing, ServingOptions
from bayplan.running.service.serving.server import ReviewClients
from bayplan_devcluster.apiserver import Fault

Done = Callable[[], Awaitable[None]]
"""Waits until all permissions of the task were used, or one of them was found to be missing."""
Task = Callable[[Embedded, Done], Awaitable[None]]

SETTINGS = replace(FAST, unschedulable_timeout=0.1, drain=0.1)
GPU = "example.com/gpu"
WITH_GANGS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": NAME, "plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}}],
}
COSCHEDULING = Path(__file__).parents[2] / "examples" / "coscheduling" / "config.yaml"


@asynccontextmanager
async def scheduler(cluster: Embedded, build: BuildProfiles | None = None) -> AsyncIterator[Scheduler]:
    """A running scheduler, from before its first request on."""
    profiles = build or (lambda handle: {NAME: default_profile(NAME, handle)})
    async with HttpClient(cluster.access) as client:
        running = Scheduler(client, profiles, SETTINGS)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(running.run(stop))
            try:
                yield running
            finally:
                stop.set()


async def list_and_watch(cluster: Embedded, done: Done) -> None:
    async with scheduler(cluster):
        await done()


async def place_pods(cluster: Embedded, done: Done) -> None:
    """Some pods fit, and one binding fails with an ambiguous error; one pod never fits and is retried."""
    await cluster.add_nodes(1)
    cluster.server.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=500, times=1))
    async with scheduler(cluster):
        await cluster.create(*pods("low", 2), pod("huge", cpu="30"))
        await done()


async def preempt(cluster: Embedded, done: Done) -> None:
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100})
    await cluster.add_nodes(1, cpu="1")
    async with scheduler(cluster):
        await cluster.create(pod("low", cpu="800m"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/low"))
        await cluster.create(pod("vip", cpu="800m", priorityClassName="high"))
        await done()


async def bind_a_volume(cluster: Embedded, done: Done) -> None:
    """Binds an existing volume, which waits for its first consumer."""
    await cluster.client.create(STORAGE_CLASS, storage_class("local", "kubernetes.io/no-provisioner"))
    await cluster.client.create(PERSISTENT_VOLUME, volume("v", "local", "node-0"))
    await cluster.client.patch(PERSISTENT_VOLUME, "v", {"status": {"phase": "Available"}}, subresource="status")
    await use_claim(cluster, "local", done)


async def provision_a_volume(cluster: Embedded, done: Done) -> None:
    await cluster.client.create(STORAGE_CLASS, storage_class("made", "disk.example.com"))
    await use_claim(cluster, "made", done)


async def use_claim(cluster: Embedded, of: str, done: Done) -> None:
    """A pod uses a claim of a storage class."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": of, "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.client.create(PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "c"}, "spec": spec}, "default")
    await cluster.add_nodes(1)
    async with scheduler(cluster):
        await cluster.create(pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
        await done()


async def allocate_devices(cluster: Embedded, done: Done) -> None:
    """Another client changes the claim at the same time, once."""
    await offer_devices(cluster)
    request = {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    await cluster.client.create(RESOURCE_CLAIM, claim, "default")
    cluster.server.faults.add(Fault(verb="update", resource="resourceclaims", answer=409, times=1))
    async with scheduler(cluster):
        await cluster.create(pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
        await done()


async def allocate_devices_as_resources(cluster: Embedded, done: Done) -> None:
    """The scheduler creates the claim, and deletes it when the pod cannot be bound."""
    await offer_devices(cluster)
    cluster.server.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=404, times=1))
    document = pod("p")
    document["spec"]["containers"][0]["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    async with scheduler(cluster):
        await cluster.create(document)
        await done()


async def offer_devices(cluster: Embedded) -> None:
    """Adds a node with a device, whose class has an extended resource name."""
    await cluster.add_nodes(1)
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    spec = {"selectors": [selector], "extendedResourceName": GPU}
    await cluster.client.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": spec})
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    devices = {"driver": "gpu.example.com", "nodeName": "node-0", "pool": pool, "devices": [{"name": "gpu-0"}]}
    await cluster.client.create(RESOURCE_SLICE, {"metadata": {"name": "node-0"}, "spec": devices})


async def lead(cluster: Embedded, done: Done, lease: str = NAME) -> None:
    settings = LeaderElectionSettings(name=lease, namespace=NAMESPACE, retry_period=0.05)
    async with ElectionThread(partial(HttpClient, cluster.access), settings):
        await done()


async def serve_metrics(cluster: Embedded, done: Done) -> None:
    """An account without permission requests metrics."""
    await cluster.client.create(SERVICE_ACCOUNT, {"metadata": {"name": "unprivileged", "namespace": "default"}})
    async with serving(cluster) as endpoints:
        await status_of(endpoints.port, "/metrics", await token(cluster.client, "unprivileged", "default"))
        await done()


@asynccontextmanager
async def serving(cluster: Embedded) -> AsyncIterator[Endpoints]:
    """The endpoints of a running scheduler."""
    async with scheduler(cluster) as running:
        options = ServingOptions(secure=SecureServing(port=0, bind_address="127.0.0.1"))
        connect = partial(HttpClient, cluster.access)
        with Endpoints(options, running, ReviewClients(connect, connect)) as endpoints:
            yield endpoints


async def status_of(port: int, path: str, bearer: str = "") -> tuple[int, str]:
    """The status and the body of an endpoint's response."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    url = f"https://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
        return response.status, await response.text()


async def place_a_gang(cluster: Embedded, done: Done) -> None:
    kind = custom_kind(POD_GROUPS)
    group = {"apiVersion": kind.api_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 2}}
    profile = load_configuration(COSCHEDULING).profiles[0]
    await cluster.add_nodes(1)
    await cluster.client.create(kind, group, "default")
    members = pods("member", 2)
    for member in members:
        member["metadata"]["labels"] = {POD_GROUP_LABEL: "g"}
    async with scheduler(cluster, lambda handle: {NAME: build_profile(profile, handle)}):
        await cluster.create(*members)
        await done()


async def place_a_gang_of_kubernetes(cluster: Embedded, done: Done) -> None:
    """On a server that has PodGroups: the gang does not fit, and the scheduler sets a condition of its group."""
    profile = parse_configuration(WITH_GANGS).profiles[0]
    await cluster.add_nodes(1, cpu="1")
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    await cluster.client.create(POD_GROUP_V1ALPHA2, {"metadata": {"name": "g", "namespace": "default"}, "spec": policy})
    members = [pod(name, "800m", schedulingGroup={"podGroupName": "g"}) for name in ("one", "two")]
    async with scheduler(cluster, lambda handle: {NAME: build_profile(profile, handle)}):
        await cluster.create(*members)
        await done()


async def allow_to_read_metrics(cluster: Embedded, name: str) -> str:
    """A token of an account that may read metrics."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    await cluster.client.create(SERVICE_ACCOUNT, {"metadata": {"name": name, "namespace": "default"}})
    await cluster.client.create(
        CLUSTER_ROLE_BINDING, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    )
    return await token(cluster.client, name, "default")


def storage_class(name: str, provisioner: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def volume(name: str, of: str, node: str) -> dict[str, object]:
    """A local volume."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": of,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    return {"metadata": {"name": name}, "spec": spec}
