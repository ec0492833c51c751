"""PodGroups as Kubernetes 1.37 has them, in a complete scheduler, on an in-memory API server."""

import logging

import pytest

from bayplan.core.api.kinds import POD, POD_GROUP, PRIORITY_CLASS

pytestmark = pytest.mark.scheduler(version="1.37", gates=("GenericWorkload",))


async def test_a_gang_is_placed_and_its_condition_says_so(here):
    await here.add_node("a")
    await here.attempt_group("crew", 3, pods=["one", "two", "three"])
    assert here.nodes() == {}
    reason, _ = await here.condition("crew")
    assert reason == "Unschedulable"
    await here.add_node("b")
    await here.settle()
    assert set(here.nodes()) == {"one", "two", "three"}
    group = await here.client.get(POD_GROUP, "crew", "default")
    assert [each.type for each in group.status.conditions] == ["PodGroupInitiallyScheduled"]
    assert await here.condition("crew") == ("Scheduled", "")


async def test_a_lower_min_count_requeues_the_gang(here):
    await here.add_node("a")
    await here.attempt_group("crew", 3, pods=["one", "two", "three"])
    assert here.nodes() == {}
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    await here.client.patch(POD_GROUP, "crew", patch, "default")
    await here.settle()
    assert len(here.nodes()) == 2
    assert (await here.client.get(POD_GROUP, "crew", "default")).metadata.generation == 2


async def test_a_lower_min_count_lets_gated_pods_in(here):
    await here.add_node("a")
    await here.attempt_group("crew", 3, pods=["one", "two"])
    assert here.nodes() == {}
    await here.client.patch(POD_GROUP, "crew", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, "default")
    await here.settle()
    assert set(here.nodes()) == {"one", "two"}


@pytest.mark.parametrize(("mode", "evicted"), [("all", {"low-1", "low-2"}), ("single", {"low-1"})])
async def test_victims_are_evicted_as_the_disruption_mode_says(here, mode, evicted):
    await here.add_node("a")
    await here.attempt_group("low", 1, disruptionMode={mode: {}}, pods=["low-1", "low-2"])
    await here.add_group("vip", 1, priority=10)
    await here.attempt("vip-1", of="vip", priority=10)
    assert len(here.evicted()) == len(evicted)
    assert here.evicted() <= {"low-1", "low-2"}
    assert here.nodes()["vip-1"] == "a"


async def nominated(here):
    """How many pods a group of two makes room for at once, where one is enough for the group."""
    await here.add_node("a")
    await here.attempt("low-1", "low-2")
    for name in ("low-1", "low-2"):
        await here.client.patch(POD, name, {"metadata": {"finalizers": ["example.com/stay"]}}, "default")
    await here.add("vip-1", "vip-2", of="vip", priority=10)
    await here.add_group("vip", 1, priority=10)
    await here.settle()
    pods = [await here.client.get(POD, name, "default") for name in ("vip-1", "vip-2")]
    return [pod.status.nominatedNodeName for pod in pods].count("a")


async def test_a_group_preempts_for_as_many_pods_as_possible(here):
    """#138757"""
    assert await nominated(here) == 2


@pytest.mark.scheduler(version="1.36", gates=("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"))
async def test_a_group_of_1_36_preempts_for_its_min_count(here):
    assert await nominated(here) == 1


async def test_the_message_says_that_the_group_preempts(here):
    await here.add_node("a")
    await here.add_group("crew", 3, priority=10)
    await here.attempt("one", "two", "three", of="crew", priority=10)
    reason, message = await here.condition("crew")
    assert reason == "Unschedulable"
    assert message.endswith("pod group preemption: No preemption victims found for incoming preemptor")


async def test_pods_with_another_priority_than_their_group_are_not_scheduled(here):
    """#139920"""
    await here.add_node("a")
    await here.add_group("crew", 2, priority=10)
    await here.add("one", of="crew", priority=10)
    await here.attempt("two", of="crew", priority=5)
    problem = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 10"
    assert here.nodes() == {}
    assert here.reasons() == {"one": problem, "two": problem}
    assert await here.condition("crew") == ("SchedulerError", problem)


