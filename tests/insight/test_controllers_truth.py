"""What-if foretells what the controllers of the embedded cluster and a scheduler then do, for all kinds of changes.

All pods of a cluster request as much, so that the number of pods that are placed doesn't depend on whose turn it is.
BAYPLAN_TRUTH_CLUSTERS=300 runs it on so many clusters.
"""

import asyncio
import os
import random
from collections import Counter

import pytest
from bayplan_documents import document, node, pod, workload
from real_runs import running

from bayplan.answers.insight.questions.what_if import what_if
from bayplan.core.api.kinds import KINDS, NODE, POD, REPLICA_SET, RESOURCE_QUOTA, STATEFUL_SET
from bayplan.insight import Changes, Insight, Snapshot
from bayplan.testing.in_memory import load, stored
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.daemonset import DaemonSetController
from bayplan_devcluster.controllers.replicaset import ReplicaSetController
from bayplan_devcluster.controllers.statefulset import StatefulSetController
from bayplan_devcluster.controllers.taint_eviction import TaintEvictionController

CONTROLLERS = (ReplicaSetController, StatefulSetController, DaemonSetController, TaintEvictionController)
QUIET = 60.0
"""Virtual seconds after which controllers have tried again what a quota refused."""
OFF = {"key": "off", "value": "yes", "effect": "NoSchedule"}


