"""Pods with resource claims, with the scheduler, the controllers and the kubelets over sockets."""

from __future__ import annotations

import pytest
from claimed_devices import allocated_devices, devices_of, users
from device_objects import DRIVER, RESOURCE, claim, claiming, device_class, template
from running import running_scheduler
from tests.support.invariants import check_invariants
from tests.support.tables import cases
from workloads import NAME, pod

from bayplan.client import ApiError
from bayplan.core.api.kinds import (
    DEVICE_CLASS,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from bayplan.testing.observer import condition_of

pytestmark = pytest.mark.feature("DynamicResources: end to end")

NO_HELP = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
STILL_NOT = f"still not schedulable, {NO_HELP}"
ONE_INVALID = "0/2 nodes are available: 1 cannot allocate all claims, 1 invalid resource pools were encountered."
NONE_LEFT = f"0/{{0}} nodes are available: {{0}} cannot allocate all claims. {STILL_NOT}"


@pytest.fixture
async def devices(cluster):
    async with devices_of(cluster) as devices:
        yield devices


async def runs(cluster, name, node=""):
    """Wait until a pod runs. Returns its node."""

    def running():
        found = cluster.observer.pods[f"default/{name}"]
        assert found["status"]["phase"] == "Running", f"{name} until_pending: {condition_of(found)}"
        return found["spec"]["nodeName"]

    there = await cluster.observer.until(running)
    assert node in {"", there}
    return there


async def until_pending(cluster, name, message, reason="Unschedulable"):
    """Wait until the condition of a pod has a reason and a message."""

    def waiting():
        condition = condition_of(cluster.observer.pods[f"default/{name}"]) or {}
        assert (condition.get("reason"), condition.get("message")) == (reason, message)
        return True

    await cluster.observer.until(waiting)


async def test_device_is_released_with_its_pod(cluster, devices):
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM_TEMPLATE, template())
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("first", templates=["t"]))
        await runs(cluster, "first")
        [held] = devices.all
        assert (allocated_devices(held), users(held)) == (["a/gpu-0"], ["first"])
        await cluster.create(claiming("second", templates=["t"]))
        await until_pending(cluster, "second", NONE_LEFT.format(1))
        await cluster.client.delete(POD, "first", "default")
        await runs(cluster, "second")
    await cluster.observer.until(lambda: [users(each) for each in devices.all] == [["second"]])
    check_invariants(cluster.observer, NAME)


async def test_pods_with_a_shared_claim_run_on_its_node(cluster, devices):
    for node, has in (("a", []), ("b", ["gpu-0"]), ("c", [])):
        await devices.offer(node, *has)
    await devices.create(RESOURCE_CLAIM, claim("shared"))
    names = ["one", "two", "three"]
    async with running_scheduler(cluster.access):
        await cluster.create(*(claiming(name, "shared") for name in names))
        assert [await runs(cluster, name) for name in names] == ["b", "b", "b"]
        assert sorted(users(devices.one("shared"))) == sorted(names)
        for name in names:
            assert allocated_devices(devices.one("shared")) == ["b/gpu-0"]
            await cluster.delete(name)
        await cluster.observer.until(lambda: not allocated_devices(devices.one("shared")))
        await cluster.observer.until(
            lambda: (users(devices.one("shared")), devices.one("shared").metadata.finalizers) == ([], None)
        )
    check_invariants(cluster.observer, NAME)


@pytest.fixture
async def _priorities(cluster):
    for name, value in (("low", 1), ("high", 100)):
        try:
            await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        except ApiError as error:
            if error.status != 409:
                raise


@pytest.mark.usefixtures("_priorities")
async def test_preemptor_gets_the_device_of_a_shared_claim(cluster, devices):
    """The pods share a claim. Its allocation ends with its only user, before the preemptor is bound."""
    await devices.offer("a", "gpu-0")
    await devices.offer("b")
    await devices.create(RESOURCE_CLAIM, claim("c"))
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("victim", "c", cpu="3", priorityClassName="low"))
        await runs(cluster, "victim", "a")
        await cluster.create(claiming("vip", "c", cpu="3", priorityClassName="high"))
        await runs(cluster, "vip", "a")
        assert "default/victim" not in cluster.observer.pods
    await cluster.observer.until(lambda: users(devices.one("c")) == ["vip"])
    assert allocated_devices(devices.one("c")) == ["a/gpu-0"]
    check_invariants(cluster.observer, NAME)


