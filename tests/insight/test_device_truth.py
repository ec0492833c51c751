"""What-if foretells which pods lose and get devices: by taints, deletions and scaling, with all controllers.

All pods need one device. BAYPLAN_TRUTH_CLUSTERS=300 runs it on so many clusters.
"""

import asyncio
import os
import random

import pytest
from bayplan_documents import document, node, pod
from carried_out import CONTROLLERS, counted, end, hang, owner_of, replicas, settle, snapshot_of
from device_clusters import API, GATES, device_slice, taint
from real_runs import running

from bayplan.answers.insight.questions.what_if import what_if
from bayplan.core.api.kinds import DEVICE_TAINT_RULE, NODE, POD, REPLICA_SET, RESOURCE_SLICE
from bayplan.insight import Changes, Insight
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.device_taint_eviction import DeviceTaintEvictionController

ALWAYS = {"key": "off", "operator": "Exists"}
ENDLESS = 3600.0
"""Virtual seconds after which a cluster is taken for one that never settles."""
FOR_A_WHILE = {**ALWAYS, "effect": "NoExecute", "tolerationSeconds": 30}
TOLERATIONS = (
    [],
    [],
    [{**ALWAYS, "effect": "NoExecute"}],
    [{**ALWAYS, "effect": "NoSchedule"}],
    [FOR_A_WHILE],
    [FOR_A_WHILE, {**ALWAYS, "effect": "NoSchedule"}],
)


def rule(pool, device, effect):
    spec = {"deviceSelector": {"driver": "d", "pool": pool, "device": device}, "taint": taint(effect)}
    return document("DeviceTaintRule", "off", API, namespace="", spec=spec)


