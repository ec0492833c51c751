"""Pods are evicted for deferred resizes (InPlacePodVerticalScalingSchedulerPreemption), on an in-memory API server.

The cases are those of upstream's integration tests: a node of 300m, and a pod that is resized from 100m to 300m there.
"""

import asyncio
from typing import Any

import pytest
from tests.support.stories import NAME, in_virtual_time, scheduling
from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import CORE_EVENT, NODE, POD, POD_DISRUPTION_BUDGET, PRIORITY_CLASS
from bayplan.core.cluster.resizes import RESIZES_PREEMPT
from bayplan.core.config import default_profile
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.profile import Point
from bayplan.core.versions import gates_of
from bayplan.testing.in_memory import stored

pytestmark = pytest.mark.scheduler(version="1.37", gates=(RESIZES_PREEMPT,))
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def running(name: str, cpu: str, *, on: str = "n", priority: int = 0, wants: str = "", **spec) -> dict[str, Any]:
    """A running pod. `wants`: what it was resized to, if that is deferred."""
    container = {"name": "c", "image": "i"}
    status = {**container, "ready": True, "imageID": "", "restartCount": 0}
    sizes = {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "resources": {"requests": {"cpu": wants or cpu}}}],
            **spec,
        },
        "status": {
            "phase": "Running",
            "conditions": [SCHEDULED, DEFERRED] if wants else [SCHEDULED],
            "containerStatuses": [{**status, **sizes}],
        },
    }


async def run(here, name: str, cpu: str, **pod) -> None:
    """Create a running pod."""
    await here.create(POD, running(name, cpu, **pod))


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


async def run_deferred(here, to: str = "300m", **pod) -> None:
    """Create the running pod `grows`, whose resize is deferred."""
    await run(here, "grows", "100m", priority=10, **pod)
    await defer(here, "grows", to)
    await here.settle()


def queued(here) -> list[tuple[str, str]]:
    return sorted((each.pod.name, each.place.value) for each in here.scheduler.queue)


def events_about(here) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in stored(here.client.server, CORE_EVENT):
        found.setdefault(event["involvedObject"]["name"], []).append(event["reason"])
    return found


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
    assert events_about(here) == {"low": ["Preempted"]}
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
    await run_deferred(here, to, **spec)
    assert here.evicted() == evicted
    assert queued(here) == [("grows", "unschedulable")]
    assert not (await here.client.get(POD, "grows", "default")).status.nominatedNodeName


async def forbid(here, *whose: str) -> None:
    await here.client.patch(NODE, "n", {"spec": {"podPreemptionPolicy": {"disableResizePreemption": list(whose)}}})


async def test_a_node_may_forbid_it(here):
    await here.add_node("n", "300m")
    await forbid(here, "example.com/autoscaler")
    await run(here, "low", "200m")
    await run_deferred(here)
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
    await run_deferred(here)
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


@pytest.mark.scheduler(gates=())
async def test_nobody_is_evicted_without_the_gate(here):
    await here.add_node("n", "300m")
    await run(here, "low", "200m")
    await run_deferred(here)
    assert here.evicted() == set()
    assert queued(here) == []


async def test_the_budgets_of_victims_are_heeded(here):
    await here.add_node("n", "500m")
    spec = {"selector": {"matchLabels": {"app": "low-1"}}, "minAvailable": 1}
    await here.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": "b"}, "spec": spec})
    for name in ("low-1", "low-2"):
        await run(here, name, "200m")
    await run_deferred(here)
    assert here.evicted() == {"low-2"}


async def test_a_pod_waits_only_once_it_is_bound(here):
    """A resize of a pod that another client has just bound may be deferred already."""
    await here.add_node("n", "300m")
    await run(here, "low", "200m")
    await here.create(POD, running("grows", "100m", priority=10, wants="300m"))
    await here.settle()
    assert here.evicted() == {"low"}
    assert queued(here) == [("grows", "unschedulable")]


class SlowBind(Plugin):
    """Binds a pod, and learns that only later."""

    name = "SlowBind"

    def __init__(self, handle):
        self.client = handle.client

    async def bind(self, cycle, pod, node_name):
        await self.client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)
        await asyncio.sleep(5)


def binding_slowly(handle):
    profile = default_profile(NAME, handle, gates=gates_of("1.37").but(RESIZES_PREEMPT))
    return {NAME: profile.with_plugins({Point.BIND: [SlowBind(handle)]})}


@pytest.mark.scheduler(build=binding_slowly)
async def test_a_resize_that_is_deferred_before_the_binding_has_ended(here):
    await here.add_node("n", "300m")
    await run(here, "low", "200m")
    await here.add("grows", cpu="100m", priority=10)
    await asyncio.sleep(1)
    assert here.nodes()["grows"] == "n"
    await defer(here, "grows", "300m")
    await asyncio.sleep(1)
    assert here.scheduler.bound == 0
    await here.settle()
    assert here.scheduler.bound == 1
    assert here.evicted() == {"low"}


async def start_late() -> set[str]:
    room = {"cpu": "300m", "memory": "64Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": room}}
    pods = [running("low", "200m"), running("grows", "100m", priority=10, wants="300m")]
    async with scheduling(node, *pods, version="1.37", gates=(RESIZES_PREEMPT,)) as here:
        await here.settle()
        return here.evicted()


def test_a_resize_that_was_deferred_before_the_scheduler_started():
    assert in_virtual_time(start_late()) == {"low"}
