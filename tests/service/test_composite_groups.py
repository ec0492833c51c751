"""CompositePodGroups of Kubernetes 1.37 in a complete scheduler: a tree of groups is placed in one attempt."""

import pytest
from tests.support.tables import cases

from bayplan.core.api.kinds import COMPOSITE_POD_GROUP, POD_GROUP

GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
pytestmark = pytest.mark.scheduler(version="1.37", gates=GATES)


async def job(here, *, driver=1, workers=2, least=2):
    """A driver and workers in one tree, as many pods as they need."""
    await here.add_composite("job", least)
    await here.add_group("driver", driver, parent="job", pods=[f"d-{number}" for number in range(driver)])
    await here.add_group("workers", workers, parent="job", pods=[f"w-{number}" for number in range(workers)])
    await here.settle()


async def test_all_groups_are_placed_together_or_none(here):
    await here.add_node("a")
    await job(here)
    assert here.nodes() == {}
    lacking = (
        "gang job: 1 of 2 groups fit; the next one: gang workers: 1 of 2 members fit; the next one: 0/1 nodes are "
        "available: 1 Insufficient cpu."
    )
    assert {text.partition(" pod group preemption")[0] for text in here.reasons().values()} == {lacking}
    await here.add_node("b")
    await here.settle()
    assert set(here.nodes()) == {"d-0", "w-0", "w-1"}
    here.nothing_is_held()


async def test_conditions_say_for_each_group_why_it_is_not_placed(here):
    """A group that fits in one that doesn't is not placed, for the reason of that one."""
    await here.add_node("a")
    await job(here)
    of_job = await here.condition("job", COMPOSITE_POD_GROUP)
    assert of_job[0] == "Unschedulable"
    assert await here.condition("driver") == of_job
    reason, message = await here.condition("workers")
    assert (reason, message.partition(":")[0]) == ("Unschedulable", "gang workers")
    await here.add_node("b")
    await here.settle()
    root = await here.client.get(COMPOSITE_POD_GROUP, "job", "default")
    assert [each.type for each in root.status.conditions] == ["CompositePodGroupInitiallyScheduled"]
    groups = [await here.condition(name) for name in ("driver", "workers")]
    assert {("Scheduled", ""), await here.condition("job", COMPOSITE_POD_GROUP), *groups} == {("Scheduled", "")}


@cases("least, placed", {"gang of two": (2, set()), "one is enough": (1, {"d-0"}), "basic": (None, {"d-0"})})
async def test_policies_of_the_group_above(here, least, placed):
    await here.add_node("a")
    await job(here, least=least)
    assert set(here.nodes()) == placed


async def test_a_group_that_does_not_fit_takes_no_room(here):
    """The first group has room for one of its two pods, which the second group needs."""
    await here.add_node("a", cpu="1")
    await here.add_composite("job", 1)
    await here.add_group("big", 2, parent="job", pods=["b-0", "b-1"])
    await here.add_group("small", 1, parent="job", pods=["s-0"])
    await here.settle()
    assert set(here.nodes()) == {"s-0"}
    assert "; the next one: gang big: 0 of 2 members fit" in here.reasons()["b-0"]


async def test_pods_wait_until_enough_groups_have_their_pods(here):
    await here.add_node("a", cpu="8")
    await here.add_composite("job", 2)
    await here.add_group("driver", 1, parent="job", pods=["d-0"])
    await here.add_group("workers", 2, parent="job", pods=["w-0"])
    await here.settle()
    assert here.nodes() == {}
    quorum = 'waiting for composite pod group "job" tree to meet quorum'
    assert {here.scheduler.queue.get(pod.uid).message for pod in pods(here)} == {quorum}
    await here.add("w-1", of="workers")
    await here.settle()
    assert set(here.nodes()) == {"d-0", "w-0", "w-1"}


def pods(here):
    return [queued.pod for queued in here.scheduler.queue]


