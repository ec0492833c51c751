"""Pods with claims on devices, with the scheduler, the controllers and the kubelets over sockets."""

from __future__ import annotations

import pytest
from claimed_devices import devices_of, given, users
from device_objects import DRIVER, RESOURCE, claim, claiming, device_class, template
from running import running_scheduler
from workloads import NAME, pod

from bayplan.api.kinds import (
    DEVICE_CLASS,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from bayplan.client import ApiError
from bayplan.testing.invariants import check_invariants, condition_of

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
    """Wait until a pod runs. Returns where."""

    def running():
        found = cluster.witness.pods[f"default/{name}"]
        assert found["status"]["phase"] == "Running", f"{name} waits: {condition_of(found)}"
        return found["spec"]["nodeName"]

    there = await cluster.witness.until(running)
    assert node in {"", there}
    return there


async def waits(cluster, name, message, reason="Unschedulable"):
    """Wait until a pod is said to wait, and why."""

    def waiting():
        condition = condition_of(cluster.witness.pods[f"default/{name}"]) or {}
        assert (condition.get("reason"), condition.get("message")) == (reason, message)
        return True

    await cluster.witness.until(waiting)


async def test_a_claim_goes_with_its_pod_and_a_pod_that_waits_gets_the_device(cluster, devices):
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM_TEMPLATE, template())
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("first", templates=["t"]))
        await runs(cluster, "first")
        [held] = devices.all
        assert (given(held), users(held)) == (["a/gpu-0"], ["first"])
        await cluster.create(claiming("second", templates=["t"]))
        await waits(cluster, "second", NONE_LEFT.format(1))
        await cluster.client.delete(POD, "first", "default")
        await runs(cluster, "second")
    await cluster.witness.until(lambda: [users(each) for each in devices.all] == [["second"]])
    check_invariants(cluster.witness, NAME)


async def test_pods_that_share_a_claim_go_where_its_device_is(cluster, devices):
    for node, has in (("a", []), ("b", ["gpu-0"]), ("c", [])):
        await devices.offer(node, *has)
    await devices.create(RESOURCE_CLAIM, claim("shared"))
    names = ["one", "two", "three"]
    async with running_scheduler(cluster.access):
        await cluster.create(*(claiming(name, "shared") for name in names))
        assert [await runs(cluster, name) for name in names] == ["b", "b", "b"]
        assert sorted(users(devices.one("shared"))) == sorted(names)
        for name in names:
            assert given(devices.one("shared")) == ["b/gpu-0"]
            await cluster.delete(name)
        await cluster.witness.until(lambda: not given(devices.one("shared")))
        assert (users(devices.one("shared")), devices.one("shared").metadata.finalizers) == ([], None)
    check_invariants(cluster.witness, NAME)


@pytest.fixture
async def _priorities(cluster):
    for name, value in (("low", 1), ("high", 100)):
        try:
            await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        except ApiError as error:
            if error.status != 409:
                raise


@pytest.mark.usefixtures("_priorities")
async def test_a_preemptor_takes_the_place_of_its_victim_and_the_device(cluster, devices):
    """The two share a claim. The only pod that uses it goes, and with it the allocation, before the other is there."""
    await devices.offer("a", "gpu-0")
    await devices.offer("b")
    await devices.create(RESOURCE_CLAIM, claim("c"))
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("victim", "c", cpu="3", priorityClassName="low"))
        await runs(cluster, "victim", "a")
        await cluster.create(claiming("vip", "c", cpu="3", priorityClassName="high"))
        await runs(cluster, "vip", "a")
        assert "default/victim" not in cluster.witness.pods
    await cluster.witness.until(lambda: users(devices.one("c")) == ["vip"])
    assert given(devices.one("c")) == ["a/gpu-0"]
    check_invariants(cluster.witness, NAME)


@pytest.mark.usefixtures("_priorities")
async def test_nobody_is_evicted_for_a_device(cluster, devices):
    """As with kube-scheduler: whoever is evicted, the claim has its devices until the pod is gone."""
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM_TEMPLATE, template())
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("lowly", templates=["t"], priorityClassName="low"))
        await runs(cluster, "lowly")
        await cluster.create(claiming("vip", templates=["t"], priorityClassName="high"))
        await waits(cluster, "vip", NONE_LEFT.format(1))
        assert "deletionTimestamp" not in cluster.witness.pods["default/lowly"]["metadata"]
        await cluster.client.delete(POD, "lowly", "default")
        await runs(cluster, "vip")
    check_invariants(cluster.witness, NAME)


