"""What a scheduler does on a cluster, in pieces: each piece takes certain rights, and begins with a fresh cluster."""

from __future__ import annotations

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

from bayplan.api.kinds import (
    CLUSTER_ROLE_BINDING,
    DEVICE_CLASS,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    custom_kind,
)
from bayplan.client import HttpClient
from bayplan.config import default_profile, load_configuration
from bayplan.config.loading import parse_configuration
from bayplan.config.profiles import build_profile
from bayplan.devcluster.apiserver import Fault
from bayplan.plugins.coscheduling.groups import POD_GROUP_LABEL, POD_GROUPS
from bayplan.service.leader_election import LeaderElection, LeaderElectionSettings
from bayplan.service.scheduler import BuildProfiles, Scheduler
from bayplan.service.serving.endpoints import Endpoints
from bayplan.service.serving.options import ServingOptions

Done = Callable[[], Awaitable[None]]
"""Waits until the rights of the errand have all been used, or one of them turned out to be missing."""
Errand = Callable[[Embedded, Done], Awaitable[None]]

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
    """One at work, from the moment at which it begins to read."""
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


async def get_to_know_the_cluster(cluster: Embedded, done: Done) -> None:
    async with scheduler(cluster):
        await done()


async def place_pods(cluster: Embedded, done: Done) -> None:
    """Some fit, and one binding has no clear answer; one never fits, again and again."""
    await cluster.add_nodes(1)
    cluster.server.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=500, times=1))
    async with scheduler(cluster):
        await cluster.create(*pods("low", 2), pod("huge", cpu="30"))
        await done()


async def make_room(cluster: Embedded, done: Done) -> None:
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100})
    await cluster.add_nodes(1, cpu="1")
    async with scheduler(cluster):
        await cluster.create(pod("low", cpu="800m"))
        await cluster.witness.until(lambda: cluster.witness.node_of("default/low"))
        await cluster.create(pod("vip", cpu="800m", priorityClassName="high"))
        await done()


async def bind_a_volume(cluster: Embedded, done: Done) -> None:
    """One that is there, and waits for somebody who uses it."""
    await cluster.client.create(STORAGE_CLASS, storage_class("local", "kubernetes.io/no-provisioner"))
    await cluster.client.create(PERSISTENT_VOLUME, volume("v", "local", "node-0"))
    await cluster.client.patch(PERSISTENT_VOLUME, "v", {"status": {"phase": "Available"}}, subresource="status")
    await use_claim(cluster, "local", done)


async def have_a_volume_made(cluster: Embedded, done: Done) -> None:
    await cluster.client.create(STORAGE_CLASS, storage_class("made", "disk.example.com"))
    await use_claim(cluster, "made", done)


async def use_claim(cluster: Embedded, of: str, done: Done) -> None:
    """A pod uses a claim of a storage class."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await cluster.client.create(PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "c"}, "spec": spec}, "default")
    await cluster.add_nodes(1)
    async with scheduler(cluster):
        await cluster.create(pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
        await done()


async def allocate_devices(cluster: Embedded, done: Done) -> None:
    """Somebody else changes the claim at the same time, once."""
    await offer_devices(cluster)
    request = {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    await cluster.client.create(RESOURCE_CLAIM, claim, "default")
    cluster.server.faults.add(Fault(verb="update", resource="resourceclaims", answer=409, times=1))
    async with scheduler(cluster):
        await cluster.create(pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
        await done()


async def allocate_devices_as_resources(cluster: Embedded, done: Done) -> None:
    """The claim is the scheduler's own; it is taken back when the pod cannot be bound."""
    await offer_devices(cluster)
    cluster.server.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=404, times=1))
    asking = pod("p")
    asking["spec"]["containers"][0]["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    async with scheduler(cluster):
        await cluster.create(asking)
        await done()


async def offer_devices(cluster: Embedded) -> None:
    """A node has a device, of a class that is an extended resource too."""
    await cluster.add_nodes(1)
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    offered = {"selectors": [selector], "extendedResourceName": GPU}
    await cluster.client.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": offered})
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    devices = {"driver": "gpu.example.com", "nodeName": "node-0", "pool": pool, "devices": [{"name": "gpu-0"}]}
    await cluster.client.create(RESOURCE_SLICE, {"metadata": {"name": "node-0"}, "spec": devices})


async def lead(cluster: Embedded, done: Done, lease: str = NAME) -> None:
    settings = LeaderElectionSettings(name=lease, namespace=NAMESPACE, retry_period=0.05)
    async with LeaderElection(partial(HttpClient, cluster.access), settings):
        await done()


async def serve_metrics(cluster: Embedded, done: Done) -> None:
    """Somebody who may not read them asks for them."""
    await cluster.client.create(SERVICE_ACCOUNT, {"metadata": {"name": "somebody", "namespace": "default"}})
    async with serving(cluster) as endpoints:
        await status_of(endpoints.port, "/metrics", await token(cluster.client, "somebody", "default"))
        await done()


@asynccontextmanager
async def serving(cluster: Embedded) -> AsyncIterator[Endpoints]:
    """The endpoints of a scheduler at work."""
    async with scheduler(cluster) as running:
        options = ServingOptions(port=0, bind_address="127.0.0.1")
        with Endpoints(options, running, partial(HttpClient, cluster.access)) as endpoints:
            yield endpoints


async def status_of(port: int, path: str, bearer: str = "") -> tuple[int, str]:
    """What an endpoint answers."""
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


async def place_a_gang_of_kubernetes_own(cluster: Embedded, done: Done) -> None:
    """On a server that has PodGroups; the gang does not fit, and its group is told so."""
    profile = parse_configuration(WITH_GANGS).profiles[0]
    await cluster.add_nodes(1, cpu="1")
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    await cluster.client.create(POD_GROUP, {"metadata": {"name": "g", "namespace": "default"}, "spec": policy})
    members = [pod(name, "800m", schedulingGroup={"podGroupName": "g"}) for name in ("one", "two")]
    async with scheduler(cluster, lambda handle: {NAME: build_profile(profile, handle)}):
        await cluster.create(*members)
        await done()


async def allow_to_read_metrics(cluster: Embedded, name: str) -> str:
    """A token of an account that may."""
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
    """A local one."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": of,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    return {"metadata": {"name": name}, "spec": spec}