ORDERS = {
    "groups last": ["pods", "leaf", "middle", "root"],
    "root last": ["leaf", "pods", "middle", "root"],
    "leaf last": ["root", "middle", "pods", "leaf"],
    "middle last": ["root", "pods", "leaf", "middle"],
}


@cases("order", ORDERS)
async def test_objects_may_come_in_any_order(here, order):
    await here.add_node("a", cpu="8")
    await here.add_group("other", 1, pods=["other-0"])
    steps = {
        "pods": lambda: here.add("one", "two", of="leaf"),
        "leaf": lambda: here.add_group("leaf", 2, parent="middle"),
        "middle": lambda: here.add_composite("middle", 1, parent="root"),
        "root": lambda: here.add_composite("root", 1),
    }
    for step in order:
        assert "one" not in here.nodes()
        await steps[step]()
        await here.settle()
    assert set(here.nodes()) == {"one", "two", "other-0"}


TREES = {
    "unknown group above": ({}, 'waiting for composite pod group "c0" to appear in scheduling queue'),
    "cycle": (
        {"c0": "c1", "c1": "c0"},
        "composite pod groups are above themselves: leaf -> c0 -> c1 -> c0",
    ),
    "five levels": (
        {"c0": "c1", "c1": "c2", "c2": "c3", "c3": None},
        "pod groups are more than 4 levels deep: leaf -> c0 -> c1 -> c2 -> c3",
    ),
}


@cases("above, message", TREES)
async def test_a_tree_that_is_none_costs_its_own_pods_only(here, above, message):
    await here.add_node("a", cpu="8")
    for name, parent in above.items():
        await here.add_composite(name, 1, parent=parent)
    await here.add_group("leaf", 1, parent="c0", pods=["lost"])
    await job(here)
    assert set(here.nodes()) == {"d-0", "w-0", "w-1"}
    [lost] = pods(here)
    assert here.scheduler.queue.get(lost.uid).message == message


async def test_four_levels_are_placed(here):
    await here.add_node("a")
    for name, parent in (("c2", None), ("c1", "c2"), ("c0", "c1")):
        await here.add_composite(name, 1, parent=parent)
    await here.attempt_group("leaf", 1, parent="c0", pods=["deep"])
    assert here.nodes() == {"deep": "a"}


async def racks(here, **rooms):
    """Nodes by name, the first letter of which is the block, and the first two the rack."""
    for name, cpu in rooms.items():
        await here.add_node(name, cpu=str(cpu), block=name[0], rack=name[:2])


async def test_topology_constraints_apply_from_the_top_down(here):
    """The example of KEP 6012: block a has 3 and 5 free places in its racks, block b 5 and 5."""
    await racks(here, a1=3, a2=5, b1=5, b2=5)
    await here.add_composite("root", 2, "block")
    for name in ("one", "two"):
        await here.add_group(name, 5, "rack", parent="root", pods=[f"{name}-{number}" for number in range(5)])
    await here.settle()
    nodes = here.nodes()
    assert len(nodes) == 10
    assert {frozenset(nodes[f"{name}-{n}"] for n in range(5)) for name in ("one", "two")} == {
        frozenset({"b1"}),
        frozenset({"b2"}),
    }


async def test_the_message_names_the_level_and_the_domain_that_fit_best(here):
    await racks(here, a1=1, b1=2, b2=1)
    await here.add_composite("root", 2, "block")
    for name in ("one", "two"):
        await here.add_group(name, 2, "rack", parent="root", pods=[f"{name}-{number}" for number in range(2)])
    await here.settle()
    assert here.nodes() == {}
    _, message = await here.condition("root", COMPOSITE_POD_GROUP)
    assert message.startswith(
        "gang root: 1 of 2 groups fit in b, the best of 2 placements; the next one: gang two: 1 of 2 members fit in "
        "b2, the best of 2 placements; the next one: 0/1 nodes are available: 1 Insufficient cpu."
    )


