"""What `explain` says would help a pod that needs devices helps it on an embedded cluster with controllers.

BAYPLAN_TRUTH_CLUSTERS=300 runs it on so many clusters.
"""

import asyncio
import os
import random

import pytest
from bayplan_documents import document, node, pod
from carried_out import CONTROLLERS, carry_out, hang, replicas, restored, settle, snapshot_of
from device_clusters import API, GATES, device_class, device_slice
from real_runs import running

from bayplan.core.api.kinds import POD
from bayplan.insight import Insight
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.device_taint_eviction import DeviceTaintEvictionController

ALL = (*CONTROLLERS, DeviceTaintEvictionController)
TOLERATED = {"key": "off", "operator": "Exists", "effect": "NoSchedule"}
BIG = 'device.attributes["d"].size == "big"'


def some_slice(rng, name):
    """The devices of a node: some are large, some are tainted."""
    made = device_slice(name, [rng.choice(["", "", "NoSchedule"]) for _ in range(rng.randint(1, 2))])
    for each in made["spec"]["devices"]:
        each["attributes"] = {"size": {"string": rng.choice(["big", "small"])}}
    return made


def some_claim(rng):
    """The spec of a claim: of some devices, perhaps large ones, or of a class that may not exist."""
    exactly = {"deviceClassName": rng.choice(["gpu", "gpu", "gpu", "large"]), "count": rng.choice([1, 1, 1, 2])}
    if rng.random() < 0.3:
        exactly["selectors"] = [{"cel": {"expression": BIG}}]
    if rng.random() < 0.2:
        exactly["tolerations"] = [TOLERATED]
    return {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def cluster(rng):
    """Objects of a random cluster whose pods need devices."""
    for number in range(rng.randint(1, 3)):
        yield node(f"n{number}", cpu=rng.choice(["1", "8", "8"]))
        yield some_slice(rng, f"n{number}")
    yield device_class("gpu")
    if rng.random() < 0.7:
        yield device_class("large", BIG)
    yield document("ResourceClaimTemplate", "one", API, spec=some_claim(rng))
    yield document("ResourceClaim", "bare", API, **some_claim(rng))
    yield pod("bare", resourceClaims=[{"name": "c", "resourceClaimName": "bare"}])
    train = replicas("ReplicaSet", "train", rng.randint(0, 3))
    train["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "one"}]
    yield train


def new_objects(rng):
    """A pod that comes later, and its claim or the template of it."""
    own = rng.random() < 0.5
    kind, field = (
        ("ResourceClaim", "resourceClaimName") if own else ("ResourceClaimTemplate", "resourceClaimTemplateName")
    )
    claim = some_claim(rng) if own else {"spec": some_claim(rng)}
    yield document(kind, "new-c", API, **claim)
    labels = {"nodeSelector": {"kubernetes.io/hostname": "n0"}} if rng.random() < 0.3 else {}
    yield pod("new", resourceClaims=[{"name": "c", field: "new-c"}], **labels)


async def waits(rng):
    """The snapshot of a cluster with a new pod, and the pods that hang."""
    async with running(list(cluster(rng)), *ALL, gates=GATES) as (client, _):
        await settle(client)
        hanging = await hang(client, rng)
        for made in new_objects(rng):
            await carry_out(client, Only([made]))
        await settle(client, hanging)
        return snapshot_of(client), hanging


class Only:
    """A change that creates objects."""

    delete = ()

    def __init__(self, apply):
        self.apply = apply


async def carried_out(snapshot, hanging, change):
    async with running(restored(snapshot), *ALL, gates=GATES) as (client, _):
        await settle(client, hanging)
        await carry_out(client, change)
        await settle(client, hanging - {key.partition("/")[2] for key in change.delete})
        return {each.metadata.name: each.spec.nodeName for each in (await client.list(POD)).items}


def in_virtual_time(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


TWICE = 41
"""A cluster in which a pod would be created anew, with a claim of its own that is changed."""
SEEDS = dict.fromkeys([TWICE, *range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", "4")))])


@pytest.mark.parametrize("seed", SEEDS)
def test_helps_of_a_pod_with_devices_help(seed):
    rng = random.Random(seed)
    snapshot, hanging = in_virtual_time(waits(rng))

    found = Insight(snapshot, gates=GATES).explain("default/new")

    assert found.outcome == ("placed" if found.node else "pending")
    for each in rng.sample(found.help, min(2, len(found.help))):
        after = in_virtual_time(carried_out(snapshot, hanging, each.change))
        assert after["new"] or found.alone, each.text