async def test_extended_resources_that_a_class_of_devices_gives(cluster, devices):
    await devices.create(DEVICE_CLASS, device_class("backing", extendedResourceName=RESOURCE))
    await devices.offer("a", "gpu-0", "gpu-1")

    def wanting(name):
        document = pod(name, terminationGracePeriodSeconds=1)
        document["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "2"}}
        return document

    async with running_scheduler(cluster.access):
        await cluster.create(wanting("first"))
        await runs(cluster, "first")
        [made] = devices.all
        assert (given(made), users(made)) == (["a/gpu-0", "a/gpu-1"], ["first"])
        told = cluster.witness.pods["default/first"]["status"]["extendedResourceClaimStatus"]
        assert told["resourceClaimName"] == made.metadata.name
        assert [each["resourceName"] for each in told["requestMappings"]] == [RESOURCE]
        await cluster.create(wanting("second"))
        await waits(cluster, "second", NONE_LEFT.format(1))
        await cluster.client.delete(POD, "first", "default")
        await runs(cluster, "second")
    await cluster.witness.until(lambda: [users(each) for each in devices.all] == [["second"]])
    check_invariants(cluster.witness, NAME)


FINALIZER, STATUS = "/resourceclaims/{}$", "/resourceclaims/{}/status$"


@pytest.mark.parametrize(
    ("path", "what", "released"),
    [
        pytest.param(FINALIZER.format("one"), {"status": 403}, False, id="the first claim is not protected"),
        pytest.param(STATUS.format("one"), {"status": 500}, False, id="the first is not allocated"),
        pytest.param(FINALIZER.format("two"), {"status": 403}, True, id="the second is not protected"),
        pytest.param(STATUS.format("two"), {"status": 403}, True, id="the second is not allocated"),
        pytest.param(STATUS.format("two"), {"status": 409, "times": 5}, True, id="conflicts about the second"),
        pytest.param(STATUS.format("two"), {"drop_answer": True}, True, id="nobody hears that the second is allocated"),
        pytest.param("/pods/p/binding$", {"status": 403}, True, id="the pod is not bound"),
    ],
)
async def test_what_fails_half_way_is_undone_and_done_again(cluster, devices, proxy, path, what, released):
    await devices.offer("a", "gpu-0", "gpu-1")
    for name in ("one", "two"):
        await devices.create(RESOURCE_CLAIM, claim(name))
    async with running_scheduler(proxy.access):
        fault = proxy.inject("POST" if path.endswith("binding$") else "PUT", path, **what)
        await cluster.create(claiming("p", "one", "two"))
        await runs(cluster, "p")
    assert fault.hits == what.get("times", 1)
    assert [users(devices.one(name)) for name in ("one", "two")] == [["p"], ["p"]]
    assert sorted(given(devices.one("one")) + given(devices.one("two"))) == ["a/gpu-0", "a/gpu-1"]
    # The first claim's reservation was taken back before the pod was tried again.
    seen = devices.users_seen["one"]
    assert (0 in seen[seen.index(1) :]) == released
    check_invariants(cluster.witness, NAME)


async def test_a_claim_for_extended_resources_is_deleted_with_an_attempt_that_fails(cluster, devices, proxy):
    await devices.create(DEVICE_CLASS, device_class("backing", extendedResourceName=RESOURCE))
    await devices.offer("a", "gpu-0")
    document = pod("p")
    document["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    async with running_scheduler(proxy.access):
        fault = proxy.inject("POST", "/pods/p/binding$", status=403)
        await cluster.create(document)
        await runs(cluster, "p")
    assert fault.hits == 1
    await cluster.witness.until(lambda: len(devices.all) == 1)
    [made] = devices.all
    assert (given(made), users(made)) == (["a/gpu-0"], ["p"])
    told = cluster.witness.pods["default/p"]["status"]["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == made.metadata.name
    assert len(devices.users_seen) == 2


async def test_a_claim_that_vanishes_after_the_decision(cluster, devices, proxy):
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM, claim("c"))
    async with running_scheduler(proxy.access):
        proxy.inject("PUT", FINALIZER.format("c"), delay=0.3)
        await cluster.create(claiming("p", "c"))
        await proxy.arrival("PUT", FINALIZER.format("c"))
        await cluster.client.delete(RESOURCE_CLAIM, "c", "default")
        problem = 'add finalizer to claim default/c: resourceclaims.resource.k8s.io "c" not found'
        await waits(cluster, "p", problem, "SchedulerError")
        await devices.create(RESOURCE_CLAIM, claim("c"))
        await runs(cluster, "p")
    check_invariants(cluster.witness, NAME)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param("device.nothing", "CEL compile error", id="does not compile"),
        pytest.param(f"device.attributes['{DRIVER}'].memory == 'x'", "CEL runtime error", id="fails when it is run"),
    ],
)
async def test_an_expression_that_is_wrong(cluster, devices, backend, expression, problem):
    if backend is not None and "compile" in problem:
        pytest.skip("a kube-apiserver refuses such a claim")
    await devices.offer("a", "gpu-0")
    await devices.create(RESOURCE_CLAIM, claim("c", expression))

    def told():
        condition = condition_of(cluster.witness.pods["default/p"]) or {}
        assert condition.get("reason") == "SchedulerError"
        return f"claim default/c: selector #0: {problem}: " in condition["message"]

    async with running_scheduler(cluster.access):
        await cluster.create(claiming("p", "c"))
        await cluster.witness.until(told)