async def test_pods_that_come_later_stay_in_the_domain_of_the_tree(here):
    await racks(here, a1=2, b1=8)
    await here.add_composite("root", 1, "block")
    await here.add_group("one", 1, parent="root", pods=["one-0", "one-1"])
    await here.settle()
    [block] = {node[0] for node in here.nodes().values()}
    await here.add_group("two", 1, parent="root", pods=["two-0"])
    await here.settle()
    assert {node[0] for node in here.nodes().values()} == {block}
    assert ("two-0" in here.nodes()) is (block == "b")


async def test_a_tree_preempts_as_a_whole_with_the_priority_of_its_root(here):
    await here.add_node("a")
    await here.attempt("low-1", "low-2")
    await here.add_composite("job", 2, priority=10)
    await here.add_group("driver", 1, parent="job", priority=10, pods=["d-0"])
    await here.add_group("worker", 1, parent="job", priority=10, pods=["w-0"])
    await here.settle()
    assert here.evicted() == {"low-1", "low-2"}
    assert set(here.nodes()) == {"d-0", "w-0"}


MODES = {
    "each pod by itself": ({}, {}, 1),
    "the pods of a group": ({}, {"all": {}}, 2),
    "the whole tree": ({"all": {}}, {"all": {}}, 3),
}


@cases("of_root, of_groups, evicted", MODES)
async def test_victims_in_a_tree_are_evicted_as_the_highest_mode_says(here, of_root, of_groups, evicted):
    await here.add_node("a", cpu="3")
    mode = lambda each: {"disruptionMode": each} if each else {}  # noqa: E731
    await here.add_composite("low", 1, **mode(of_root))
    await here.add_group("low-pair", 2, parent="low", pods=["p-0", "p-1"], **mode(of_groups))
    await here.add_group("low-one", 1, parent="low", pods=["p-2"], **mode(of_groups))
    await here.settle()
    assert len(here.nodes()) == 3
    await here.add_composite("vip", 1, priority=10)
    cpu = {"cpu": "2"} if evicted == 2 else {}
    await here.add_group("vip-group", 1, parent="vip", priority=10)
    await here.attempt("v-0", of="vip-group", priority=10, **cpu)
    assert len(here.evicted()) == evicted
    assert here.nodes()["v-0"] == "a"


async def test_the_pods_of_a_tree_have_the_priority_of_its_root(here):
    await here.add_node("a")
    await here.add_composite("job", 1, priority=10)
    await here.add_group("driver", 1, parent="job", priority=5)
    await here.attempt("d-0", of="driver", priority=5)
    problem = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 10"
    assert here.reasons() == {"d-0": problem}
    assert await here.condition("job", COMPOSITE_POD_GROUP) == ("SchedulerError", problem)
    assert await here.condition("driver") == ("SchedulerError", problem)


async def test_a_tree_is_one_entry_of_the_queue(here):
    await job(here)
    entries = here.scheduler.queue.entries()
    assert [(kind, number) for (_, kind), number in entries.items()] == [("podgroup", 1)]


async def test_the_rest_of_a_placed_tree_is_tried_again(here):
    await here.add_node("a")
    await job(here, least=1)
    assert set(here.nodes()) == {"d-0"}
    await here.add_node("b", cpu="1")
    await here.settle()
    assert set(here.nodes()) == {"d-0", "w-0", "w-1"}


@pytest.mark.scheduler(version="1.37", gates=("GenericWorkload", "TopologyAwareWorkloadScheduling"))
async def test_without_the_gate_each_group_is_placed_on_its_own(here):
    await here.add_node("a")
    await here.add_group("driver", 1, pods=["d-0"])
    await here.add_group("workers", 2, pods=["w-0", "w-1"])
    await here.settle()
    assert set(here.nodes()) == {"d-0"}
    assert await here.condition("driver") == ("Scheduled", "")
    assert (await here.client.get(POD_GROUP, "workers", "default")).status.conditions[0].reason == "Unschedulable"
