"""What `explain` says of a rollout that waits is what an embedded cluster with controllers and a scheduler then does.

A Deployment rolls out another template, with surge or without, and gets stuck. Pods are ready once they have a node.
BAYPLAN_TRUTH_CLUSTERS=300 runs it on so many clusters.
"""

import asyncio
import copy
import os
import random
import re
from dataclasses import replace

import msgspec
import pytest
from bayplan_documents import pod, workload
from carried_out import CONTROLLERS, QUIET, carry_out, end, owner_of, restored, snapshot_of, some_nodes
from real_runs import running

from bayplan.answers.insight.owners import newest_replica_set
from bayplan.answers.insight.readiness import is_ready
from bayplan.core.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from bayplan.core.api.objects import encode
from bayplan.core.api.well_known_labels import REVISION
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.insight import Insight
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.deployment import DeploymentController

ALL = (*CONTROLLERS, DeploymentController)
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


async def settle(client):
    """Wait until nothing happens any more. Pods are ready once they have a node, and gone once they are deleted."""
    changed = True
    while changed:
        await asyncio.sleep(QUIET)
        changed = False
        for each in (await client.list(POD)).items:
            name, read = each.metadata.name, PodInfo(each)
            if each.metadata.deletionTimestamp is not None:
                await end(client, name)
                changed = True
            elif each.spec.nodeName and not is_ready(read):
                await client.patch(POD, name, READY, "default", subresource="status")
                changed = True


def deployment(rng):
    most = rng.choice([0, 1, 1, 2, "25%", "50%"])
    gone = rng.choice([0, 0, 1, "25%"]) if most else rng.choice([1, 2])
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": most, "maxUnavailable": gone}}
    strategy = rng.choice([rolling, rolling, rolling, {"type": "Recreate"}])
    return workload("Deployment", "web", rng.randint(1, 5), strategy=strategy)


def another_template(rng, document):
    """The Deployment with pods that request more, or want a label."""
    document = copy.deepcopy(document)
    spec = document["spec"]["template"]["spec"]
    spec["containers"][0]["resources"]["requests"]["cpu"] = rng.choice(["1", "1", "2", "3"])
    spec["containers"][0]["image"] = "new"
    if rng.random() < 0.4:
        spec["nodeSelector"] = {"gpu": "yes"}
    return document


async def rolling_out(rng):
    """The snapshot of a cluster in which a Deployment has rolled out as far as it can."""
    document = deployment(rng)
    fillers = [pod(f"bare-{number}") for number in range(rng.randint(0, 2))]
    async with running([*some_nodes(rng), document, *fillers], *ALL) as (client, _):
        await settle(client)
        await client.patch(DEPLOYMENT, "web", {"spec": another_template(rng, document)["spec"]}, "default")
        await settle(client)
        return snapshot_of(client)


async def carried_out(snapshot, found):
    """The nodes of the pods after a help that somebody carries out, and whether they are of the newest template."""
    change = found.change
    async with running(restored(snapshot), *ALL) as (client, _):
        await settle(client)
        if change.edits:
            known = await client.get(DEPLOYMENT, "web", "default")
            document = msgspec.json.decode(encode(known))
            for edit in change.edits:
                edit(document["spec"]["template"])
            await client.update(DEPLOYMENT, document)
            change = replace(change, apply=tuple(made for made in change.apply if made["kind"] != POD.kind))
        await carry_out(client, change)
        await settle(client)
        newest = max((await client.list(REPLICA_SET)).items, key=lambda each: int(each.metadata.annotations[REVISION]))
        pods = (await client.list(POD)).items
        return {each.metadata.name: (each.spec.nodeName, owner_of(each) == newest.metadata.name) for each in pods}


def in_virtual_time(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


def waiting(snapshot):
    """The pods of the new template that wait."""
    newest = newest_replica_set(snapshot, {"namespace": "default", "name": "web"})["metadata"]["name"]
    pods = [PodInfo.from_raw(raw) for raw in snapshot.of_kind(POD).values()]
    return sorted(each.key for each in pods if not each.node_name and owner_of(each.object) == newest)


@pytest.mark.parametrize("seed", range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", "5"))))
def test_helps_of_a_rollout_that_waits_lead_to_what_they_say(seed):
    rng = random.Random(seed)
    snapshot = in_virtual_time(rolling_out(rng))
    wanted = snapshot.document(DEPLOYMENT, "default/web")["spec"]["replicas"]
    for key in waiting(snapshot)[:1]:
        found = Insight(snapshot).explain(key)
        for each in rng.sample(found.help, min(2, len(found.help))):
            after = in_virtual_time(carried_out(snapshot, each))
            web = [pods for name, pods in after.items() if name.startswith("web-")]
            placed, old = sum(bool(node) for node, _ in web), sum(bool(node) and not new for node, new in web)
            if each.change.edits or "maxSurge" in each.change.text:
                assert each.lasts == ((placed, len(web), old) == (wanted, wanted, 0)), each.text
                for text, number in (
                    (r"(\d+) of \d+ pods? run then", placed),
                    (r"(\d+) of \d+ new pods? run then", placed - old),
                    (r"(\d+) old pods? stays?", old),
                ):
                    said = re.search(text, each.text)
                    assert said is None or int(said[1]) == number, each.text
            else:
                assert after[key.partition("/")[2]][0] or found.alone, each.text
