"""Random clusters of a few nodes and pods, as documents, and what the scheduler really does on them."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import msgspec

from bayplan.api.kinds import EVENT, NODE, POD
from bayplan.api.objects import encode
from bayplan.config import default_profile
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime

ZONE = "topology.kubernetes.io/zone"
GANGS = ("GangScheduling",)
QUIET = 25.0
"""Virtual seconds after which nothing happens any more: backoffs take up to 10."""


class FirstChoice(random.Random):
    """Chooses the first of the best nodes, so that ties have the same result everywhere."""

    def choice(self, seq):
        return seq[0]

    def randrange(self, start, stop=None, step=1):
        return 0 if stop is None else start


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def cluster(self):
        nodes = [self.node(f"n{number}") for number in range(self.rng.randint(1, 5))]
        names = [node["metadata"]["name"] for node in nodes]
        pods = [self.pod(f"old-{number}", node=self.rng.choice(names)) for number in range(self.rng.randint(0, 8))]
        return nodes + pods

    def node(self, name):
        room = {"cpu": self.rng.choice(["1", "2", "4"]), "memory": "8Gi", "pods": self.rng.choice(["3", "10", "110"])}
        labels = {"kubernetes.io/hostname": name, ZONE: self.rng.choice("ab"), "disk": self.rng.choice(["ssd", "hdd"])}
        taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if self.rng.random() < 0.3 else []
        spec = {"taints": taints, **({"unschedulable": True} if self.rng.random() < 0.15 else {})}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": room, "capacity": room},
        }

    def pod(self, name, node=None, **spec):
        rng = self.rng
        resources = {"requests": {"cpu": rng.choice(["100m", "500m", "1", "1500m"])}}
        container = {"name": "c", "image": "i", "resources": resources}
        if rng.random() < 0.15:
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        labels = {"app": rng.choice("ab")}
        if rng.random() < 0.3:
            spec["priority"] = rng.choice([10, 20])
        if rng.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if rng.random() < 0.2:
            spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd", "nvme"])}
        if rng.random() < 0.3:
            term = {"topologyKey": rng.choice([ZONE, "kubernetes.io/hostname"]), "labelSelector": self.selector()}
            kind = rng.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
            spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if rng.random() < 0.2:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": rng.choice([ZONE, "kubernetes.io/hostname"]),
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": self.selector(),
                }
            ]
        if rng.random() < 0.05 and node is None:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
            "spec": {**spec, **({"nodeName": node} if node else {})},
            "status": {"phase": "Running" if node else "Pending"},
        }

    def selector(self):
        return {"matchLabels": {"app": self.rng.choice("ab")}}

    def file(self):
        """Groups of objects that are created together: single pods, and gangs."""
        units = [[self.pod(f"new-{number}")] for number in range(self.rng.randint(1, 5))]
        if self.rng.random() < 0.5:
            least = self.rng.randint(1, 3)
            group = {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": "crew", "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
            }
            member = {"schedulingGroup": {"podGroupName": "crew"}}
            members = [self.pod(f"crew-{number}", **member) for number in range(self.rng.randint(1, 3))]
            if len(members) > least:  # it may be attempted with the first ones, so the others must be equal to these
                for each in members:
                    each["spec"] = members[0]["spec"]
                    each["metadata"]["labels"] = members[0]["metadata"]["labels"]
            # Without their group, the members are gated: all of them exist when the gang is attempted.
            units.insert(self.rng.randrange(len(units) + 1), [*members, group])
        return units


def members_of_larger_gangs(units):
    """The names of the members of gangs that have more of them than they need.

    Such a gang may be attempted before all of its members are in the queue.
    """
    for unit in units:
        *members, last = unit
        least = last["spec"].get("schedulingPolicy", {}).get("gang", {}).get("minCount", 0)
        if members and len(members) > least:
            yield from (member["metadata"]["name"] for member in members)


def really(objects, units=()):
    """What a scheduler does with these objects, and with units of more that are created one after the other.

    Returns the nodes of the pods that are left, and the notes of all events, by the names of the pods.
    """
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_happens(objects, units))


async def _happens(objects, units):
    async with _scheduler(objects) as client:
        await asyncio.sleep(QUIET)
        for unit in units:
            load(client.server, *unit)
            await asyncio.sleep(QUIET)
        nodes = {pod.metadata.name: pod.spec.nodeName for pod in (await client.list(POD)).items}
        notes = {}
        for event in (await client.list(EVENT)).items:
            notes.setdefault(event.regarding.name, set()).add(event.note)
        return nodes, notes


def really_drained(objects, groups):
    """What a scheduler does when groups of nodes are cordoned, and drained one group after the other.

    A controller replaces every pod of the ReplicaSet `rs` that is gone. Returns, for each pod that moved, the node of
    the last pod in its place.
    """
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_drains(objects, groups))


async def _drains(objects, groups):
    async with _scheduler(objects) as client:
        controller = Controller(client)
        await controller.replace_until_quiet()
        controller.origins.clear()
        for name in (name for group in groups for name in group):
            await client.patch(NODE, name, {"spec": {"unschedulable": True}})
        for group in groups:
            for pod in await controller.pods():
                if pod.spec.nodeName in group:
                    await client.delete(POD, pod.metadata.name, "default")
            await controller.replace_until_quiet()
        nodes = {pod.metadata.name: pod.spec.nodeName for pod in await controller.pods()}
        return {origin: nodes.get(name) for name, origin in controller.origins.items() if name in nodes}


class Controller:
    """Makes a pod like each one of the ReplicaSet that is gone. `origins`: the first pod in the place of each."""

    def __init__(self, client):
        self.origins = {}
        self._client = client
        self._alive = None
        self._made = 0

    async def pods(self):
        return sorted((await self._client.list(POD)).items, key=lambda pod: pod.metadata.name)

    async def replace_until_quiet(self):
        while True:
            await asyncio.sleep(QUIET if self._alive is None else 0)
            now = {pod.metadata.name: pod for pod in await self.pods()}
            gone = [pod for name, pod in (self._alive or now).items() if name not in now]
            self._alive = now
            if not gone:
                await asyncio.sleep(QUIET)
                if {pod.metadata.name for pod in await self.pods()} == now.keys():
                    self._alive = {pod.metadata.name: pod for pod in await self.pods()}
                    return
                continue
            for pod in gone:
                if pod.metadata.ownerReferences:
                    self._replace(pod)

    def _replace(self, pod):
        self._made += 1
        name = f"rs-{self._made:05}"
        document = msgspec.json.decode(encode(pod))
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        metadata = {key: document["metadata"][key] for key in ("labels", "ownerReferences", "namespace")}
        created = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        load(self._client.server, created)
        self._alive[name] = pod
        self.origins[name] = self.origins.pop(pod.metadata.name, pod.metadata.name)


@asynccontextmanager
async def _scheduler(objects):
    loop = asyncio.get_running_loop()
    async with make_client(*objects, clock=loop) as client:

        def build(handle):
            return {"default-scheduler": default_profile("default-scheduler", handle, (), GANGS)}

        scheduler = Scheduler(client, build, Settings(clock=loop))
        scheduler._attempts._rng = FirstChoice()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            try:
                await scheduler.synced.wait()
                yield client
            finally:
                stop.set()