class Cluster:
    """A random cluster whose pods need devices."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.taints = {
            f"n{number}": [rng.choice(["", "", "", "NoSchedule"]) for _ in range(rng.randint(1, 2))]
            for number in range(rng.randint(1, 3))
        }
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": rng.choice(TOLERATIONS)}}
        claim = {"spec": {"devices": {"requests": [request]}}}
        train = replicas("ReplicaSet", "train", rng.randint(1, 4))
        train["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "one"}]
        self.objects = [
            *(node(name, cpu="8") for name in self.taints),
            *(device_slice(name, taints) for name, taints in self.taints.items()),
            document("DeviceClass", "gpu", API, namespace="", spec={}),
            document("ResourceClaimTemplate", "one", API, spec=claim),
            document("ResourceClaim", "bare", API, **claim),
            pod("bare", resourceClaims=[{"name": "c", "resourceClaimName": "bare"}]),
            train,
        ]

    def change(self, pods, hanging):
        """A change as what-if takes it."""
        rng, name = self.rng, self.rng.choice(list(self.taints))
        effects = [rng.choice(["", "NoSchedule", "NoExecute", "NoExecute"]) for _ in self.taints[name]]
        device = f"g{rng.randrange(len(effects))}"
        kinds = {
            "slice": {"objects": [device_slice(name, effects)]},
            "rule": {"objects": [rule(name, device, rng.choice(["NoExecute", "NoExecute", "NoSchedule"]))]},
            "delete": {"delete_pods": [rng.choice(pods)]},
            "scale": {"scale": [f"rs/train={rng.randint(0, 5)}"]},
            "cordon": {"cordon": [name]},
            "taint": {"taints": [(name, "x=y:NoExecute")]},
        }
        if hanging:
            kinds["force"] = {"delete_pods": list(hanging)}
        return kinds[rng.choice(list(kinds))]


async def carry_out(client, change):
    for name in change.get("delete_pods", ()):
        await end(client, name)
    for name in change.get("cordon", ()):
        await client.patch(NODE, name, {"spec": {"unschedulable": True}})
    for name, _ in change.get("taints", ()):
        await client.patch(NODE, name, {"spec": {"taints": [{"key": "x", "value": "y", "effect": "NoExecute"}]}})
    for text in change.get("scale", ()):
        await client.patch(REPLICA_SET, "train", {"spec": {"replicas": int(text.partition("=")[2])}}, "default")
    for made in change.get("objects", ()):
        if made["kind"] == "DeviceTaintRule":
            await client.create(DEVICE_TAINT_RULE, made)
        else:
            await client.patch(RESOURCE_SLICE, made["metadata"]["name"], {"spec": made["spec"]})


async def really(seed):
    cluster = Cluster(seed)
    async with running(cluster.objects, *CONTROLLERS, DeviceTaintEvictionController, gates=GATES) as (client, _):
        await settle(client)
        hanging = await hang(client, cluster.rng)
        snapshot = snapshot_of(client)
        pods = sorted(each.metadata.name for each in (await client.list(POD)).items)
        change = cluster.change(pods, sorted(hanging))
        await carry_out(client, change)
        left = hanging - set(change.get("delete_pods", ()))
        try:
            async with asyncio.timeout(ENDLESS):
                await settle(client, left)
        except TimeoutError:
            return snapshot, change, None  # pods get a device that they tolerate for a while, and are evicted again
        after = [(owner_of(each), each.spec.nodeName) for each in (await client.list(POD)).items]
    return snapshot, change, after


@pytest.mark.parametrize("seed", range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", "12"))))
def test_what_if_foretells_who_loses_and_gets_devices(seed):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        snapshot, change, after = runner.run(really(seed))
    foretold = []

    def look(world):
        foretold[:] = [(owner_of(each.object), each.node_name) for each in world.state.objects[POD].values()]

    world = Insight(snapshot, gates=GATES).world
    answer = what_if(world, world, snapshot, Changes(**change), observe=look)

    if after is None:
        assert answer.leaving, change
    elif not answer.leaving:  # else the replacement may get another device, and stay
        assert counted(foretold, snapshot) == counted(after, snapshot), change


async def settled(*objects):
    async with running([node("n0", cpu="8"), *objects], *CONTROLLERS, gates=GATES) as (client, _):
        await settle(client)
        return snapshot_of(client)


def test_what_if_names_pods_that_are_evicted_again():
    """The claim tolerates the taint for 30 s, so that the replacement gets the device again."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [FOR_A_WHILE, *TOLERATIONS[3]]}}
    train = replicas("ReplicaSet", "train", 1)
    train["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "one"}]
    devices = [
        device_slice("n0", [""]),
        document("DeviceClass", "gpu", API, namespace="", spec={}),
        document("ResourceClaimTemplate", "one", API, spec={"spec": {"devices": {"requests": [request]}}}),
    ]
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        snapshot = runner.run(settled(*devices, train))

    answer = Insight(snapshot, gates=GATES).what_if(Changes(objects=[device_slice("n0", ["NoExecute"])]))

    (left,) = answer.leaving
    assert str(left) == (
        f"{left.pod} would be evicted after 30 s and created again: it tolerates the NoExecute taint off=yes of "
        "device d/n0/g0 only for 30 s"
    )
    assert answer.to_dict()["leaving"] == [
        {"pod": left.pod, "seconds": 30.0, "taint": "off=yes", "where": "device d/n0/g0", "again": True}
    ]


@pytest.mark.parametrize(("seconds", "limit"), [(60, "only for 60 s"), (None, "")])
def test_what_if_names_pods_that_tolerate_the_taint_of_a_node_for_a_while(seconds, limit):
    toleration = {"key": "x", "operator": "Exists", "effect": "NoExecute"}
    train = replicas("ReplicaSet", "train", 1)
    train["spec"]["template"]["spec"]["tolerations"] = [{**toleration, "tolerationSeconds": seconds}]
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        snapshot = runner.run(settled(train))

    answer = Insight(snapshot).what_if(Changes(taints=[("n0", "x=y:NoExecute")]))

    expected = f"it tolerates the NoExecute taint x=y of node n0 {limit}"
    assert [str(each).partition(": ")[2] for each in answer.leaving] == ([expected] if limit else [])
