"""A deferred resize evicts pods of lower priority, with the scheduler, the API server and the kubelets of 1.37."""

import pytest
from clusters import embedded
from running import running_scheduler
from workloads import NAME, pod

from bayplan.client import PatchType
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS
from bayplan.core.cluster.resizes import RESIZES_PREEMPT
from bayplan.core.config import default_profile
from bayplan.core.versions import gates_of
from bayplan.testing.observer import condition_of

pytestmark = pytest.mark.feature("DefaultPreemption: deferred resizes, end to end")


@pytest.fixture
async def scene(tmp_path):
    """A node of one core, on which two pods run, `low` and `grows`; and the scheduler."""
    gates = gates_of("1.37").but(RESIZES_PREEMPT)
    async with embedded(tmp_path, version="1.37", gates=gates) as cluster:
        for name, value in (("low", 1), ("high", 100)):
            await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        await cluster.add_node("a", cpu="1")

        def build(handle):
            return {NAME: default_profile(NAME, handle, gates=gates)}

        async with running_scheduler(cluster.access, build_profiles=build) as scheduler:
            for name, priority, cpu in (("low", "low", "600m"), ("grows", "high", "300m")):
                await cluster.create(pod(name, cpu, priorityClassName=priority, terminationGracePeriodSeconds=1))
            await cluster.observer.until(lambda: all(phase(cluster, name) == "Running" for name in ("low", "grows")))
            yield cluster, scheduler


def phase(cluster, name):
    found = cluster.observer.pods.get(f"default/{name}")
    return found and found["status"].get("phase")


async def resize(cluster, name, cpu):
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    await cluster.client.patch(POD, name, patch, "default", type=PatchType.STRATEGIC, subresource="resize")


def granted(cluster, name):
    (container,) = cluster.observer.pods[f"default/{name}"]["status"]["containerStatuses"]
    return container["allocatedResources"]["cpu"]


async def test_a_deferred_resize_evicts_a_pod_and_is_carried_out(scene):
    cluster, _ = scene
    uid = cluster.observer.pods["default/grows"]["metadata"]["uid"]
    await resize(cluster, "grows", "800m")
    await cluster.observer.until(lambda: granted(cluster, "grows") == "800m")
    assert "default/low" not in cluster.observer.pods
    [evicted] = await cluster.observer.until(lambda: cluster.observer.events_of("default/low", "Preempted"))
    assert evicted["note"] == f"Preempted by pod {uid} on node a"
    assert not cluster.observer.events_of("default/grows", "FailedScheduling")
    versions = cluster.observer.versions("default/grows")
    pending = [found["reason"] for each in versions if (found := condition_of(each, "PodResizePending"))]
    assert set(pending) == {"Deferred"}
    assert not any(each["status"].get("nominatedNodeName") for each in versions)
    assert {each["spec"].get("nodeName") for each in versions[-3:]} == {"a"}


async def test_nobody_is_evicted_while_the_node_forbids_it(scene):
    cluster, scheduler = scene
    policy = {"disableResizePreemption": ["example.com/autoscaler"]}
    await cluster.client.patch(NODE, "a", {"spec": {"podPreemptionPolicy": policy}})
    await resize(cluster, "grows", "800m")
    await cluster.observer.until(lambda: [each.pod.name for each in scheduler.queue if each.message] == ["grows"])
    assert phase(cluster, "low") == "Running"
    await cluster.client.patch(NODE, "a", {"spec": {"podPreemptionPolicy": None}})
    await cluster.observer.until(lambda: granted(cluster, "grows") == "800m")
    assert "default/low" not in cluster.observer.pods
    await cluster.observer.until(lambda: not len(scheduler.queue))
