"""Kubernetes PodGroups in a complete scheduler, on an in-memory API server."""

import pytest

from bayplan.core.api.kinds import NODE, POD, POD_GROUP_V1ALPHA2
from bayplan.core.framework.gangs import GangVictims
from bayplan.core.framework.interface import Plugin
from bayplan_devcluster.apiserver import Fault

GANGS = ("GenericWorkload", "GangScheduling")
TOPOLOGY = (*GANGS, "TopologyAwareWorkloadScheduling")
WHOLE = (*GANGS, "WorkloadAwarePreemption")


pytestmark = pytest.mark.scheduler(gates=GANGS)
FULL = "0/1 nodes are available: 1 Insufficient cpu."


async def test_the_condition_reports_how_many_members_fit_and_then_success(here):
    await here.add_node("a")
    await here.attempt_group("crew", 3, pods=["one", "two", "three"])
    short = f"gang crew: 2 of 3 members fit; the next one: {FULL}"
    assert await here.condition("crew") == ("Unschedulable", short)
    assert here.reasons()["one"] == short
    await here.add_node("b")
    await here.settle()
    assert set(here.nodes()) == {"one", "two", "three"}
    assert await here.condition("crew") == ("Scheduled", "")
    group = await here.client.get(POD_GROUP_V1ALPHA2, "crew", "default")
    assert group.status.conditions[0].observedGeneration == 1


async def test_later_members_are_scheduled_one_by_one(here):
    await here.add_node("a", cpu="3")
    await here.attempt_group("crew", 2, pods=["one", "two"])
    await here.attempt("three", "four", of="crew")
    assert set(here.nodes()) == {"one", "two", "three"}
    assert here.reasons()["four"].startswith(FULL)
    assert await here.condition("crew") == ("Scheduled", "")


async def test_a_gang_with_too_few_members_holds_no_node(here):
    """The third member is of another scheduler. It counts once it is bound, so no member waits for it in Permit."""
    await here.add_node("a", cpu="4")
    await here.add_group("crew", 3, pods=["one", "two"])
    await here.attempt("theirs", of="crew", by="another-scheduler")
    here.nothing_is_held()
    assert here.nodes() == {}
    assert (await here.condition("crew"))[0] == "Unschedulable"
    await here.client.bind("default", "theirs", "a")
    await here.settle()
    assert set(here.nodes()) == {"one", "two", "theirs"}


@pytest.mark.scheduler(profiles=("default-scheduler", "other"))
async def test_members_of_two_profiles(here):
    await here.add_node("a", cpu="4")
    await here.add_group("crew", 2, pods=["one"])
    await here.attempt("two", of="crew", by="other")
    expected = "gang crew: 2 members are needed, and their scheduler names differ: default-scheduler, other"
    assert await here.condition("crew") == ("Unschedulable", expected)


async def test_a_basic_group_is_not_a_gang(here):
    await here.attempt_group("web", pods=["one", "two"])
    assert await here.condition("web") == ("Unschedulable", "no nodes available to schedule pods")
    await here.add_node("a", cpu="1")
    await here.settle()
    assert len(here.nodes()) == 1
    assert await here.condition("web") == ("Scheduled", "")


class Broken(Plugin):
    name = "Broken"
    fails_for = "two"

    def filter(self, cycle, pod, node):
        if pod.name == self.fails_for:
            raise ZeroDivisionError("oh")


@pytest.mark.scheduler(plugins=[Broken])
async def test_an_error_for_one_member_fails_the_gang(here, monkeypatch):
    await here.add_node("a", cpu="4")
    await here.attempt_group("crew", 3, pods=["one", "two", "zzz"])
    problem = 'running "Broken" filter plugin: ZeroDivisionError: oh'
    expected = f"gang crew: 1 of 3 members fit; the next one: {problem}"
    assert await here.condition("crew") == ("SchedulerError", expected)
    monkeypatch.setattr(Broken, "fails_for", "")
    await here.settle()
    assert await here.condition("crew") == ("Scheduled", "")


async def test_a_condition_is_retried_until_the_server_accepts_it(here):
    here.client.server.faults.add(Fault(verb="patch", resource=POD_GROUP_V1ALPHA2.plural, answer=500, times=3))
    await here.add_node("a")
    await here.attempt_group("crew", 1, pods=["one"])
    assert await here.condition("crew") == ("Scheduled", "")


