"""Pods are evicted for deferred resizes (InPlacePodVerticalScalingSchedulerPreemption), on an in-memory API server.

The cases are those of upstream's integration tests: a node of 300m, and a pod that is resized from 100m to 300m there.
"""

from __future__ import annotations

import pytest
from tests.support.tables import cases

from bayplan.api.kinds import NODE, POD, PRIORITY_CLASS
from bayplan.client import PatchType
from bayplan.testing.in_memory import stored

GATE = "InPlacePodVerticalScalingSchedulerPreemption"
pytestmark = pytest.mark.scheduler(version="1.37", gates=(GATE,))
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


async def run(here, name: str, cpu: str, *, on: str = "n", priority: int = 0, **spec) -> None:
    """Create a running pod."""
    resources = {"requests": {"cpu": cpu}}
    container = {"name": "c", "image": "i"}
    status = {**container, "ready": True, "imageID": "", "restartCount": 0, "resources": resources}
    pod = {
        "metadata": {"name": name},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "resources": resources}],
            **spec,
        },
        "status": {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "containerStatuses": [{**status, "allocatedResources": {"cpu": cpu}}],
        },
    }
    await here.create(POD, pod)


async def resize(here, name: str, cpu: str) -> None:
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    await here.client.patch(POD, name, patch, "default", type=PatchType.STRATEGIC, subresource="resize")


async def report(here, name: str, *conditions: dict[str, str], granted: str | None = None) -> None:
    """Write what the kubelet says of a resize."""
    status = {"conditions": [SCHEDULED, *conditions]}
    if granted is not None:
        pod = await here.client.get(POD, name, "default")
        (container,) = pod.status.containerStatuses
        sizes = {"resources": {"requests": {"cpu": granted}}, "allocatedResources": {"cpu": granted}}
        status["containerStatuses"] = [{"name": "c", "image": container.image, "imageID": "", **sizes}]
    patch = {"status": status}
    await here.client.patch(POD, name, patch, "default", type=PatchType.MERGE, subresource="status")


async def defer(here, name: str, cpu: str) -> None:
    await resize(here, name, cpu)
    await report(here, name, DEFERRED)


def queued(here) -> list[tuple[str, str]]:
    return sorted((each.pod.name, each.place.value) for each in here.scheduler.queue)


async def test_a_pod_of_lower_priority_is_evicted_for_a_deferred_resize(here):
    await here.add_node("n", "300m")
    await here.add_node("other", "300m")
    await run(here, "low", "200m")
    await run(here, "elsewhere", "200m", on="other")
    await run(here, "grows", "100m", priority=10)
    await here.settle()
    assert queued(here) == []
    await defer(here, "grows", "300m")
    await here.settle()
    assert here.evicted() == {"low"}
    assert queued(here) == [("grows", "unschedulable")]  # it fits, and the kubelet has not resized it yet
    pod = await here.client.get(POD, "grows", "default")
    assert pod.spec.nodeName == "n"
    assert not pod.status.nominatedNodeName
    assert [(each.type, each.status) for each in pod.status.conditions] == [
        ("PodScheduled", "True"),
        ("PodResizePending", "True"),
    ]
    assert here.scheduler.queue.get(pod.metadata.uid).message == (
        "0/1 nodes are available: 1 pod resize fits, waiting for Kubelet actuation."
    )
    await report(here, "grows", granted="300m")
    await here.settle()
    assert queued(here) == []
    assert here.evicted() == {"low"}


BEFORE = {
    "one victim": ({"low": ("200m", 0)}, {}, {"low"}),
    "several victims": ({"low-1": ("100m", 0), "low-2": ("100m", 0)}, {}, {"low-1", "low-2"}),
    "no more than needed": ({"low-1": ("50m", 0), "low-2": ("150m", 5)}, {"to": "150m"}, {"low-1"}),
    "the same priority": ({"same": ("200m", 10)}, {}, set()),
    "preemptionPolicy Never": ({"low": ("200m", 0)}, {"priorityClassName": "calm"}, set()),
    "it fits": ({"low": ("100m", 0)}, {"to": "200m"}, set()),
    "more than the node has": ({"low": ("200m", 0)}, {"to": "400m"}, set()),
}