@pytest.mark.usefixtures("_priorities")
async def test_pods_are_not_evicted_for_devices(cluster, devices):
    """As in kube-scheduler, a claim keeps its devices until its pod is deleted."""
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM_TEMPLATE, template())
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("lowly", templates=["t"], priorityClassName="low"))
        await runs(cluster, "lowly")
        await cluster.create(claiming("vip", templates=["t"], priorityClassName="high"))
        await until_pending(cluster, "vip", NONE_LEFT.format(1))
        assert "deletionTimestamp" not in cluster.observer.pods["default/lowly"]["metadata"]
        await cluster.client.delete(POD, "lowly", "default")
        await runs(cluster, "vip")
    check_invariants(cluster.observer, NAME)


async def test_extended_resource_is_backed_by_devices(cluster, devices):
    await devices.create(DEVICE_CLASS, device_class("backing", extendedResourceName=RESOURCE))
    await devices.offer("a", "gpu-0", "gpu-1")

    def requesting(name):
        document = pod(name, terminationGracePeriodSeconds=1)
        document["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "2"}}
        return document

    async with running_scheduler(cluster.access):
        await cluster.create(requesting("first"))
        await runs(cluster, "first")
        [made] = devices.all
        assert (allocated_devices(made), users(made)) == (["a/gpu-0", "a/gpu-1"], ["first"])
        claim_status = cluster.observer.pods["default/first"]["status"]["extendedResourceClaimStatus"]
        assert claim_status["resourceClaimName"] == made.metadata.name
        assert [each["resourceName"] for each in claim_status["requestMappings"]] == [RESOURCE]
        await cluster.create(requesting("second"))
        await until_pending(cluster, "second", NONE_LEFT.format(1))
        await cluster.client.delete(POD, "first", "default")
        await runs(cluster, "second")
    await cluster.observer.until(lambda: [users(each) for each in devices.all] == [["second"]])
    check_invariants(cluster.observer, NAME)


FINALIZER, STATUS = "/resourceclaims/{}$", "/resourceclaims/{}/status$"


@cases(
    "path, what, released",
    {
        "no finalizer on the first claim": (FINALIZER.format("one"), {"status": 403}, False),
        "first claim not allocated": (STATUS.format("one"), {"status": 500}, False),
        "no finalizer on the second claim": (FINALIZER.format("two"), {"status": 403}, True),
        "second claim not allocated": (STATUS.format("two"), {"status": 403}, True),
        "conflicts on the second claim": (STATUS.format("two"), {"status": 409, "times": 5}, True),
        "no reply for the second claim": (STATUS.format("two"), {"drop_response": True}, False),
        "pod not bound": ("/pods/p/binding$", {"status": 403}, True),
    },
)
async def test_partial_allocation_is_undone_and_retried(cluster, devices, proxy, path, what, released):
    await devices.offer("a", "gpu-0", "gpu-1")
    for name in ("one", "two"):
        await devices.create(RESOURCE_CLAIM, claim(name))
    async with running_scheduler(proxy.access):
        fault = proxy.inject("POST" if path.endswith("binding$") else "PUT", path, **what)
        await cluster.create(claiming("p", "one", "two"))
        await runs(cluster, "p")
    assert fault.hits == what.get("times", 1)
    assert [users(devices.one(name)) for name in ("one", "two")] == [["p"], ["p"]]
    assert sorted(allocated_devices(devices.one("one")) + allocated_devices(devices.one("two"))) == [
        "a/gpu-0",
        "a/gpu-1",
    ]
    # The first claim's reservation was removed before the next attempt.
    seen = devices.users_seen["one"]
    assert (0 in seen[seen.index(1) :]) == released
    check_invariants(cluster.observer, NAME)


async def test_extended_resource_claim_is_deleted_when_the_attempt_fails(cluster, devices, proxy):
    await devices.create(DEVICE_CLASS, device_class("backing", extendedResourceName=RESOURCE))
    await devices.offer("a", "gpu-0")
    document = pod("p")
    document["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    async with running_scheduler(proxy.access):
        fault = proxy.inject("POST", "/pods/p/binding$", status=403)
        await cluster.create(document)
        await runs(cluster, "p")
    assert fault.hits == 1
    await cluster.observer.until(lambda: len(devices.all) == 1)
    [made] = devices.all
    assert (allocated_devices(made), users(made)) == (["a/gpu-0"], ["p"])
    claim_status = cluster.observer.pods["default/p"]["status"]["extendedResourceClaimStatus"]
    assert claim_status["resourceClaimName"] == made.metadata.name
    assert len(devices.users_seen) == 2


async def test_claim_is_deleted_after_the_decision(cluster, devices, proxy):
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM, claim("c"))
    async with running_scheduler(proxy.access):
        proxy.inject("PUT", FINALIZER.format("c"), delay=0.3)
        await cluster.create(claiming("p", "c"))
        await proxy.arrival("PUT", FINALIZER.format("c"))
        await cluster.client.delete(RESOURCE_CLAIM, "c", "default")
        problem = 'add finalizer to claim default/c: resourceclaims.resource.k8s.io "c" not found'
        await until_pending(cluster, "p", f'running PreBind plugin "DynamicResources": {problem}', "SchedulerError")
        await devices.create(RESOURCE_CLAIM, claim("c"))
        await runs(cluster, "p")
    check_invariants(cluster.observer, NAME)


async def test_expression_that_fails_at_run_time_is_reported(cluster, devices):
    expression = f"device.attributes['{DRIVER}'].memory == 'x'"
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM, claim("c", expression))

    def is_reported():
        condition = condition_of(cluster.observer.pods["default/p"]) or {}
        assert condition.get("reason") == "SchedulerError"
        return "claim default/c: selector #0: CEL runtime error: " in condition["message"]

    async with running_scheduler(cluster.access):
        await cluster.create(claiming("p", "c"))
        await cluster.observer.until(is_reported)


