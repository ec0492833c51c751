"""Random faults and changes: afterwards no pod is lost or bound twice, and no pending pod fits a node."""

from __future__ import annotations

import asyncio
import random

import pytest
from clusters import ABRUPT
from running import running_scheduler
from tests.support.invariants import check_invariants, waiting_or_bound
from workloads import NAME, pod

from bayplan.client import ApiError
from bayplan.core.api.kinds import NODE
from bayplan.core.api.quantity import NANO, parse
from bayplan.core.api.requests import CPU

pytestmark = ABRUPT

REQUEST_TIMEOUT = 2.0
"""Seconds. On a busy machine, no request would succeed in a shorter time."""

FAULTS = [
    ("POST", "/binding$", {"status": 500}),
    ("POST", "/binding$", {"status": 409}),
    ("POST", "/binding$", {"drop_response": True}),
    ("POST", "/binding$", {"delay": REQUEST_TIMEOUT + 0.5}),
    ("POST", "/binding$", {"status": 429, "retry_after": 1}),
    ("GET", "watch=true", {"status": 410}),
    ("GET", "watch=true", {"truncate_after": 700}),
    ("GET", "[?]limit", {"truncate_after": 100}),
    ("GET", "/pods/", {"status": 503}),
    ("PATCH", "/status$", {"drop_response": True}),
    ("", "", {"status": 500}),
]


MAX_PODS = 80
"""With more pods, the load on the embedded server, in the same process, would dominate the test."""


class Chaos:
    """Makes random changes to a cluster and to the network between it and the scheduler."""

    def __init__(self, cluster, proxy, seed):
        self.rng = random.Random(seed)
        self.foreign = set()
        self._cluster = cluster
        self._proxy = proxy
        self._number = 0

    async def act(self):
        actions = [self.create, self.delete, self.resize, self.cordon, self.steal, self.fault, self.cut, self.blink]
        await self.rng.choices(actions, weights=[8, 3, 1, 1, 1, 3, 2, 1])[0]()

    async def create(self):
        if len(self._cluster.observer.pods) > MAX_PODS:
            return await self.delete()
        some = [self._pod() for _ in range(self.rng.randint(1, 8))]
        return await self._cluster.create_fast(some)

    async def delete(self):
        if keys := sorted(self._cluster.observer.pods):
            await self._cluster.delete(self.rng.choice(keys).removeprefix("default/"))

    async def resize(self):
        name = self.rng.choice(sorted(self._cluster.observer.nodes))
        room = {"cpu": str(self.rng.randint(2, 5))}
        await self._cluster.client.patch(NODE, name, {"status": {"allocatable": room}}, subresource="status")

    async def cordon(self):
        name = self.rng.choice(sorted(self._cluster.observer.nodes))
        on = bool(self._cluster.observer.nodes[name]["spec"].get("unschedulable"))
        await self._cluster.client.patch(NODE, name, {"spec": {"unschedulable": not on}})

    async def steal(self):
        """Another client binds one of the scheduler's pods."""
        pending = [key for key in sorted(self._cluster.observer.pods) if not self._cluster.observer.node_of(key)]
        if not pending:
            return
        key = self.rng.choice(pending)
        try:
            await self._cluster.client.bind("default", key.removeprefix("default/"), "node-0")
        except ApiError as error:
            if error.status != 409:  # 409: the scheduler was faster
                raise
        else:
            self.foreign.add(key)

    async def fault(self):
        method, path, what = self.rng.choice(FAULTS)
        self._proxy.inject(method, path, times=self.rng.randint(1, 4), **what)

    async def cut(self):
        self._proxy.cut(watches_only=self.rng.random() < 0.5)

    async def blink(self):
        await self._proxy.down()
        await asyncio.sleep(self.rng.random() * 0.3)
        await self._proxy.up()

    def _pod(self):
        self._number += 1
        more = {"port": 8000 + self.rng.randint(0, 2)} if self.rng.random() < 0.2 else {}
        return pod(f"p-{self._number:04d}", self.rng.choice(["100m", "300m", "1", "1500m", "9"]), **more)


def pods_that_fit(cluster):
    """Errors for pending pods whose CPU request and host port fit a node."""
    free, ports = {}, {}
    for name, node in cluster.observer.nodes.items():
        if not node["spec"].get("unschedulable"):
            free[name], ports[name] = parse(node["status"]["allocatable"]["cpu"]), set()
    pending = []
    for key, one in cluster.observer.pods.items():
        container = one["spec"]["containers"][0]
        cpu = parse(container["resources"]["requests"][CPU])
        port = {each["hostPort"] for each in container.get("ports") or ()}
        if node := cluster.observer.node_of(key):
            if node in free and one["status"].get("phase") not in {"Failed", "Succeeded"}:
                free[node] -= cpu
                ports[node] |= port
        else:
            pending.append((key, cpu, port))
    return [
        f"{key} needs {cpu / NANO:g} cpu, {node} has {free[node] / NANO:g}"
        for key, cpu, port in pending
        for node in free
        if cpu <= free[node] and not port & ports[node]
    ]


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        *(pytest.param(seed, 60, id=f"seed {seed}") for seed in range(3)),
        *(pytest.param(seed, 400, id=f"long, seed {seed}", marks=pytest.mark.soak) for seed in range(3, 6)),
    ],
)
async def test_chaos(cluster, proxy, seed, steps):
    await cluster.add_nodes(6)
    chaos = Chaos(cluster, proxy, seed)
    async with running_scheduler(proxy.access, request_timeout=REQUEST_TIMEOUT):
        for _ in range(steps):
            await chaos.act()
        proxy.faults.clear()
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME) and not has_fitting_pods(cluster))
    check_invariants(cluster.observer, NAME, foreign=chaos.foreign)


def has_fitting_pods(cluster):
    stuck = pods_that_fit(cluster)
    assert not stuck, "; ".join(stuck[:5])
    return stuck