@cases("others, resized, evicted", BEFORE)
async def test_victims_are_chosen_as_for_pods_without_a_node(here, others, resized, evicted):
    await here.add_node("n", "300m")
    await here.create(PRIORITY_CLASS, {"metadata": {"name": "calm"}, "value": 10, "preemptionPolicy": "Never"})
    spec = dict(resized)
    to = spec.pop("to", "300m")
    for name, (cpu, priority) in others.items():
        await run(here, name, cpu, priority=priority)
    await run(here, "grows", "100m", priority=10, **spec)
    await defer(here, "grows", to)
    await here.settle()
    assert here.evicted() == evicted
    assert queued(here) == [("grows", "unschedulable")]
    assert not (await here.client.get(POD, "grows", "default")).status.nominatedNodeName
    assert not [event for event in stored(here.client.server, NODE) if event.get("reason")]


async def forbid(here, *whose: str) -> None:
    await here.client.patch(NODE, "n", {"spec": {"podPreemptionPolicy": {"disableResizePreemption": list(whose)}}})


async def test_a_node_may_forbid_it(here):
    await here.add_node("n", "300m")
    await forbid(here, "example.com/autoscaler")
    await run(here, "low", "200m")
    await run(here, "grows", "100m", priority=10)
    await defer(here, "grows", "300m")
    await here.settle()
    assert here.evicted() == set()
    assert queued(here) == [("grows", "unschedulable")]
    await forbid(here, "example.com/autoscaler", "example.com/another")
    await here.settle()
    assert here.evicted() == set()
    await here.client.patch(NODE, "n", {"spec": {"podPreemptionPolicy": None}})
    await here.settle()
    assert here.evicted() == {"low"}


async def terminate(here):
    await here.client.patch(POD, "grows", {"status": {"phase": "Failed"}}, "default", subresource="status")


LEAVES = {
    "the resize is done": lambda here: report(here, "grows", granted="300m"),
    "the resize is infeasible": lambda here: report(here, "grows", {**DEFERRED, "reason": "Infeasible"}),
    "the pod is deleted": lambda here: here.delete("grows"),
    "the pod has failed": terminate,
}


@cases("change", LEAVES)
async def test_a_pod_leaves_the_queue(here, change):
    await here.add_node("n", "300m")
    await run(here, "same", "200m", priority=10)
    await run(here, "grows", "100m", priority=10)
    await defer(here, "grows", "300m")
    await here.settle()
    assert queued(here) == [("grows", "unschedulable")]
    await change(here)
    await here.settle()
    assert queued(here) == []


async def attempts(here) -> int:
    pod = await here.client.get(POD, "grows", "default")
    return here.scheduler.queue.get(pod.metadata.uid).attempts


async def relabel(here, name: str) -> None:
    await here.client.patch(POD, name, {"metadata": {"labels": {"a": "b"}}}, "default")


async def shrink(here, name: str) -> None:
    await resize(here, name, "150m")
    await report(here, name, granted="150m")


async def grow_node(here, name: str) -> None:
    status = {"status": {"allocatable": {"cpu": "350m"}, "capacity": {"cpu": "350m"}}}
    await here.client.patch(NODE, name, status, type=PatchType.STRATEGIC, subresource="status")


WAKES = {
    "another pod shrinks": (lambda here: shrink(here, "near"), 1),
    "another pod grows": (lambda here: resize(here, "near", "250m"), 1),
    "another pod is deleted": (lambda here: here.delete("near"), 1),
    "the node grows": (lambda here: grow_node(here, "n"), 1),
    "the resize asks for less": (lambda here: resize(here, "grows", "290m"), 1),
    "the resize asks for more": (lambda here: resize(here, "grows", "310m"), 1),
    "another pod's labels change": (lambda here: relabel(here, "near"), 0),
    "a pod shrinks on another node": (lambda here: shrink(here, "far"), 0),
    "a pod grows on another node": (lambda here: resize(here, "far", "250m"), 0),
    "a pod is deleted on another node": (lambda here: here.delete("far"), 0),
    "another node grows": (lambda here: grow_node(here, "other"), 0),
}


@cases("change, more", WAKES)
async def test_what_happens_on_its_own_node_wakes_a_pod(here, change, more):
    await here.add_node("n", "400m")
    await here.add_node("other", "300m")
    await run(here, "near", "200m", priority=10)
    await run(here, "far", "200m", priority=10, on="other")
    await run(here, "grows", "100m", priority=10)
    await here.client.patch(
        NODE, "n", {"status": {"allocatable": {"cpu": "300m"}}}, type=PatchType.STRATEGIC, subresource="status"
    )
    await defer(here, "grows", "300m")
    await here.settle()
    before = await attempts(here)
    await change(here)
    await here.settle()
    assert await attempts(here) - before == more
