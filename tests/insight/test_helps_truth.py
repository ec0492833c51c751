"""What explain and scale-up foretell is what an embedded cluster with controllers and a scheduler then does.

BAYPLAN_TRUTH_CLUSTERS=300 runs each test on so many clusters.
"""

import asyncio
import os
import random

import pytest
from bayplan_documents import pod
from carried_out import (
    CONTROLLERS,
    OFF,
    carry_out,
    daemons,
    hang,
    owner_of,
    replicas,
    restored,
    settle,
    snapshot_of,
    some_nodes,
)
from real_runs import running

from bayplan.answers.insight.nodes import node_of
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.documents import copy_of_node
from bayplan.core.api.kinds import POD, REPLICA_SET, STATEFUL_SET
from bayplan.insight import Insight
from bayplan.testing.in_memory import load
from bayplan.testing.virtual_time import VirtualTime

TOLERATION = {"key": OFF["key"], "operator": "Exists"}


def seeds(count):
    return range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", count)))


def workloads(rng):
    """Workloads that fill the nodes."""
    yield replicas("ReplicaSet", "web", rng.randint(1, 4))
    yield replicas("StatefulSet", "db", rng.randint(0, 2))
    yield daemons(rng.random() < 0.5)


def picky(rng, name, cpu="1"):
    """A pod that may want a label or bear the taint."""
    found = pod(name, cpu=cpu)
    if rng.random() < 0.4:
        found["spec"]["nodeSelector"] = {"gpu": "yes"}
    if rng.random() < 0.3:
        found["spec"]["tolerations"] = [TOLERATION]
    return found


def in_virtual_time(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


async def only_one_waits(rng, objects, new):
    """The snapshot of a cluster in which only a new pod waits, and the pods that hang."""
    async with running(objects, *CONTROLLERS) as (client, _):
        await settle(client)
        hanging = await hang(client, rng)
        while waiting := [each for each in await pods_of(client) if not each.spec.nodeName]:
            kind, name = (STATEFUL_SET, "db") if owner_of(waiting[0]) == "db" else (REPLICA_SET, "web")
            scale = (await client.get(kind, name, "default")).spec.replicas - 1
            await client.patch(kind, name, {"spec": {"replicas": scale}}, "default")
            await settle(client, hanging)
        load(client.server, new)
        await settle(client, hanging)
        return snapshot_of(client), hanging


async def pods_of(client):
    return [each for each in (await client.list(POD)).items if each.metadata.deletionTimestamp is None]


async def carried_out(snapshot, hanging, change):
    """The nodes of the pods after a change of the cluster of a snapshot."""
    async with running(restored(snapshot), *CONTROLLERS) as (client, _):
        await settle(client, hanging)
        await carry_out(client, change)
        await settle(client, hanging - {key.partition("/")[2] for key in change.delete})
        return {each.metadata.name: each.spec.nodeName for each in await pods_of(client)}


@pytest.mark.parametrize("seed", seeds(6))
def test_helps_of_explain_help(seed):
    rng = random.Random(seed)
    objects, new = [*some_nodes(rng), *workloads(rng)], picky(rng, "new", rng.choice(["1", "1", "2", "4"]))
    snapshot, hanging = in_virtual_time(only_one_waits(rng, objects, new))

    found = Insight(snapshot).explain("default/new")

    assert found.outcome == ("placed" if found.node else "pending")
    helps = rng.sample(found.help, min(2, len(found.help)))
    for each in helps:
        after = in_virtual_time(carried_out(snapshot, hanging, each.change))
        assert after["new"], each.text


async def many_wait(rng, objects):
    """The snapshot of a cluster, and the pods that hang."""
    async with running(objects, *CONTROLLERS) as (client, _):
        await settle(client)
        hanging = await hang(client, rng)
        return snapshot_of(client), hanging


def crowded(rng):
    """A cluster in which pods wait."""
    yield from some_nodes(rng)
    yield from workloads(rng)
    yield replicas("ReplicaSet", "api", rng.randint(2, 4))
    yield from (picky(rng, f"bare-{number}") for number in range(rng.randint(1, 3)))


def placed(pods):
    """How many pods have a node, without those of the DaemonSet, which come and go with nodes and force deletions."""
    return sum(bool(node) and not name.startswith("agent") for name, node in pods.items())


@pytest.mark.parametrize("seed", seeds(6))
def test_changes_that_free_most_pods_free_as_many(seed):
    rng = random.Random(seed)
    snapshot, hanging = in_virtual_time(many_wait(rng, list(crowded(rng))))

    best = Insight(snapshot).explain_all().freeing.best

    before = in_virtual_time(carried_out(snapshot, hanging, Change("")))
    for each in rng.sample(best, min(2, len(best))):
        after = in_virtual_time(carried_out(snapshot, hanging, each.change))
        gone = 0 if each.change.forced else len(each.change.delete)
        assert placed(after) == placed(before) + len(each.pods) - gone, each.change.text


@pytest.mark.parametrize("seed", seeds(6))
def test_nodes_of_scale_up_are_enough(seed):
    rng = random.Random(seed)
    snapshot, hanging = in_virtual_time(many_wait(rng, list(crowded(rng))))
    insight = Insight(snapshot)

    found = insight.scale_up()

    new = []
    for pool in found.enough:
        like = node_of(insight.world, pool.like)
        for number in range(pool.nodes):
            document = copy_of_node(like)[0]
            document["metadata"]["name"] += f"-{number}"
            document["metadata"]["labels"]["kubernetes.io/hostname"] = document["metadata"]["name"]
            new.append(document)
    after = in_virtual_time(carried_out(snapshot, hanging, Change("add nodes", tuple(new))))
    assert {name for name, node in after.items() if not node} == {key.partition("/")[2] for key in found.left}
    if found.forced is not None:
        before = in_virtual_time(carried_out(snapshot, hanging, Change("")))
        after = in_virtual_time(carried_out(snapshot, hanging, found.forced.change))
        assert placed(after) == placed(before) + len(found.forced.pods)
