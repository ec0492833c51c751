"""How PodGroups are attempted and preempt in Kubernetes 1.37, in a complete scheduler, on an in-memory API server."""

import pytest

from bayplan.core.api.kinds import POD
from bayplan.core.framework.interface import Plugin
from bayplan_devcluster.apiserver.faults import Fault

pytestmark = pytest.mark.scheduler(version="1.37", gates=("GenericWorkload",))

OF_1_36 = pytest.mark.scheduler(version="1.36", gates=("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"))
FULL = "0/1 nodes are available: 1 Insufficient cpu."


async def evicted(here):
    """Who is evicted for a pod that prefers node a, where a more important pod is than on node b."""
    await here.add_node("a", cpu="4", big="yes")
    await here.add_node("b", cpu="2", big="no")
    await here.add("on-a", cpu="3", priority=5, nodeSelector={"big": "yes"})
    await here.attempt("on-b", cpu="1", priority=1, nodeSelector={"big": "no"})
    await here.add_group("vip", 1, priority=10)
    await here.attempt("vip-1", of="vip", cpu="2", priority=10)
    return here.evicted()


async def test_the_pods_of_a_group_keep_the_nodes_that_they_have_without_victims(here):
    """#139980: without both pods, the group is placed on the larger node."""
    assert await evicted(here) == {"on-a"}
    assert here.nodes()["vip-1"] == "a"


@OF_1_36
async def test_a_group_of_1_36_spares_the_more_important_pod(here):
    assert await evicted(here) == {"on-b"}
    assert here.nodes()["vip-1"] == "b"


async def test_a_pod_without_which_its_group_would_fit_is_evicted_with_no_other(here):
    """All pods of the group have to fit: two of three victims on different nodes are spared."""
    for name in "abc":
        await here.add_node(name, cpu="2", rack=name)
        await here.add(f"on-{name}", cpu="1", nodeSelector={"rack": name})
    await here.settle()
    await here.add_group("vip", 3, priority=10)
    await here.add("vip-1", "vip-2", cpu="1", of="vip", priority=10)
    await here.attempt("vip-3", cpu="2", of="vip", priority=10)
    assert len(here.evicted()) == 1
    assert {"vip-1", "vip-2", "vip-3"} <= set(here.nodes())


async def test_the_condition_says_that_there_are_victims(here):
    """#140311"""
    await here.add_node("a")
    await here.attempt("low-1", "low-2")
    for name in ("low-1", "low-2"):
        await here.client.patch(POD, name, {"metadata": {"finalizers": ["example.com/stay"]}}, "default")
    await here.add_group("vip", 2, priority=10)
    await here.add("vip-1", "vip-2", of="vip", priority=10)
    await here.settle(0.5)
    short = f"gang vip: 0 of 2 members fit; the next one: {FULL} pod group preemption:"
    expected = ("Unschedulable", f"{short} found a placement for podgroup, preempting 2 victims")
    assert await here.condition("vip") == expected
    assert here.reasons() == dict.fromkeys(["vip-1", "vip-2"], expected[1])
    await here.client.patch(POD, "low-1", {"metadata": {"finalizers": None}}, "default")
    await here.settle()
    assert await here.condition("vip") == ("Unschedulable", f"{short} ongoing preemption on nominated nodes")
    pods = [await here.client.get(POD, name, "default") for name in ("vip-1", "vip-2")]
    assert [pod.status.nominatedNodeName for pod in pods] == ["a", "a"]


@pytest.mark.scheduler(gates=("GenericWorkload", "TopologyAwareWorkloadScheduling"))
async def test_a_group_with_a_topology_constraint_preempts(here):
    """#140683"""
    for rack in "ab":
        await here.add_node(f"{rack}1", cpu="1", rack=rack)
        await here.add_node(f"{rack}2", cpu="1", rack=rack)
    await here.attempt("low-1", "low-2", "low-3", "low-4", priority=-1)
    assert len(here.nodes()) == 4
    await here.add_group("vip", 2, topology="rack", priority=10)
    await here.attempt("vip-1", "vip-2", of="vip", priority=10)
    assert len(here.evicted()) == 2
    assert {here.nodes()["vip-1"], here.nodes()["vip-2"]} in ({"a1", "a2"}, {"b1", "b2"})


class Counter(Plugin):
    """Notes for which pods PostFilter runs."""

    name = "Counter"

    def __init__(self):
        self.asked = set()

    def post_filter(self, cycle, pod, diagnosis, what_if):
        self.asked.add(pod.name)


