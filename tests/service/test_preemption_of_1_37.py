"""Preemption as Kubernetes 1.37 has it, in a complete scheduler, on an in-memory API server."""

import pytest

from bayplan.core.api.kinds import POD

pytestmark = pytest.mark.scheduler(version="1.37", gates=("GenericWorkload",))
LOW = ("low-1", "low-2", "low-3", "low-4")


async def test_a_single_pod_evicts_a_group_from_all_its_nodes(here):
    await here.add_node("a")
    await here.add_node("b")
    await here.add_group("low", 1, disruptionMode={"all": {}})
    await here.attempt(*LOW, of="low")
    assert set(here.nodes().values()) == {"a", "b"}
    await here.attempt("vip", priority=10)
    assert here.evicted() == set(LOW)
    assert here.nodes()["vip"] in {"a", "b"}


async def test_the_condition_says_where_room_is_made(here):
    await here.add_node("a")
    await here.attempt("low-1", "low-2")
    await here.client.patch(POD, "low-1", {"metadata": {"finalizers": ["example.com/stay"]}}, "default")
    await here.client.patch(POD, "low-2", {"metadata": {"finalizers": ["example.com/stay"]}}, "default")
    await here.attempt("vip", priority=10)
    vip = await here.client.get(POD, "vip", "default")
    [condition] = [each for each in vip.status.conditions if each.type == "PodScheduled"]
    assert condition.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, "
        "preempting 1 victims"
    )
