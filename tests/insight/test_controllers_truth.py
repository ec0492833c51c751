"""What-if foretells what the controllers of the embedded cluster and a scheduler then do, for all kinds of changes.

All pods of a cluster request as much, so that the number of pods that are placed doesn't depend on whose turn it is.
BAYPLAN_TRUTH_CLUSTERS=300 runs it on so many clusters.
"""

import asyncio
import os
import random

import pytest
from bayplan_documents import node, pod
from carried_out import (
    CONTROLLERS,
    OFF,
    counted,
    daemons,
    end,
    hang,
    owner_of,
    quota,
    replicas,
    settle,
    snapshot_of,
    some_nodes,
)
from real_runs import running

from bayplan.answers.insight.questions.what_if import what_if
from bayplan.core.api.kinds import KINDS, NODE, POD, REPLICA_SET, STATEFUL_SET
from bayplan.insight import Changes, Insight
from bayplan.testing.in_memory import load
from bayplan.testing.virtual_time import VirtualTime


class Cluster:
    """A random cluster: nodes that are nearly full, workloads, and perhaps a quota."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.objects = some_nodes(rng)
        self.nodes = [each["metadata"]["name"] for each in self.objects]
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


async def really_and_foretold(seed):
    cluster = Cluster(seed)
    async with running(cluster.objects, *CONTROLLERS) as (client, _):
        await settle(client)
        hanging = await hang(client, cluster.rng)
        pods = [each.metadata.name for each in (await client.list(POD)).items]
        snapshot = snapshot_of(client)
        change = cluster.change(sorted(pods), sorted(hanging))
        left = await carry_out(client, change, hanging)
        await settle(client, left)
        after = [(owner_of(each), each.spec.nodeName) for each in (await client.list(POD)).items]
    return snapshot, change, after


@pytest.mark.parametrize("seed", range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", "25"))))
def test_what_if_foretells_what_controllers_and_the_scheduler_do(seed):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        snapshot, change, after = runner.run(really_and_foretold(seed))
    foretold = []

    def look(world):
        foretold[:] = [(owner_of(each.object), each.node_name) for each in world.state.objects[POD].values()]

    world = Insight(snapshot).world
    what_if(world, world, snapshot, Changes(**change), observe=look)

    assert counted(foretold, snapshot) == counted(after, snapshot), change