class Cluster:
    """A random cluster: nodes that are nearly full, workloads, and perhaps a quota."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.nodes = [f"n{number}" for number in range(rng.randint(2, 4))]
        self.objects = [node(name, str(rng.randint(1, 3))) for name in self.nodes]
        for each in self.objects:
            each["spec"] = {"taints": [OFF]} if rng.random() < 0.2 else {}
            if rng.random() < 0.5:
                each["metadata"]["labels"]["gpu"] = "yes"
        self.quota = rng.random() < 0.4
        if self.quota:
            self.objects.append(quota(rng.randint(2, 5)))
        self.objects.append(replicas("ReplicaSet", "web", rng.randint(1, 3)))
        self.objects.append(replicas("ReplicaSet", "api", rng.randint(0, 3)))
        self.objects.append(replicas("StatefulSet", "db", rng.randint(0, 2)))
        self.objects.append(daemons(rng.random() < 0.5))
        self.objects.append(pod("bare"))

    def change(self, pods, hanging):
        """A change as what-if takes it."""
        rng, name = self.rng, self.rng.choice(self.nodes)
        kinds = {
            "label": {"labels": [(name, rng.choice(["gpu=yes", "gpu-"]))]},
            "taint": {"taints": [(name, rng.choice(["off=yes:NoSchedule", "off-", "x=y:NoExecute"]))]},
            "cordon": {"cordon": [name]},
            "remove": {"remove_nodes": [name]},
            "scale": {"scale": [f"{rng.choice(['rs/web', 'rs/api', 'sts/db'])}={rng.randint(0, 4)}"]},
            "delete": {"delete_pods": [rng.choice(pods)]},
            "node": {"objects": [node("new", "2")]},
        }
        if self.quota:
            kinds["quota"] = {"objects": [quota(rng.randint(1, 8))]}
        if hanging:
            kinds["force"] = {"delete_pods": list(hanging)}
        return kinds[rng.choice(list(kinds))]


def replicas(kind, name, number):
    more = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    made = workload(kind, name, number, **more)
    made["metadata"]["uid"] = name
    return made


def daemons(selects):
    made = replicas("DaemonSet", "agent", 0)
    del made["spec"]["replicas"]
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    if selects:
        made["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    return made


def quota(hard):
    return document("ResourceQuota", "few", spec={"hard": {"pods": str(hard)}})


async def settle(client, hanging):
    """Wait until nothing happens any more. Pods end as soon as they are deleted, but for those that hang."""
    ended = True
    while ended:
        await asyncio.sleep(QUIET)
        ended = False
        for each in (await client.list(POD)).items:
            if each.metadata.deletionTimestamp is not None and each.metadata.name not in hanging:
                await end(client, each.metadata.name)
                ended = True


async def end(client, name):
    await client.delete(POD, name, "default", grace_period_seconds=0)


async def carry_out(client, change, hanging):
    """Change the cluster as an administrator does, and return what hangs still."""
    for name, text in change.get("labels", ()):
        key, _, value = text.partition("=")
        labels = {key.removesuffix("-"): value or None}
        await client.patch(NODE, name, {"metadata": {"labels": labels}})
    for name, text in change.get("taints", ()):
        found = next(each for each in (await client.list(NODE)).items if each.metadata.name == name)
        given, _, effect = text.removesuffix("-").partition(":")
        key, _, value = given.partition("=")
        taints = [] if key == "off" else [OFF] * bool(found.spec.taints)
        taints += [{"key": key, "value": value, "effect": effect}] if effect else []
        await client.patch(NODE, name, {"spec": {"taints": taints}})
    for name in change.get("cordon", ()):
        await client.patch(NODE, name, {"spec": {"unschedulable": True}})
    for name in change.get("remove_nodes", ()):
        await client.delete(NODE, name)
        for each in (await client.list(POD)).items:
            if each.spec.nodeName == name:
                await end(client, each.metadata.name)
    for text in change.get("scale", ()):
        what, _, number = text.partition("=")
        kind = STATEFUL_SET if what.startswith("sts/") else REPLICA_SET
        await client.patch(kind, what.partition("/")[2], {"spec": {"replicas": int(number)}}, "default")
    for name in change.get("delete_pods", ()):
        await end(client, name)
    for made in change.get("objects", ()):
        kind = next(each for each in KINDS if each.kind == made["kind"])
        if made["kind"] == "Node":
            load(client.server, made)
        else:
            await client.patch(kind, made["metadata"]["name"], {"spec": made["spec"]}, "default")
    return hanging - set(change.get("delete_pods", ()))


def counted(pods, *, is_short):
    """How many pods there are and have a node, how many each workload has, and the nodes of the DaemonSet's pods.

    `is_short`: whether a quota may be too small for all. Which workload gets what it leaves is a race, and so is which
    pods need room then.
    """
    sizes, nodes = Counter(owner for owner, _ in pods), Counter(on for owner, on in pods if owner == "agent")
    return len(pods) if is_short else (len(pods), sum(bool(on) for _, on in pods), sizes, nodes)


async def really_and_foretold(seed):
    cluster = Cluster(seed)
    async with running(cluster.objects, *CONTROLLERS) as (client, _):
        await settle(client, set())
        placed = [each.metadata.name for each in (await client.list(POD)).items if each.spec.nodeName]
        hanging = set(cluster.rng.sample(sorted(placed), min(len(placed), cluster.rng.randint(0, 2))))
        for name in hanging:
            await client.delete(POD, name, "default")
        await settle(client, hanging)
        pods = [each.metadata.name for each in (await client.list(POD)).items]
        snapshot = Snapshot.of([each for kind in KINDS for each in stored(client.server, kind)])
        change = cluster.change(sorted(pods), sorted(hanging))
        left = await carry_out(client, change, hanging)
        await settle(client, left)
        after = [(owner_of(each), each.spec.nodeName) for each in (await client.list(POD)).items]
    return snapshot, change, after


def owner_of(each):
    return next((owner.name for owner in each.metadata.ownerReferences or ()), each.metadata.name)


@pytest.mark.parametrize("seed", range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", "25"))))
def test_what_if_foretells_what_controllers_and_the_scheduler_do(seed):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        snapshot, change, after = runner.run(really_and_foretold(seed))
    foretold = []

    def look(world):
        foretold[:] = [(owner_of(each.object), each.node_name) for each in world.state.objects[POD].values()]

    world = Insight(snapshot).world
    what_if(world, world, snapshot, Changes(**change), observe=look)

    is_short = bool(snapshot.of_kind(RESOURCE_QUOTA))
    assert counted(foretold, is_short=is_short) == counted(after, is_short=is_short), change