@pytest.mark.parametrize(
    ("healthy", "message"),
    [
        pytest.param([], f"{ONE_INVALID} {STILL_NOT.format(2)}", id="nowhere else"),
        pytest.param(["gpu-0"], "", id="another node has one that is in order"),
    ],
)
async def test_a_pool_whose_slices_disagree(cluster, devices, healthy, message):
    await devices.offer("a", "gpu-0", name="one", count=2)
    await devices.slice("a", "gpu-0", name="two", count=2)
    await devices.offer("b", *healthy)
    await devices.create(RESOURCE_CLAIM, claim("c"))
    async with running_scheduler(cluster.access):
        await cluster.create(claiming("p", "c"))
        if message:
            await waits(cluster, "p", message)
            await cluster.client.delete(RESOURCE_SLICE, "two")
            await cluster.client.patch(RESOURCE_SLICE, "one", {"spec": {"pool": {"resourceSliceCount": 1}}})
        await runs(cluster, "p", "a" if message else "b")


async def test_a_claim_for_extended_resources_that_a_scheduler_left_behind_is_replaced(cluster, devices):
    await devices.create(DEVICE_CLASS, device_class("backing", extendedResourceName=RESOURCE))
    await devices.offer("a", "gpu-0")
    document = pod("p")
    document["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    await cluster.create(document)
    uid = cluster.witness.pods["default/p"]["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    left = claim("left")
    left["metadata"] |= {"ownerReferences": [owner], "annotations": marked}
    await devices.create(RESOURCE_CLAIM, left)
    async with running_scheduler(cluster.access):
        await runs(cluster, "p")
    await cluster.witness.until(lambda: len(devices.all) == 1)
    [made] = devices.all
    assert made.metadata.name != "left"
    assert (given(made), users(made)) == (["a/gpu-0"], ["p"])
    check_invariants(cluster.witness, NAME)


async def test_what_is_being_given_back_is_given_back_before_the_scheduler_ends(cluster, devices, proxy):
    await devices.offer("a", "gpu-0", "gpu-1")
    for name in ("one", "two"):
        await devices.create(RESOURCE_CLAIM, claim(name))
    async with running_scheduler(proxy.access):
        proxy.inject("PUT", STATUS.format("one"))  # the allocation goes through,
        proxy.inject("PUT", STATUS.format("one"), delay=0.5)  # and what undoes it takes its time
        proxy.inject("PUT", STATUS.format("two"), status=403, times=None)
        await cluster.create(claiming("p", "one", "two"))
        await proxy.arrival("PUT", STATUS.format("one"), count=2)
        assert users(devices.one("one")) == ["p"]
    await cluster.witness.until(lambda: not users(devices.one("one")))


async def test_a_new_attempt_waits_for_what_the_last_one_gives_back(cluster, devices, proxy):
    await devices.offer("a", "gpu-0", "gpu-1")
    for name in ("one", "two"):
        await devices.create(RESOURCE_CLAIM, claim(name))
    async with running_scheduler(proxy.access):
        proxy.inject("PUT", STATUS.format("one"))
        proxy.inject("PUT", STATUS.format("one"), delay=0.5)
        proxy.inject("PUT", STATUS.format("two"), status=403)
        await cluster.create(claiming("p", "one", "two"))
        await runs(cluster, "p")
    # Allocated and reserved, given back, and reserved again: by the scheduler, before it binds the pod.
    assert proxy.count("PUT", STATUS.format("one")) == 3
    assert [users(devices.one(name)) for name in ("one", "two")] == [["p"], ["p"]]
    check_invariants(cluster.witness, NAME)
