"""A changed workload is rolled out by what-if as by the controllers of the embedded cluster, with a scheduler.

BAYPLAN_TRUTH_CLUSTERS=300 runs it on so many clusters.
"""

import asyncio
import copy
import os
import random
from collections import Counter

import pytest
from bayplan_documents import node, pod
from carried_out import daemons, end, quota, replicas, snapshot_of
from real_runs import running

from bayplan.answers.insight.questions.what_if import what_if
from bayplan.answers.insight.readiness import is_ready
from bayplan.answers.simulation.owners import owners_of
from bayplan.core.api.kinds import DAEMON_SET, DEPLOYMENT, POD, RESOURCE_QUOTA, STATEFUL_SET
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.insight import Changes, Insight
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.daemonset import DaemonSetController
from bayplan_devcluster.controllers.deployment import DeploymentController
from bayplan_devcluster.controllers.replicaset import ReplicaSetController
from bayplan_devcluster.controllers.statefulset import StatefulSetController

CONTROLLERS = (DeploymentController, ReplicaSetController, StatefulSetController, DaemonSetController)
KINDS = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET, "DaemonSet": DAEMON_SET}
SIZES = ("250m", "500m", "1", "2")


def rolling(rng):
    if rng.random() < 0.25:
        return {"type": "Recreate"}
    surge, unavailable = rng.choice([(1, 0), (0, 1), (1, 1), ("50%", "25%"), (2, 0), ("100%", 0)])
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def updating(rng):
    return rng.choice([{"type": "RollingUpdate"}, {"type": "OnDelete"}, {"rollingUpdate": {"partition": 1}}])


def workloads(rng):
    """Workloads with a strategy each."""
    web, db, agent = replicas("Deployment", "web", rng.randint(1, 4)), replicas("StatefulSet", "db", 2), daemons(False)
    web["spec"]["strategy"] = rolling(rng)
    db["spec"] |= {"updateStrategy": updating(rng), "podManagementPolicy": rng.choice(["Parallel", "OrderedReady"])}
    agent["spec"]["updateStrategy"] = rng.choice([{"type": "OnDelete"}, {"type": "RollingUpdate"}])
    return rng.sample([web, db, agent], rng.randint(1, 3))


def changed(workload, rng, sizes):
    """The workload with other requests, and perhaps another size."""
    made = copy.deepcopy(workload)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": rng.choice(SIZES)}}
    if sizes and rng.random() < 0.3 and made["kind"] != "DaemonSet":
        made["spec"]["replicas"] = rng.randint(1, 4)
    return made


async def settle(client):
    """Wait until nothing happens any more. Pods with a node become ready, and end as soon as they are deleted."""
    quiet = 0
    while quiet < 4:
        await asyncio.sleep(15.0)
        quiet += 1
        for each in (await client.list(POD)).items:
            if each.metadata.deletionTimestamp is not None:
                await end(client, each.metadata.name)
                quiet = 0
            elif each.spec.nodeName and not is_ready(PodInfo(each)):
                status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                await client.patch(POD, each.metadata.name, {"status": status}, "default", subresource="status")
                quiet = 0


async def really(seed):
    rng = random.Random(seed)
    nodes = [node(f"n{number}", str(rng.randint(1, 4))) for number in range(rng.randint(1, 4))]
    made = workloads(rng)
    few = [quota(rng.randint(3, 6))] if rng.random() < 0.2 else []
    bare = [pod(f"bare-{number}", cpu="500m") for number in range(rng.randint(0, 2))]
    async with running([*nodes, *few, *made, *bare], *CONTROLLERS) as (client, _):
        await settle(client)
        snapshot = snapshot_of(client)
        change = changed(rng.choice(made), rng, sizes=not seed % 2)
        spec = {name: change["spec"][name] for name in ("template", "replicas") if name in change["spec"]}
        await client.patch(KINDS[change["kind"]], change["metadata"]["name"], {"spec": spec}, "default")
        await settle(client)
        after = [PodInfo(each) for each in (await client.list(POD)).items]
    return snapshot, change, after


def as_asked(change, seed):
    """The change as a manifest, or, where only requests differ, as a recommendation."""
    known = change["kind"] == "DaemonSet" or seed % 2
    (container,) = change["spec"]["template"]["spec"]["containers"]
    row = {"kind": change["kind"], "name": change["metadata"]["name"], "container": container["name"]}
    return Changes(requests=[row | container["resources"]["requests"]]) if known else Changes(objects=[change])


def counted(pods, snapshot, change):
    """How many pods each workload has, with these requests and with a node or without.

    Only how many there are, where the order is a race: with a quota, and for a DaemonSet that can't end its rollout.
    """
    pods = list(pods)
    stuck = change["kind"] == "DaemonSet" and not all(each.node_name for each in pods)
    if snapshot.of_kind(RESOURCE_QUOTA) or stuck:
        return len(pods)
    return Counter((*list(owners_of(each))[-1:], each.requested.get("cpu"), bool(each.node_name)) for each in pods)


@pytest.mark.parametrize("seed", range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", "25"))))
def test_what_if_rolls_out_as_the_controllers_do(seed):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        snapshot, change, after = runner.run(really(seed))
    foretold = []
    world = Insight(snapshot).world
    what_if(
        world,
        world,
        snapshot,
        as_asked(change, seed),
        observe=lambda seen: foretold.__setitem__(slice(None), seen.state.objects[POD].values()),
    )

    assert counted(foretold, snapshot, change) == counted(after, snapshot, change), change["spec"]
