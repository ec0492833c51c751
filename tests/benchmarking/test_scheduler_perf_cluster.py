"""The place behind an API server creates what pods need, and retries what the server can't do yet."""

import asyncio

import pytest

from bayplan.benchmarking.cluster import ServedCluster
from bayplan.benchmarking.measurement import Counters
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.core.api.kinds import POD, PRIORITY_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from bayplan.testing.in_memory import make_client, stored
from bayplan_devcluster.apiserver import Fault

UNKNOWN_CLASS = "no PriorityClass with name scheduler-perf-10 was found"


async def no_counters():
    return Counters()


@pytest.fixture
async def cluster():
    return ServedCluster(make_client(), no_counters)


def pods(number):
    spec = {"priority": 10, "containers": [{"name": "c", "image": "i"}]}
    return [{"metadata": {"generateName": "p-"}, "spec": spec}] * number


async def test_a_priority_class_is_created_once_before_its_pods(cluster):
    assert len(await cluster.create(POD, pods(5), "default")) == 5
    server = cluster._client.server
    (priority,) = [each for each in stored(server, PRIORITY_CLASS) if each["value"] == 10]
    assert {each["spec"]["priorityClassName"] for each in stored(server, POD)} == {priority["metadata"]["name"]}


async def test_pods_are_created_once_the_server_knows_their_priority_class(cluster):
    faults = cluster._client.server.faults
    fault = faults.add(Fault(verb="create", resource="pods", answer=403, message=UNKNOWN_CLASS, times=3))
    assert len(await cluster.create(POD, pods(2), "default")) == 2
    assert fault.hits == 3


async def test_another_refusal_of_a_pod_is_an_error(cluster):
    cluster._client.server.faults.add(Fault(verb="create", resource="pods", answer=403, message="no", times=1))
    with pytest.raises(BenchmarkError, match="cannot create pods: 403"):
        await cluster.create(POD, pods(1), "default")


async def test_claims_of_pods_are_created_from_the_first_object_for_devices_on(cluster):
    request = {"name": "gpu", "exactly": {"deviceClassName": "any"}}
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    claiming = {**spec, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    async with cluster.watching(clean_up=False), asyncio.timeout(10):
        await cluster.create(POD, [{"metadata": {"generateName": "p-"}, "spec": spec}], "default")
        assert len(cluster._running) == 1  # only the benchmark's own watch
        await cluster.create(RESOURCE_CLAIM_TEMPLATE, [template], "default")
        await cluster.create(POD, [{"metadata": {"generateName": "p-"}, "spec": claiming}], "default")
        await anext(cluster._client.watch(RESOURCE_CLAIM))
    assert len(stored(cluster._client.server, RESOURCE_CLAIM)) == 1