# One topology domain


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_gang_is_placed_in_a_domain_that_it_fits_in(here):
    await here.add_node("a", cpu="3", rack="r1")
    await here.add_node("b", cpu="2", rack="r2")
    await here.add_node("c", cpu="2", rack="r2")
    await here.add_node("d", cpu="9")
    await here.attempt_group("crew", 4, "rack", pods=[f"m-{number}" for number in range(4)])
    assert sorted(here.nodes().values()) == ["b", "b", "c", "c"]
    assert await here.condition("crew") == ("Scheduled", "")


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_gang_that_fits_in_no_domain_reports_the_best_one(here):
    await here.add_node("a", cpu="3", rack="r1")
    await here.add_node("b", cpu="2", rack="r2")
    await here.attempt_group("crew", 4, "rack", pods=[f"m-{number}" for number in range(4)])
    assert here.nodes() == {}
    expected = f"gang crew: 3 of 4 members fit in r1, the best of 2 placements; the next one: {FULL}"
    assert await here.condition("crew") == ("Unschedulable", f"{expected}")
    await here.add_node("c", cpu="2", rack="r2")
    await here.settle()
    assert sorted(here.nodes().values()) == ["b", "b", "c", "c"]


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_gang_is_pending_until_a_node_has_the_topology_label(here):
    await here.add_node("a", cpu="3")
    await here.attempt_group("crew", 2, "rack", pods=["one", "two"])
    assert await here.condition("crew") == ("Unschedulable", "gang crew: no feasible placements found")
    await here.client.patch(NODE, "a", {"metadata": {"labels": {"rack": "r1"}}})
    await here.settle()
    assert set(here.nodes()) == {"one", "two"}


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_later_members_are_placed_in_the_domain_of_the_others(here):
    await here.add_node("a", cpu="3", rack="r1")
    await here.attempt_group("crew", 2, "rack", pods=["one", "two"])
    await here.add_node("b", cpu="9", rack="r2")
    await here.attempt("three", "four", of="crew")
    assert set(here.nodes().values()) == {"a"}
    (waiting,) = {"three", "four"} - here.nodes().keys()
    expected = "preemption: not eligible due to placement-based pod group scheduling limitation"
    assert expected in here.reasons()[waiting]
    await here.add_node("c", rack="r1")
    await here.settle()
    assert set(here.nodes().values()) == {"a", "c"}


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_basic_group_with_a_constraint_takes_the_larger_domain(here):
    await here.add_node("a", cpu="1", rack="r1")
    await here.add_node("b", cpu="3", rack="r2")
    await here.add(*(f"m-{number}" for number in range(4)), of="web")
    await here.settle(0.1)
    await here.add_group("web", None, "rack")
    await here.settle()
    assert sorted(here.nodes().values()) == ["b", "b", "b"]


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_gang_with_a_topology_constraint_does_not_preempt(here):
    await here.add_node("a", rack="r1")
    await here.attempt("low", cpu="2", priority=-5)
    await here.attempt_group("crew", 2, "rack", pods=["one", "two"])
    assert set(here.nodes()) == {"low"}
    await here.delete("low")
    await here.settle()
    assert set(here.nodes()) == {"one", "two"}


async def test_without_the_plugin_a_constraint_is_ignored(here):
    await here.add_node("a", cpu="1", rack="r1")
    await here.add_node("b", cpu="1", rack="r2")
    await here.attempt_group("crew", 2, "rack", pods=["one", "two"])
    assert set(here.nodes().values()) == {"a", "b"}


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_group_bound_in_two_domains_is_an_error(here):
    for node, rack in (("a", "r1"), ("b", "r2")):
        await here.add_node(node, rack=rack)
        await here.add(f"on-{node}", of="crew", by="another-scheduler")
        await here.client.bind("default", f"on-{node}", node)
    await here.attempt_group("crew", 3, "rack", pods=["late"])
    reason, message = await here.condition("crew")
    assert reason == "SchedulerError"
    assert "more than 1 domain found for pod group: r1, r2" in message


# Preemption as a whole


