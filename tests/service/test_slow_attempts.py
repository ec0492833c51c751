"""While the attempt of a pod takes long, pods of lower priority don't take what it would get, and don't wait either."""

import asyncio

import pytest
from tests.support.slow_selectors import slow_selectors
from tests.support.tables import cases

from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.executor.giving_way import LONGEST_AHEAD, LONGEST_REST

pytestmark = pytest.mark.feature("attempts that take long give way")

HOSTNAME, DRIVER = "kubernetes.io/hostname", "drv.example.com"
INDEX = f"device.attributes['{DRIVER}'].index"


@pytest.fixture
async def gpus(here):
    """A class of devices, and a node that will have them."""
    await here.add_node("node-0", "8", **{HOSTNAME: "node-0"})
    spec = {"selectors": [{"cel": {"expression": f"{INDEX} >= 0"}}]}
    await here.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": spec})


@pytest.fixture(params=[0.06, 0.3, 2.0], ids=lambda seconds: f"{seconds} s a device")
async def cluster(here, gpus, request):
    """Each device takes the time of the parameter to be found."""
    with slow_selectors(asyncio.get_running_loop(), request.param):
        yield here


async def claiming(here, name, priority, least=0, **spec):
    """Create a pod with a claim for a device, with an index of at least a number."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    exactly["selectors"] = [{"cel": {"expression": f"{INDEX} >= {least}"}}]
    document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    await here.create(RESOURCE_CLAIM, document)
    claims = [{"name": "d", "resourceClaimName": name}]
    await here.add(name, cpu="1", priority=priority, resourceClaims=claims, **spec)


async def add_devices(here, number):
    devices = [{"name": f"d{at}", "attributes": {"index": {"int": at}}} for at in range(number)]
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "node-0", "pool": pool, "devices": devices}
    await here.create(RESOURCE_SLICE, {"metadata": {"name": "node-0"}, "spec": spec})


@pytest.mark.parametrize("devices", [1, 2])
async def test_pod_of_lower_priority_does_not_get_the_device(cluster, devices):
    for name, priority in {"low": 0, "middle": 10, "high": 1000}.items():
        await claiming(cluster, name, priority)
    await cluster.settle()
    await add_devices(cluster, devices)
    await cluster.settle()
    assert set(cluster.nodes()) == {"high", "middle"} if devices == 2 else {"high"}


async def test_pod_that_came_first_gets_the_device(here, gpus):
    """Of equal priorities, within the time that later pods wait."""
    with slow_selectors(asyncio.get_running_loop(), LONGEST_AHEAD / 4):
        await add_devices(here, 1)
        for name in ("first", "second"):
            await claiming(here, name, 0)
        await here.settle()
    assert set(here.nodes()) == {"first"}


ROOM = {
    "on a node with room for both": {"cpu": "1"},
    "on another node": {"cpu": "4", "nodeSelector": {HOSTNAME: "node-1"}},
}


@cases("spec", ROOM)
async def test_pods_that_take_nothing_of_it_wait_for_a_moment_only(here, gpus, spec):
    """An attempt of 8 seconds doesn't let them wait, whatever their priorities."""
    loop = asyncio.get_running_loop()
    with slow_selectors(loop, 0.2):
        await add_devices(here, 40)
        await here.add_node("node-1", "4", **{HOSTNAME: "node-1"})
        await claiming(here, "high", 1000, least=100, nodeSelector={HOSTNAME: "node-0"})
        began = loop.time()
        await here.add("plain", **spec)
        await asyncio.sleep(LONGEST_AHEAD + 2 * 0.2 + LONGEST_REST)
        assert "plain" in here.nodes()
        assert loop.time() - began < 2.0
        assert "high" not in here.reasons(), "its attempt goes on"
        await here.settle()


async def test_pod_of_lower_priority_does_not_take_the_room(cluster):
    """The node has room for one of them only."""
    await add_devices(cluster, 4)
    await cluster.attempt("other", cpu="6500m")
    await claiming(cluster, "high", 1000)
    await cluster.add("low", cpu="1")
    await cluster.settle()
    assert set(cluster.nodes()) == {"other", "high"}
    assert not cluster.evicted()
