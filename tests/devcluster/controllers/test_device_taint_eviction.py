"""Pods whose devices are tainted: when they are evicted, and what rules say of it. The values are those of upstream."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import CORE_EVENT, DEVICE_TAINT_RULE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.api.times import rfc3339
from bayplan_devcluster.controllers.device_taint_eviction import CONDITION

DRIVER, POOL = "gpu.example.com", "node-0"
NO_EXECUTE = {"key": "broken", "value": "yes", "effect": "NoExecute"}
NO_SCHEDULE = {**NO_EXECUTE, "effect": "NoSchedule"}


pytestmark = pytest.mark.parametrize("world", ["1.37"], indirect=True)


@pytest.fixture(autouse=True)
def _watched(world):
    """Pods have their nodes already, and the tests watch devices."""
    world.binding = False
    world.views |= {kind: world.cluster.informers.of(kind) for kind in (DEVICE_TAINT_RULE, RESOURCE_SLICE)}


def tolerating(seconds: int | None = None, **fields: Any) -> dict[str, Any]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": "broken", "operator": "Exists", "effect": "NoExecute", **limit, **fields}


async def add_slice(world, taints=(), *, devices=("a", "b"), generation=1, name="s") -> None:
    """A slice whose device `a` has these taints."""
    tainted = [{"name": each, **({"taints": list(taints)} if each == "a" and taints else {})} for each in devices]
    pool = {"name": POOL, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "node-0", "pool": pool, "devices": tainted}
    await world.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})


async def taint(world, *taints) -> None:
    """Change the taints of device `a`."""
    devices = [{"name": "a", "taints": [*taints]}, {"name": "b"}]
    written = await world.client.patch(RESOURCE_SLICE, "s", {"spec": {"devices": devices}}, type=PatchType.MERGE)
    await world.views[RESOURCE_SLICE].observe([written])


async def add_rule(world, effect="NoExecute", name="rule", **selector: str) -> None:
    spec = {"deviceSelector": selector, "taint": {**NO_EXECUTE, "effect": effect}}
    await world.create(DEVICE_TAINT_RULE, {"metadata": {"name": name}, "spec": spec})


async def add_pod(world, name="p", device="a", *tolerations, claim=None, node="node-0") -> None:
    """A running pod whose claim has a device; `claim`: one that is there already."""
    of = claim or f"claim-{name}"
    if claim is None:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        document = {"metadata": {"name": of, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}
        await world.create(RESOURCE_CLAIM, document)
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "r", "resourceClaimName": of}]}
    spec |= {"nodeName": node, "terminationGracePeriodSeconds": 0}
    pod = await world.create(POD, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    known = world.one(RESOURCE_CLAIM, of).status
    users = [{"resource": "pods", "name": each.name, "uid": each.uid} for each in (known and known.reservedFor) or ()]
    result = {"request": "r", "driver": DRIVER, "pool": POOL, "device": device, "tolerations": [*tolerations]}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [*users, {"resource": "pods", "name": name, "uid": pod.metadata.uid}],
    }
    written = await world.client.patch(
        RESOURCE_CLAIM, of, {"status": status}, "default", type=PatchType.MERGE, subresource="status"
    )
    await world.views[RESOURCE_CLAIM].observe([written])


def is_there(world, name="p") -> bool:
    pod = world.one(POD, name)
    return pod is not None and pod.metadata.deletionTimestamp is None


async def condition(world, name="rule"):
    """Status, reason and message of the condition of a rule, once it has one."""

    def conditions():
        rule = world.one(DEVICE_TAINT_RULE, name)
        return rule is not None and rule.status is not None and rule.status.conditions

    (found,) = (each for each in await world.until(conditions) if each.type == CONDITION)
    return found.status, found.reason, found.message


TAINTS = {
    "no taint": ([], [], None),
    "not tolerated": ([NO_EXECUTE], [], 0),
    "another effect": ([NO_SCHEDULE], [], None),
    "tolerated": ([NO_EXECUTE], [tolerating()], None),
    "tolerated by all fields": ([NO_EXECUTE], [tolerating(operator="Equal", value="yes")], None),
    "another value": ([NO_EXECUTE], [tolerating(operator="Equal", value="no")], 0),
    "another key": ([NO_EXECUTE], [tolerating(key="other")], 0),
    "tolerated without an effect": ([NO_EXECUTE], [{"key": "broken", "operator": "Exists"}], 0),
    "tolerated for a time": ([NO_EXECUTE], [tolerating(20)], 20),
    "less than no time": ([NO_EXECUTE], [tolerating(-5)], 0),
    "the shortest time counts": ([NO_EXECUTE], [tolerating(30), tolerating(10)], 10),
    "for a time and for ever": ([NO_EXECUTE], [tolerating(10), tolerating()], None),
    "one of two taints": ([NO_EXECUTE, {**NO_EXECUTE, "key": "other"}], [tolerating()], 0),
    "two taints, for a time each": (
        [NO_EXECUTE, {**NO_EXECUTE, "key": "other"}],
        [tolerating(30), tolerating(15, key="other")],
        15,
    ),
}


@cases("taints, tolerations, seconds", TAINTS)
async def test_when_a_pod_is_evicted(world, taints, tolerations, seconds):
    await add_slice(world, taints)
    await add_pod(world, "p", "a", *tolerations)
    await add_pod(world, "other", "b")
    if seconds:
        await world.settle(seconds - 2)
        assert is_there(world)
        await world.settle(4)
    else:
        await world.settle(40)
    assert is_there(world) == (seconds is None)
    assert is_there(world, "other")


async def test_a_taint_of_a_slice_counts_from_its_time(world):
    added = rfc3339(world.clock.now() - timedelta(seconds=15))
    await add_slice(world, [{**NO_EXECUTE, "timeAdded": added}])
    await add_pod(world, "p", "a", tolerating(20))
    await world.settle(3)
    assert is_there(world)
    await world.until(lambda: not is_there(world), step=1.0)


async def test_a_pod_is_told_why_it_is_deleted(world):
    await add_slice(world, [NO_EXECUTE])
    await add_pod(world)
    await world.until(lambda: not is_there(world), step=1.0)
    await world.settle(2)
    notes = [(each.reason, each.message) for each in (await world.client.list(CORE_EVENT)).items]
    assert ("DeviceTaintManagerEviction", "Marking for deletion") in notes


async def test_a_taint_that_goes_in_time_cancels_the_eviction(world):
    await add_slice(world, [NO_EXECUTE])
    await add_pod(world, "p", "a", tolerating(20))
    await world.settle(5)
    await taint(world)
    await world.settle(40)
    assert is_there(world)
    notes = [each.message for each in (await world.client.list(CORE_EVENT)).items]
    assert "Cancelling deletion" in notes


async def test_outdated_slices_of_a_pool_do_not_count(world):
    await add_slice(world, [NO_EXECUTE])
    await add_slice(world, generation=2, name="newer")
    await add_pod(world)
    await world.settle(10)
    assert is_there(world)


async def test_all_pods_that_share_a_claim_are_evicted_and_no_others(world):
    await add_slice(world)
    await add_pod(world, "first")
    await add_pod(world, "second", claim="claim-first")
    await add_pod(world, "other", "b")
    await taint(world, NO_EXECUTE)
    await world.until(lambda: not is_there(world, "first") and not is_there(world, "second"), step=1.0)
    assert is_there(world, "other")


SELECTORS = {
    "any device": ({}, True),
    "the driver": ({"driver": DRIVER}, True),
    "driver, pool and device": ({"driver": DRIVER, "pool": POOL, "device": "a"}, True),
    "another driver": ({"driver": "other.example.com"}, False),
    "another pool": ({"driver": DRIVER, "pool": "node-1"}, False),
    "another device": ({"driver": DRIVER, "pool": POOL, "device": "b"}, False),
}


@cases("selector, evicts", SELECTORS)
async def test_a_rule_evicts_the_pods_of_the_devices_that_it_selects(world, selector, evicts):
    await add_slice(world)
    await add_pod(world)
    await add_rule(world, **selector)
    await world.settle(15)
    assert is_there(world) == (not evicts)
    expected = ("Completed", "1 pod evicted since starting the controller.") if evicts else ("NotStarted", "")
    assert await condition(world) == ("False", *expected)


async def test_a_rule_says_how_many_pods_it_will_evict(world):
    await add_slice(world)
    await add_pod(world, "p", "a", tolerating(30))
    await add_pod(world, "q", "b", tolerating(30))
    await add_rule(world)
    assert await condition(world) == ("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
    await world.settle(60)
    done = "2 pods evicted since starting the controller."
    assert await condition(world) == ("False", "Completed", done)


async def test_a_rule_that_goes_in_time_evicts_nothing(world):
    await add_slice(world)
    await add_pod(world, "p", "a", tolerating(30))
    await add_rule(world)
    await world.settle(5)
    await world.client.delete(DEVICE_TAINT_RULE, "rule")
    await world.settle(60)
    assert is_there(world)


NO_EFFECT = (
    "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect "
    "was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
)
EFFECTS = {
    "NoSchedule": ("OtherEffect", "Eviction only happens for the NoExecute effect."),
    "None": ("NoEffect", NO_EFFECT),
}


@cases("effect, reason, message", {name: (name, *values) for name, values in EFFECTS.items()})
async def test_a_rule_with_another_effect_evicts_nothing(world, effect, reason, message):
    await add_slice(world)
    await add_pod(world)
    await add_rule(world, effect)
    assert await condition(world) == ("False", reason, message)
    await world.settle(20)
    assert is_there(world)