@pytest.mark.scheduler(plugins=[Counter])
async def test_no_pod_of_a_group_preempts_by_itself(here):
    """#140412: the group preempts if none of its pods fits."""
    await here.add_node("a", cpu="2")
    await here.attempt("low", priority=-1)
    await here.add_group("vip", 1, priority=10)
    await here.add("vip-1", "vip-2", of="vip", priority=10)
    await here.attempt("other", cpu="3")
    assert here.evicted() == {"low"}
    assert set(here.nodes()) == {"vip-1", "vip-2"}
    (counter,) = (each for each in here.scheduler.profiles["default-scheduler"].every() if each.name == "Counter")
    assert counter.asked == {"other"}


async def test_the_rest_of_a_placed_group_says_why_it_waits(here):
    await here.add_node("a", cpu="1")
    await here.add_group("crew", 1, pods=["one", "two"])
    await here.settle(0.5)
    assert set(here.nodes()) == {"one"}
    assert await here.condition("crew") == ("Scheduled", "")
    assert here.reasons() == {"two": FULL}
    await here.add_node("b", cpu="1")
    await here.settle()
    assert set(here.nodes()) == {"one", "two"}


@pytest.mark.scheduler(profiles=("default-scheduler", "other"))
async def test_pods_with_different_scheduler_names_are_not_scheduled(here):
    """#140183"""
    await here.add_node("a", cpu="4")
    await here.add_group("crew", 2, pods=["one"])
    await here.attempt("two", of="crew", by="other")
    problem = (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "other" and "default-scheduler"'
    )
    assert here.nodes() == {}
    assert here.reasons() == {"one": problem, "two": problem}
    assert await here.condition("crew") == ("SchedulerError", problem)


async def test_a_pod_that_another_scheduler_has_placed_keeps_its_group_from_being_scheduled(here):
    await here.add_node("a", cpu="4")
    await here.add_group("crew", 2)
    await here.add("theirs", of="crew", by="another-scheduler")
    await here.client.bind("default", "theirs", "a")
    await here.attempt("one", of="crew")
    assert set(here.nodes()) == {"theirs"}
    assert here.reasons()["one"].endswith('got: "another-scheduler" and "default-scheduler"')


async def test_a_pod_with_a_scheduling_gate_holds_its_group_back(here):
    await here.add_node("a", cpu="4")
    await here.add_group("crew", 2)
    await here.add("gated", of="crew", schedulingGates=[{"name": "example.com/wait"}])
    await here.attempt("one", "two", of="crew")
    assert here.nodes() == {}
    await here.client.patch(POD, "gated", {"spec": {"schedulingGates": None}}, "default")
    await here.settle()
    assert set(here.nodes()) == {"one", "two", "gated"}
    await here.add("later", of="crew", schedulingGates=[{"name": "example.com/wait"}])
    await here.attempt("three", of="crew")
    assert "three" not in here.nodes()


async def test_a_group_is_retried_after_its_backoff_and_not_after_events(here):
    await here.add_node("a", cpu="1")
    await here.add_group("crew", 2, pods=["one", "two"])
    await here.settle(20)
    await here.add_node("b", cpu="1")
    await here.settle(0.5)
    assert here.nodes() == {}
    await here.settle(20)
    assert set(here.nodes()) == {"one", "two"}


async def test_the_pods_of_a_group_wait_for_it_and_are_placed_together(here):
    """#139952"""
    await here.add_node("a", cpu="4")
    await here.add("one", "two", of="crew")
    await here.attempt("single")
    assert set(here.nodes()) == {"single"}
    await here.add_group("crew", 2)
    await here.settle(0.5)
    assert set(here.nodes()) == {"single", "one", "two"}


async def test_a_group_whose_preemptor_is_deleted_is_retried_without_the_victims(here):
    """Pods that come while their group evicts are gated, and no event of pods lets them in."""
    await here.add_node("a")
    await here.attempt("low", cpu="2")
    await here.client.patch(POD, "low", {"metadata": {"finalizers": ["example.com/stay"]}}, "default")
    await here.add_group("vip", priority=10)
    here.client.transport.faults.add(Fault(verb="delete", resource="pods", delay=2.0))
    await here.add("vip-1", of="vip", priority=10)
    await here.settle(0.5)
    await here.add("vip-2", of="vip", priority=10)
    await here.settle(5.0)
    assert here.evicted() == {"low"}
    here.client.transport.faults.clear()
    await here.delete("vip-1")
    await here.settle()
    await here.client.patch(POD, "low", {"metadata": {"finalizers": None}}, "default")
    await here.settle(90)
    assert here.nodes() == {"vip-2": "a"}
