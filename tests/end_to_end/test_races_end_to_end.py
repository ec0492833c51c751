"""Other clients change a pod or a node between the decision and the binding."""

import asyncio

import pytest
from running import running_scheduler
from tests.support.invariants import waiting_or_bound
from workloads import NAME, pod, pods

from bayplan.core.api.kinds import NODE
from bayplan.core.framework.interface import Plugin

pytestmark = pytest.mark.usefixtures("invariants")


class Barrier(Plugin):
    """Delays pods between decision and binding until `open` is set."""

    name = "Barrier"

    def __init__(self):
        self.open = asyncio.Event()
        self.held = {}

    async def pre_bind(self, cycle, pod, node_name):
        self.held[pod.name] = node_name
        await self.open.wait()


@pytest.fixture
def barrier():
    return Barrier()


async def test_pod_is_deleted_before_binding(cluster, barrier):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access, barrier):
        await cluster.create(pod("gone", "800m"), pod("next", "800m"))
        await cluster.observer.until(lambda: barrier.held == {"gone": "a"})
        await cluster.observer.until(lambda: cluster.observer.events_of("default/next", "FailedScheduling"))
        await cluster.delete("gone")
        barrier.open.set()
        await cluster.observer.until(lambda: cluster.observer.node_of("default/next"))
    assert "default/gone" not in cluster.observer.pods
    assert not cluster.observer.events_of("default/gone", "Scheduled")


async def test_pod_is_recreated_before_binding(cluster, barrier):
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access, barrier):
        await cluster.create(pod("same", "800m"))
        await cluster.observer.until(lambda: barrier.held == {"same": "a"})
        await cluster.delete("same")
        await cluster.create(pod("same", "900m"))
        barrier.open.set()
        await cluster.observer.until(lambda: cluster.observer.node_of("default/same"))
        (event,) = await cluster.observer.until(lambda: cluster.observer.events_of("default/same", "Scheduled"))
    assert event["regarding"]["uid"] == cluster.observer.pods["default/same"]["metadata"]["uid"]


async def test_pod_is_bound_by_another_client_before_binding(cluster, barrier):
    cluster.foreign = {"default/taken"}
    await cluster.add_node("a", cpu="1")
    async with running_scheduler(cluster.access, barrier):
        await cluster.create(pod("taken", "800m"))
        await cluster.observer.until(lambda: barrier.held == {"taken": "a"})
        await cluster.add_node("b", cpu="1")
        await cluster.client.bind("default", "taken", "b")
        barrier.open.set()
        await cluster.create(pod("next", "800m"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/next"))
    assert cluster.observer.node_of("default/taken") == "b"
    assert cluster.observer.node_of("default/next") == "a"
    assert not cluster.observer.events_of("default/taken")


async def test_node_is_deleted_before_binding(cluster, barrier):
    await cluster.add_node("a")
    async with running_scheduler(cluster.access, barrier) as scheduler:
        await cluster.create(pod("late"))
        await cluster.observer.until(lambda: barrier.held == {"late": "a"})
        await cluster.client.delete(NODE, "a")
        await cluster.observer.until(lambda: scheduler.state.table.live_count == 0)
        barrier.open.set()
        # The API server binds a pod to any name; the pod garbage collector then deletes it.
        await cluster.observer.until(
            lambda: cluster.observer.versions("default/late")[-1]["spec"].get("nodeName") == "a"
        )
        await cluster.add_node("b")
        await cluster.create(*pods("p", 5))
        await cluster.observer.until(
            lambda: all(cluster.observer.node_of(f"default/p-000{n}") == "b" for n in range(5))
        )


async def test_node_is_deleted_with_its_pods_and_recreated_smaller(cluster):
    await cluster.add_node("a", cpu="2")
    async with running_scheduler(cluster.access):
        await cluster.create(*pods("first", 4, "500m"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        await cluster.client.delete(NODE, "a")
        for number in range(4):
            await cluster.delete(f"first-{number:04d}")
        await cluster.create(*pods("second", 4, "500m"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))
        assert (await cluster.condition("second-0000"))["message"] == "no nodes available to schedule pods"
        await cluster.add_node("a", cpu="1")
        await cluster.observer.until(
            lambda: (
                waiting_or_bound(cluster.observer, NAME)
                and sum(bool(one["spec"].get("nodeName")) for one in cluster.observer.pods.values()) == 2
            )
        )


async def test_two_schedulers_with_one_name_bind_every_pod_once(cluster):
    cluster.schedulers = 2
    await cluster.add_nodes(5)
    async with running_scheduler(cluster.access) as one, running_scheduler(cluster.access) as other:
        for wave in range(3):
            await cluster.create_fast(pods(f"wave-{wave}", 30))
            await cluster.observer.until(
                lambda: (
                    waiting_or_bound(cluster.observer, NAME)
                    and all(pod["spec"].get("nodeName") for pod in cluster.observer.pods.values())
                )
            )
    assert one.decisions > 0
    assert other.decisions > 0
