"""Writes whose replies are lost, or that arrive late: no device has two claims, and no node more than it has room for.

The pods are short-lived, so that what is freed too early is taken at once. Leaders change: the next one begins when the
lease of the one before has expired, as late requests of a killed leader are not its own.
"""

import asyncio
import random
from collections import Counter

import pytest
from tests.support.lossy_transport import LossyTransport
from tests.support.stories import in_virtual_time

from bayplan.client import ApiError, Client
from bayplan.core.api.kinds import POD, RESOURCE_CLAIM
from bayplan.core.config import default_profile
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings
from bayplan.testing.in_memory import load, make_client, stored

NAME = "default-scheduler"
DRIVER = "gpu.example.com"
ROOM, NODES, DEVICES = 2, 3, 2
LEASE = 15.0
SHARES = [0.2, 0.5]


def node(name):
    room = {"cpu": str(ROOM), "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def devices_of(name):
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(DEVICES)],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


class Cluster:
    """An API server, whose state is checked after every request, and users who create and delete pods."""

    def __init__(self, rng, share, late):
        nodes = [f"n{number}" for number in range(NODES)]
        loop = asyncio.get_running_loop()
        self.users = make_client(CLASS, *map(node, nodes), *map(devices_of, nodes), clock=loop)
        self.rng, self.share, self.late = rng, share, late
        self.overcommitted, self.twice, self.claims, self.bound = set(), set(), set(), set()
        self.number = 0

    def network(self):
        return CheckedTransport(self, self.users.server, rng=self.rng, share=self.share, late=self.late)

    def check(self):
        on_nodes, holders = Counter(), {}
        for pod in stored(self.users.server, POD):
            if name := pod["spec"].get("nodeName"):
                self.bound.add(pod["metadata"]["name"])
                on_nodes[name] += 1
        self.overcommitted |= {(name, self.number) for name, count in on_nodes.items() if count > ROOM}
        for claim in stored(self.users.server, RESOURCE_CLAIM):
            name, allocation = claim["metadata"]["name"], claim.get("status", {}).get("allocation")
            for result in allocation["devices"]["results"] if allocation else ():
                self.claims.add(name)
                device = result["pool"], result["device"]
                if holders.setdefault(device, name) != name:
                    self.twice.add((*device, name))

    def create(self):
        self.number += 1
        name = f"p{self.number}"
        metadata = {"name": name, "namespace": "default"}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {"containers": [container], "schedulerName": NAME, "terminationGracePeriodSeconds": 0}
        if self.rng.random() < 0.6:
            exactly = {"deviceClassName": "gpu"}
            request = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
            load(self.users.server, {**kind, "metadata": dict(metadata), "spec": request})
            spec["resourceClaims"] = [{"name": "r", "resourceClaimName": name}]
            container["resources"]["claims"] = [{"name": "r"}]
        load(self.users.server, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def delete(self, name):
        """Delete a pod, and its claim."""
        await self.users.delete(POD, name, "default")
        try:
            status = {"status": {"allocation": None, "reservedFor": None}}
            await self.users.patch(RESOURCE_CLAIM, name, status, "default", subresource="status")
            await self.users.patch(RESOURCE_CLAIM, name, {"metadata": {"finalizers": None}}, "default")
            await self.users.delete(RESOURCE_CLAIM, name, "default")
        except ApiError as error:
            if error.status != 404:
                raise

    async def live(self, seconds):
        """Create and delete pods for some time."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(self.rng.uniform(0.1, 1.0))
            pods = stored(self.users.server, POD)
            if len(pods) < 2 * NODES * ROOM:
                self.create()
            running = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]
            if running and self.rng.random() < 0.7:
                await self.delete(self.rng.choice(running))


class CheckedTransport(LossyTransport):
    """A network that lets the cluster be checked after every request."""

    def __init__(self, cluster, server, **options):
        super().__init__(server, **options)
        self._cluster = cluster

    async def _carry_out(self, info, request):
        response = await super()._carry_out(info, request)
        if request.method != "GET":
            self._cluster.check()
        return response


async def lead(cluster, seconds):
    """Schedule for some time, and then end as a killed process does."""
    loop = asyncio.get_running_loop()
    async with Client(cluster.network()) as client:
        build = lambda handle: {NAME: default_profile(NAME, handle)}  # noqa: E731
        scheduler = Scheduler(client, build, Settings(seed=0, clock=loop))
        running = asyncio.create_task(scheduler.run(asyncio.Event()))
        await cluster.live(seconds)
        running.cancel()
        await asyncio.wait({running})


async def story(seed, share, late, leaders, seconds):
    cluster = Cluster(random.Random(seed), share, late)
    for _ in range(leaders):
        await lead(cluster, seconds)
        await asyncio.sleep(LEASE)
    return cluster


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_held_twice(seed, share):
    cluster = in_virtual_time(story(seed, share, late=8.0, leaders=2, seconds=60.0))
    assert (cluster.twice, cluster.overcommitted) == (set(), set())
    assert len(cluster.bound) > 60, "others are bound meanwhile"
