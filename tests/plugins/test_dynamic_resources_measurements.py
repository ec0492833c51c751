"""DynamicResources: metrics of created claims and of waiting for binding conditions."""

import pytest
from tests.support.tables import cases

from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.plugins.arguments import DynamicResourcesArgs
from bayplan.core.versions import DEFAULT_GATES, gates_of
from bayplan.running.service.metrics.plugin_measurements import PluginMeasurements
from bayplan.testing.builders import make_pod
from bayplan.testing.documents import document_of, known
from bayplan.testing.in_memory import make_client, stored
from bayplan_devcluster.apiserver import Fault
from devices import DRIVER, Clock, Devices, claim, device, device_class, pod_with, request, resource_slice

SINCE_1_37 = "dynamic_resource_allocation_resourceclaim_creates_total"


def measured(cluster):
    counts = {family.name: dict(family.samples) for family in cluster.handle.measurements.counts()}
    seconds = {
        family.name: {labels: (histogram.count, histogram.sum) for labels, histogram in family.samples.items()}
        for family in cluster.handle.measurements.seconds()
    }
    return counts, seconds


def world(clock, *objects, classes=None, devices=("a", "b"), gates=DEFAULT_GATES):
    there = [classes or device_class(), resource_slice("s", *devices, node="n1")]
    documents = [each for each in objects if isinstance(each, dict)]
    client = make_client(*there, *objects)
    cluster = Devices([*there, *documents], client, DynamicResourcesArgs(bindingTimeout="20s"), clock, gates)
    cluster.handle.measurements = PluginMeasurements()
    return cluster, client


def condition(kind):
    often = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": "so", "status": "True"}
    return [{"device": "a", "driver": DRIVER, "pool": "n1", "conditions": [{**often, "type": kind}]}]


@cases(
    "becomes, status, seconds",
    {
        "ready at the second check": (condition("ready"), "success", 5),
        "broken": (condition("broken"), "failure", 5),
        "never ready": ([], "timeout", 20),
        "deleted claim": (None, "error", 5),
    },
)
async def test_wait_for_binding_conditions_is_measured(becomes, status, seconds) -> None:
    clock = Clock()
    conditional = device("a", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    cluster, _ = world(clock, claim("c", request()), devices=(conditional,))
    store = cluster.state.objects[RESOURCE_CLAIM]

    def prepare():
        if becomes is None:
            store.remove("default/c")
            return
        current = store["default/c"]
        document = document_of(current)[1]
        document["status"]["devices"] = becomes
        document["metadata"]["resourceVersion"] = str(int(current.metadata.resourceVersion) + 1)
        store.set("default/c", RESOURCE_CLAIM.type.from_dict(document))

    clock.on_sleep.append(prepare)
    pod = pod_with("c")
    cluster.reserve(pod)
    await cluster.plugin.pre_bind(cluster.cycle, pod, "n1")
    counts, times = measured(cluster)
    labels = (pod.scheduler_name, DRIVER, status)
    assert counts == {"scheduler_dra_bindingconditions_allocations_total": {labels: 1}}
    assert times == {"scheduler_dra_bindingconditions_wait_duration_seconds": {labels: (1, pytest.approx(seconds))}}


async def test_devices_without_binding_conditions_are_not_measured() -> None:
    cluster, _ = world(Clock(), claim("c", request()))
    pod = pod_with("c")
    cluster.reserve(pod)
    assert await cluster.plugin.pre_bind(cluster.cycle, pod, "n1") is None
    assert measured(cluster) == ({}, {})


@cases(
    "version, status, metric, labels",
    {
        "created": ("1.36", "success", "scheduler_resourceclaim_creates_total", ()),
        "refused": ("1.36", "failure", "scheduler_resourceclaim_creates_total", ()),
        "created in 1.37": ("1.37", "success", SINCE_1_37, ("false",)),
        "refused in 1.37": ("1.37", "failure", SINCE_1_37, ("false",)),
    },
)
async def test_created_claims_for_extended_resources_are_counted(version, status, metric, labels) -> None:
    """#138542"""
    pod, clock = make_pod("p", resources={"example.com/gpu": "2"}), Clock()
    cluster, client = world(
        clock, pod, classes=device_class(extendedResourceName="example.com/gpu"), gates=gates_of(version)
    )

    def deliver_claims():
        for document in stored(client.server, RESOURCE_CLAIM):
            _, key, each = known(document)
            cluster.state.objects[RESOURCE_CLAIM].set(key, each)

    clock.on_sleep.append(deliver_claims)
    cluster.reserve(pod)
    if status == "failure":
        client.server.faults.add(Fault(verb="create", resource="resourceclaims", answer=403, times=1))
    answer = await cluster.plugin.pre_bind(cluster.cycle, pod, "n1")
    assert (answer is None) is (status == "success")
    counts, _ = measured(cluster)
    assert counts == {metric: {(status, *labels): 1}}