@cases(
    "healthy, message",
    {"no other node": ([], f"{ONE_INVALID} {STILL_NOT.format(2)}"), "another node with a valid pool": (["gpu-0"], "")},
)
async def test_invalid_pool_is_not_used(cluster, devices, healthy, message):
    await devices.offer("a", "gpu-0", name="one", count=2)
    await devices.slice("a", "gpu-0", name="two", count=2)
    await devices.offer("b", *healthy)
    await devices.create(RESOURCE_CLAIM, claim("c"))
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("p", "c"))
        if message:
            await until_pending(cluster, "p", message)
            await cluster.client.delete(RESOURCE_SLICE, "two")
            await cluster.client.patch(RESOURCE_SLICE, "one", {"spec": {"pool": {"resourceSliceCount": 1}}})
        await runs(cluster, "p", "a" if message else "b")


async def test_leftover_extended_resource_claim_is_replaced(cluster, devices):
    await devices.create(DEVICE_CLASS, device_class("backing", extendedResourceName=RESOURCE))
    await devices.offer("a", "gpu-0")
    document = pod("p")
    document["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    await cluster.create(document)
    uid = cluster.observer.pods["default/p"]["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    left = claim("left")
    left["metadata"] |= {"ownerReferences": [owner], "annotations": marked}
    await devices.create(RESOURCE_CLAIM, left)
    async with running_scheduler(cluster.access):
        await runs(cluster, "p")
    await cluster.observer.until(lambda: len(devices.all) == 1)
    [made] = devices.all
    assert made.metadata.name != "left"
    assert (allocated_devices(made), users(made)) == (["a/gpu-0"], ["p"])
    check_invariants(cluster.observer, NAME)


async def test_scheduler_finishes_deallocation_before_it_exits(cluster, devices, proxy):
    await devices.offer("a", "gpu-0", "gpu-1")
    for name in ("one", "two"):
        await devices.create(RESOURCE_CLAIM, claim(name))
    async with running_scheduler(proxy.access):
        proxy.inject("PUT", STATUS.format("one"))  # the allocation is immediate,
        proxy.inject("PUT", STATUS.format("one"), delay=0.5)  # and undoing it is delayed
        proxy.inject("PUT", STATUS.format("two"), status=403, times=None)
        await cluster.create(claiming("p", "one", "two"))
        await proxy.arrival("PUT", STATUS.format("one"), count=2)
        assert users(devices.one("one")) == ["p"]
    await cluster.observer.until(lambda: not users(devices.one("one")))


async def test_attempt_waits_for_deallocation_by_the_previous_one(cluster, devices, proxy):
    await devices.offer("a", "gpu-0", "gpu-1")
    for name in ("one", "two"):
        await devices.create(RESOURCE_CLAIM, claim(name))
    async with running_scheduler(proxy.access):
        proxy.inject("PUT", STATUS.format("one"))
        proxy.inject("PUT", STATUS.format("one"), delay=0.5)
        proxy.inject("PUT", STATUS.format("two"), status=403)
        await cluster.create(claiming("p", "one", "two"))
        await runs(cluster, "p")
    # The scheduler allocates and reserves, deallocates, and reserves again before it binds the pod.
    assert proxy.count("PUT", STATUS.format("one")) == 3
    assert [users(devices.one(name)) for name in ("one", "two")] == [["p"], ["p"]]
    check_invariants(cluster.observer, NAME)