@pytest.mark.scheduler(gates=WHOLE)
async def test_a_group_preempts_by_its_priority_and_victim_groups_as_a_whole(here):
    for name in "abc":
        await here.add_node(name, cpu="1")
    await here.add_group("humble", 2, disruptionMode="PodGroup", priority=-1, pods=["h-0", "h-1"])
    await here.attempt("plain", priority=1)
    await here.add_group("vip", 1, priority=10, pods=["us"])
    await here.settle(0.5)
    await here.settle()
    assert here.evicted() == {"h-0", "h-1"}
    assert {"us", "plain"} <= set(here.nodes())
    events = [each.document for each in here.client.transport.sent("create", "events")]
    notes = [each["note"] for each in events if each["reason"] == "Preempted"]
    uid = (await here.client.get(POD_GROUP_V1ALPHA2, "vip", "default")).metadata.uid
    assert notes == [f"Preempted by podgroup {uid} on node cluster"] * 2


@pytest.mark.scheduler(gates=WHOLE)
async def test_a_group_that_does_not_fit_either_way_does_not_preempt(here):
    await here.add_node("a", cpu="1")
    await here.attempt("low", priority=-5)
    await here.attempt_group("vip", 2, priority=10, pods=["one", "two"])
    assert here.evicted() == set()
    expected = "preemption: the gang would not fit even if all pods of lower priority were evicted"
    assert expected in (await here.condition("vip"))[1]


@pytest.mark.scheduler(gates=WHOLE)
async def test_a_group_without_priority_does_not_preempt_whatever_its_pods_have(here):
    await here.add_node("a", cpu="1")
    await here.attempt("zero")
    await here.add_group("crew", 1)
    await here.attempt("one", of="crew", priority=100)
    assert set(here.nodes()) == {"zero"}
    assert "No preemption victims found for incoming preemptor" in (await here.condition("crew"))[1]


@pytest.mark.scheduler(gates=WHOLE)
async def test_a_group_evicts_no_other_pods_while_its_victims_terminate(here):
    for name in "ab":
        await here.add_node(name, cpu="1")
    await here.attempt("low-a", "low-b", priority=-5)
    await here.add_group("vip", 1, priority=10)
    here.client.server.faults.add(Fault(verb="delete", answer=500, times=3))
    await here.attempt("us", of="vip")
    assert len(here.evicted()) == 1
    assert "us" in here.nodes()


class Picky(Plugin):
    """Chooses victims that do not suffice, or fails."""

    name = "Picky"
    answer = None

    def pre_enqueue(self, pod):
        return None

    def gang_post_filter(self, gang, nodes):
        def trial():
            yield ()
            if self.answer is None:
                raise ZeroDivisionError("oh")
            return self.answer

        return trial()


@pytest.mark.parametrize("answer", [None, "not enough"])
@pytest.mark.scheduler(plugins=[Picky])
async def test_victims_that_do_not_suffice_are_an_error(here, answer, monkeypatch):
    await here.add_node("a", cpu="1")
    await here.attempt("low", priority=-5)
    low = here.scheduler.state.objects[POD]["default/low"]
    await here.add_group("crew", 2, pods=["one", "two"])
    if answer is not None:
        monkeypatch.setattr(Picky, "answer", GangVictims(low, (low,)))
    await here.settle()
    reason, message = await here.condition("crew")
    assert reason == "SchedulerError"
    expected = "GangPostFilter: ZeroDivisionError: oh" if answer is None else "does not fit without the victims"
    assert expected in message
    assert set(here.nodes()) == {"low"}


@pytest.mark.scheduler(gates=TOPOLOGY)
async def test_a_group_that_is_attempted_before_all_its_pods_exist_stays_in_its_zone(here):
    """As with kube-scheduler: the first pod gets the fullest zone, where the second one has no room. All at once, they
    would have got the other zone.
    """
    await here.add_node("a", cpu="4", zone="a")
    await here.add_node("b", cpu="2", zone="b")
    await here.attempt("other", cpu="1", nodeSelector={"zone": "b"})
    await here.attempt_group("web", topology="zone", pods=["one"])
    await here.attempt("two", of="web")
    assert here.nodes() == {"other": "b", "one": "b"}
    await here.attempt_group("db", topology="zone", pods=["three", "four"])
    assert {here.nodes()["three"], here.nodes()["four"]} == {"a"}
