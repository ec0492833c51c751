"""What an administrator does on an embedded cluster with controllers, and what its pods are afterwards."""

import asyncio
from collections import Counter

from bayplan_documents import document, node, workload

from bayplan.core.api.kinds import KINDS, NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_QUOTA
from bayplan.insight import Snapshot
from bayplan.testing.in_memory import load, stored
from bayplan_devcluster.controllers.daemonset import DaemonSetController
from bayplan_devcluster.controllers.replicaset import ReplicaSetController
from bayplan_devcluster.controllers.statefulset import StatefulSetController
from bayplan_devcluster.controllers.taint_eviction import TaintEvictionController

CONTROLLERS = (ReplicaSetController, StatefulSetController, DaemonSetController, TaintEvictionController)
QUIET = 60.0
"""Virtual seconds after which controllers have tried again what a quota refused."""
OFF = {"key": "off", "value": "yes", "effect": "NoSchedule"}


def some_nodes(rng, least=2):
    """Nodes with 1 to 3 cpu, of which some are tainted and some have a label."""
    found = [node(f"n{number}", str(rng.randint(1, 3))) for number in range(rng.randint(least, 4))]
    for each in found:
        each["spec"] = {"taints": [OFF]} if rng.random() < 0.2 else {}
        if rng.random() < 0.5:
            each["metadata"]["labels"]["gpu"] = "yes"
    return found


def replicas(kind, name, number):
    """A workload whose pods request 1 cpu."""
    more = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    made = workload(kind, name, number, **more)
    made["metadata"]["uid"] = name
    return made


def daemons(selects):
    """A DaemonSet whose pods request nothing. `selects`: whether it is for nodes with the label only."""
    made = replicas("DaemonSet", "agent", 0)
    del made["spec"]["replicas"]
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    if selects:
        made["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    return made


def quota(hard):
    return document("ResourceQuota", "few", spec={"hard": {"pods": str(hard)}})


async def settle(client, hanging=()):
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
    """Delete a pod at once."""
    await client.delete(POD, name, "default", grace_period_seconds=0)


async def hang(client, rng, most=2):
    """Delete some placed pods that don't end then, wait until others have replaced them, and return their names."""
    placed = sorted(each.metadata.name for each in (await client.list(POD)).items if each.spec.nodeName)
    hanging = set(rng.sample(placed, min(len(placed), rng.randint(0, most))))
    for name in hanging:
        await client.delete(POD, name, "default")
    await asyncio.sleep(2 * QUIET)  # longer than their grace period
    await settle(client, hanging)
    return hanging


def snapshot_of(client):
    """The cluster as it is at this virtual time."""
    objects = [each for kind in KINDS for each in stored(client.server, kind)]
    return Snapshot.of(objects, taken=asyncio.get_running_loop().now())


def restored(snapshot):
    """The objects of a snapshot, for another cluster, which has its own namespaces and services."""
    own = {"Namespace", "Service", "ServiceAccount", "Event", "PriorityClass"}
    return [each for each in snapshot.objects() if each["kind"] not in own]


_IMMUTABLE = (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE)
"""The kinds whose objects are deleted and created again."""


async def carry_out(client, change):
    """Make a change that was found to help. A pod is created anew with its manifest: most of that can't change."""
    for key in change.delete:
        await end(client, key.partition("/")[2])
    for made in change.apply:
        kind = next(each for each in KINDS if (each.kind, each.api_version) == (made["kind"], made["apiVersion"]))
        name, namespace = made["metadata"]["name"], made["metadata"].get("namespace")
        known = any(each["metadata"]["name"] == name for each in stored(client.server, kind))
        if known and kind is POD:
            await end(client, name)
            kept = ("labels", "name", "namespace")
            metadata = {field: made["metadata"][field] for field in kept if field in made["metadata"]}
            await client.create(POD, {**made, "metadata": metadata, "status": {}}, namespace)
        elif known and kind in _IMMUTABLE:
            await client.delete(kind, name, namespace)
            load(client.server, {**made, "status": {}})
        elif known:
            changes = {"metadata": {"labels": made["metadata"].get("labels")}, "spec": made["spec"]}
            if kind is NODE:
                old = next(each for each in stored(client.server, NODE) if each["metadata"]["name"] == name)
                gone = dict.fromkeys((old["metadata"].get("labels") or {}).keys() - made["metadata"]["labels"].keys())
                changes["metadata"]["labels"] |= gone
                changes["spec"] = {"taints": None, "unschedulable": None, **made["spec"]}
            await client.patch(kind, name, changes, namespace)
            if kind is NODE:
                status = {"allocatable": made["status"]["allocatable"], "capacity": made["status"]["capacity"]}
                await client.patch(kind, name, {"status": status}, subresource="status")
        elif kind is not POD or not made["metadata"].get("ownerReferences"):  # controllers make their own
            load(client.server, made)


def owner_of(each):
    """The name of a pod's controller, or its own."""
    return next((owner.name for owner in each.metadata.ownerReferences or ()), each.metadata.name)


def counted(pods, snapshot):
    """How many pods there are and have a node, how many each workload has, and the nodes of the DaemonSet's pods.

    `pods`: the owner and the node of each. Where a quota may be too small for all, which workload gets what it leaves
    is a race, and so is which pods need room then.
    """
    if snapshot.of_kind(RESOURCE_QUOTA):
        return len(pods)
    sizes, nodes = Counter(owner for owner, _ in pods), Counter(on for owner, on in pods if owner == "agent")
    return len(pods), sum(bool(on) for _, on in pods), sizes, nodes