async def test_pods_with_different_preemption_policies_are_not_scheduled(here):
    await here.add_node("a")
    await here.add_group("crew", 2, pods=["one"])
    await here.create(PRIORITY_CLASS, {"metadata": {"name": "calm"}, "value": 0, "preemptionPolicy": "Never"})
    await here.attempt("two", of="crew", priorityClassName="calm")
    problem = (
        "all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority"
    )
    assert here.nodes() == {}
    assert await here.condition("crew") == ("SchedulerError", problem)


async def test_pods_added_to_a_placed_group_must_have_its_priority(here):
    """#140356"""
    await here.add_node("a")
    await here.add_group("crew", priority=10)
    await here.attempt("one", of="crew", priority=10)
    await here.add("two", of="crew", priority=5)
    await here.attempt("other")
    assert here.nodes() == {"one": "a", "other": "a"}
    assert here.reasons()["two"].endswith("got 5 and 10")


@pytest.mark.scheduler(version="1.36", gates=("GenericWorkload", "GangScheduling"))
async def test_priorities_in_a_group_of_1_36_may_differ(here):
    await here.add_node("a")
    await here.add_group("crew", 2, priority=10)
    await here.add("one", of="crew", priority=10)
    await here.attempt("two", of="crew", priority=5)
    assert set(here.nodes()) == {"one", "two"}


@pytest.mark.scheduler(version="1.37", gates=("GenericWorkload", "TopologyAwareWorkloadScheduling"))
async def test_a_gang_is_placed_in_one_topology_domain(here):
    await here.add_node("a1", rack="a")
    await here.add_node("b1", rack="b")
    await here.add_node("b2", rack="b")
    await here.attempt_group("crew", 3, topology="rack", pods=["one", "two", "three"])
    assert set(here.nodes().values()) == {"b1", "b2"}


@pytest.mark.scheduler(version="1.36", gates=("GenericWorkload", "GangScheduling"))
async def test_a_scheduler_finds_the_version_that_the_server_has(here, caplog):
    caplog.set_level(logging.WARNING, logger="bayplan.running.client")
    await here.add_node("a")
    await here.attempt_group("crew", 2, pods=["one", "two"])
    assert set(here.nodes()) == {"one", "two"}
    assert await here.condition("crew") == ("Scheduled", "")
    assert caplog.messages == []


@pytest.mark.scheduler(version="1.37", gates=("GenericWorkload", "PodGroupPreemptionPolicy"))
@pytest.mark.parametrize(("policy", "evicts"), [("Never", False), ("PreemptLowerPriority", True)])
async def test_the_preemption_policy_of_the_group_decides(here, policy, evicts):
    await here.add_node("a")
    await here.attempt("low-1", "low-2")
    await here.create(PRIORITY_CLASS, {"metadata": {"name": "vip"}, "value": 10, "preemptionPolicy": policy})
    await here.add_group("vip", 1, priorityClassName="vip")
    await here.attempt("vip-1", of="vip", priorityClassName="vip")
    assert bool(here.evicted()) is evicts
    assert ("vip-1" in here.nodes()) is evicts
    if not evicts:
        assert "not eligible due to preemptionPolicy=Never." in here.reasons()["vip-1"]


@pytest.mark.scheduler(version="1.37", gates=("GenericWorkload", "PodGroupPreemptionPolicy"))
async def test_pods_with_another_preemption_policy_than_their_group_are_not_scheduled(here):
    """#140359"""
    await here.add_node("a")
    await here.create(PRIORITY_CLASS, {"metadata": {"name": "vip"}, "value": 10, "preemptionPolicy": "Never"})
    await here.add_group("vip", 1, priorityClassName="vip")
    await here.attempt("vip-1", of="vip", priority=10)
    problem = (
        "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, "
        "got PreemptLowerPriority and Never"
    )
    assert here.nodes() == {}
    assert await here.condition("vip") == ("SchedulerError", problem)
