"""`explain` beside a scheduler that runs on an embedded cluster: what is held, and where a pod is on its way."""

from __future__ import annotations

import asyncio

from bayplan_documents import document, node, pod
from real_runs import NAME, running
from tests.support.tables import cases

from bayplan import Plugin
from bayplan.core.api.kinds import KINDS, NODE, POD
from bayplan.core.config import default_profile
from bayplan.core.framework.interface import Wait
from bayplan.insight import Insight, Snapshot
from bayplan.testing.in_memory import load, stored
from bayplan.testing.virtual_time import VirtualTime

ATTEMPTED = 1.0
"""Virtual seconds after which what is new has been attempted."""
PROVISIONED = "n1 was chosen already; the pod waits for provisioner disk.acme.io to provision the claim data"
LATER = "the scheduler has no reason to try it again; it does so after 5 minutes at the latest, at"


class Approval(Plugin):
    """Lets pods with the label `slow` wait in Permit."""

    name = "Approval"

    def permit(self, cycle, pod, node_name):
        return Wait(120) if "slow" in pod.labels else None


def slow():
    return {**pod("slow", cpu="3"), "metadata": {"name": "slow", "namespace": "default", "labels": {"slow": "yes"}}}


def provisioned():
    """A pod, and what it needs of a provisioner that does not run."""
    disk = document("StorageClass", "disk", "storage.k8s.io/v1", namespace="", provisioner="disk.acme.io")
    asked = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": "disk", "accessModes": ["ReadWriteOnce"], "resources": asked}
    claim = document("PersistentVolumeClaim", "data", spec=spec)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return [{**disk, "volumeBindingMode": "WaitForFirstConsumer"}, claim, pod("db", cpu="3", volumes=volumes)]


def with_itself(name):
    term = {"labelSelector": {"matchLabels": {"app": "self"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = pod(name, affinity=affinity)
    made["metadata"]["labels"] = {"app": "self"}
    return made


async def cordon(client):
    await client.patch(NODE, "n1", {"spec": {"unschedulable": True}})


async def defer_a_resize(client):
    """Ask for a larger pod, and say as a kubelet does that the node has no room for it."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "3500m"}}}]
    has = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    has |= {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
    condition = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    await client.patch(POD, "old", {"spec": {"containers": containers}}, "default", subresource="resize")
    status = {"phase": "Running", "conditions": [condition], "containerStatuses": [has]}
    await client.patch(POD, "old", {"status": status}, "default", subresource="status")


def deleting(name, grace=None):
    """Delete a pod. `grace`: 0 if it is gone at once."""

    async def delete(client):
        await client.delete(POD, name, "default", grace_period_seconds=grace)

    return delete


SITUATIONS = {
    "a nominated pod, and its victim that terminates": (
        [pod("old", cpu="3"), pod("high", cpu="4", priority=5), pod("new", cpu="500m")],
        (
            "Insufficient cpu: lacks 3500m (4 cpu is held for nominated pod default/high; "
            "pod default/old, which terminates, holds 3)"
        ),
    ),
    "a pod that terminates": (
        [pod("old", cpu="3500m"), deleting("old"), pod("new")],
        "Insufficient cpu: lacks 500m (pod default/old, which terminates, holds 3500m)",
    ),
    "a deferred resize": (
        [pod("old"), defer_a_resize, pod("new")],
        "Insufficient cpu: lacks 500m (pod default/old holds 2500m more for its deferred resize)",
    ),
    "an assumed pod in PreBind": (
        [*provisioned(), pod("new", cpu="2")],
        "Insufficient cpu: lacks 1 (3 cpu is held for nominated pod default/db)",
    ),
    "an assumed pod in Permit": (
        [slow(), pod("new", cpu="2")],
        "Insufficient cpu: lacks 1 (3 cpu is held for nominated pod default/slow)",
    ),
}
"""What happens, one after the other, and what is said of the pod `new`."""


@cases("steps, blocker", SITUATIONS)
def test_what_is_held_on_a_node_is_named(steps, blocker):
    answer = beside(steps, "default/new")

    assert [miss.blockers for miss in answer.nearest] == [(blocker,)]


WAYS = {
    "for a provisioner, in PreBind": (provisioned(), "db", PROVISIONED),
    "for a plugin, in Permit": (
        [slow()],
        "slow",
        "n1 was chosen already; the pod waits for a plugin in Permit or PreBind",
    ),
    "no scheduler has its name": ([pod("new", schedulerName="other")], "new", "there are profiles for"),
    "for a gate": ([pod("new", schedulingGates=[{"name": "acme.io/g"}])], "new", "scheduling gates: [acme.io/g]"),
}


@cases("steps, name, text", WAYS)
def test_what_a_pod_waits_for_is_said(steps, name, text):
    answer = beside(steps, f"default/{name}")

    assert (answer.outcome, answer.node) == ("pending", None)
    assert any(text in each for each in (answer.message, *answer.notes)), answer.text()


def test_a_pod_that_was_rejected_before_it_waits_in_permit_is_not_said_to_be_tried_later():
    answer = beside([pod("old", cpu="3"), slow(), deleting("old", grace=0)], "default/slow", rest=10.0)

    assert answer.notes[0] == (
        "nominated to node n1; it is tried again soon if it preempted pods, else a plugin lets it wait there in "
        "Permit or PreBind"
    )
    assert not any(LATER in note for note in answer.notes), answer.notes


def test_a_wake_up_that_the_hints_miss_is_said_with_its_time():
    """kubernetes/kubernetes#141354: the peer is gone, so the pod would be the first of its kind on the other node."""
    steps = [with_itself("old"), cordon, node("n2"), with_itself("new"), deleting("old", grace=0)]

    answer = beside(steps, "default/new", rest=20.0)

    assert answer.node == "n2"
    assert any(note.startswith(LATER) for note in answer.notes), answer.notes


def beside(steps, key, rest=0.0):
    """What is said of a pod after steps on a cluster of one node: objects to create, and coroutines.

    `rest`: virtual seconds in the end in which nothing happens.
    """
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_beside(steps, key, rest))


async def _beside(steps, key, rest):
    async with running([node("n1")], build=lambda handle: default_profile(NAME, handle, [Approval])) as (client, _):
        for step in steps:
            if callable(step):
                await step(client)
            else:
                load(client.server, step)
            await asyncio.sleep(ATTEMPTED)
        await asyncio.sleep(rest)
        documents = [each for kind in KINDS for each in stored(client.server, kind)]
        return Insight(Snapshot.of(documents, taken=asyncio.get_running_loop().now())).explain(key)
