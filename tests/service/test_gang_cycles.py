"""Gangs in a complete scheduler, on an in-memory API server."""

import asyncio

import pytest
from tests.support.tables import cases

from bayplan.core.api.kinds import POD
from bayplan.core.framework.gangs import Gang
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.status import Status
from bayplan_devcluster.apiserver import Fault
from bayplan_plugins.coscheduling.plugin import Coscheduling


class Gangs(Coscheduling):
    """Coscheduling in addition to the default plugins."""

    name = "Gangs"


pytestmark = pytest.mark.scheduler(plugins=[Gangs])


async def test_attempt_of_the_last_member_schedules_the_whole_gang(here):
    await here.add_node("a")
    await here.add("one", "two", least=2)
    await here.settle(0.5)
    assert here.nodes() == {"one": "a", "two": "a"}


async def test_a_gang_is_pending_until_the_first_node_is_added(here):
    await here.attempt("one", "two", least=2)
    expected = "gang crew: 0 of 2 members fit; the next one: no nodes available to schedule pods"
    assert set(here.reasons().values()) == {expected}
    await here.add_node("a")
    await here.settle()
    assert here.nodes() == {"one": "a", "two": "a"}


async def test_members_that_are_not_needed_are_scheduled_one_by_one(here):
    await here.add_node("a", cpu="3")
    await here.attempt(*(f"m-{number}" for number in range(5)), least=2)
    assert len(here.nodes()) == 3
    reasons = here.reasons()
    assert len(reasons) == 2
    assert all(reason.startswith("0/1 nodes are available: 1 Insufficient cpu.") for reason in reasons.values())
    await here.add_node("b", cpu="2")
    await here.settle()
    assert len(here.nodes()) == 5


class Reluctant(Plugin):
    """Rejects one pod in Reserve."""

    name = "Reluctant"
    refuses = "m-2"

    def reserve(self, cycle, pod, node_name):
        return "not this one" if pod.name == self.refuses else None

    def unreserve(self, cycle, pod, node_name):
        pass

    def events(self):
        return ()


@pytest.mark.scheduler(plugins=[Gangs, Reluctant])
async def test_a_gang_with_a_member_that_reserve_rejects_is_pending(here):
    await here.add_node("a", cpu="4")
    await here.attempt(*(f"m-{number}" for number in range(4)), least=4)
    assert here.nodes() == {}
    here.nothing_is_held()
    reasons = here.reasons()
    expected = "gang crew: 2 of 4 members fit; the next one: 0/1 nodes are available: 1 not this one."
    assert set(reasons.values()) == {expected}
    assert len(reasons) == 4


class RejectsInPermit(Plugin):
    """Rejects one pod in Permit, which the what-if of the gang doesn't run."""

    name = "RejectsInPermit"

    def permit(self, cycle, pod, node_name):
        return "not this one" if pod.name == "m-2" else None

    def events(self):
        return ()


@pytest.mark.scheduler(plugins=[Gangs, RejectsInPermit])
async def test_a_member_rejected_by_permit_undoes_the_others(here):
    await here.add_node("a", cpu="4")
    await here.attempt(*(f"m-{number}" for number in range(4)), least=4)
    assert here.nodes() == {}
    here.nothing_is_held()
    reasons = here.reasons()
    assert reasons["m-2"] == "0/1 nodes are available: 1 not this one."
    expected = "gang crew: pod default/m-2 was rejected on its node"
    assert reasons["m-3"] == expected
    assert reasons["m-0"] == reasons["m-1"] == f"0/1 nodes are available: 1 {expected}."


class Keeper(Plugin):
    """Gates one pod until `keeps` is cleared."""

    name = "Keeper"
    keeps = "m-1"

    def pre_enqueue(self, pod):
        return "not yet" if pod.name == self.keeps else None


@pytest.mark.scheduler(plugins=[Gangs, Keeper])
async def test_members_wait_for_a_gated_member(here, monkeypatch):
    await here.add_node("a", cpu="4")
    await here.attempt("m-0", "m-1", "m-2", least=3)
    here.nothing_is_held()
    assert here.reasons()["m-0"] == "gang crew: 3 members are needed; held back: m-1"
    monkeypatch.setattr(Keeper, "keeps", "")
    held = here.scheduler.state.objects[POD]["default/m-1"]
    here.scheduler.queue.activate([held], asyncio.get_running_loop().time())
    await here.attempt("nudge")
    assert set(here.nodes()) == {"m-0", "m-1", "m-2", "nudge"}


async def test_members_of_another_scheduler_count_in_permit(here):
    await here.add_node("a", cpu="4")
    await here.add("theirs", least=2, by="another-scheduler")
    await here.attempt("ours", least=2)
    assert len(here.scheduler.waiting) == 1
    assert here.nodes() == {}
    await here.client.bind("default", "theirs", "a")
    await here.settle(70)  # until its Permit timeout
    assert here.nodes() == {"ours": "a", "theirs": "a"}


@pytest.mark.scheduler(profiles=("default-scheduler", "other"))
async def test_members_of_two_profiles_are_rejected_with_a_reason(here):
    await here.add_node("a", cpu="4")
    await here.add("one", least=2)
    await here.attempt("two", least=2, by="other")
    here.nothing_is_held()
    assert here.reasons()["two"] == (
        "gang crew: 2 members are needed, and their scheduler names differ: default-scheduler, other"
    )


LOST_BINDINGS = {"the server says no": {"answer": 500}, "no answer comes": {"drop": "before"}}


@cases("fault", LOST_BINDINGS)
async def test_a_failed_binding_is_retried(here, fault):
    await here.add_node("a", cpu="4")
    here.client.server.faults.add(Fault(subresource="binding", times=1, **fault))
    await here.attempt("m-0", "m-1", "m-2", least=3)
    assert set(here.nodes()) == {"m-0", "m-1", "m-2"}


class Broken(Plugin):
    """Fails for one pod, until it is repaired."""

    name = "Broken"
    fails_for = "m-1"

    def filter(self, cycle, pod, node):
        if pod.name == self.fails_for:
            raise ZeroDivisionError("oh")


@pytest.mark.scheduler(plugins=[Gangs, Broken])
async def test_a_plugin_error_for_one_member_affects_only_its_gang(here, monkeypatch):
    await here.add_node("a", cpu="4")
    await here.add("m-0", "m-1", "m-2", least=3)
    await here.attempt("plain")
    assert set(here.nodes()) == {"plain"}
    here.nothing_is_held()
    problem = 'running "Broken" filter plugin: ZeroDivisionError: oh'
    reasons = here.reasons()
    assert reasons["m-1"] == problem
    assert reasons["m-0"] == f"gang crew: 1 of 3 members fit; the next one: {problem}"
    monkeypatch.setattr(Broken, "fails_for", "")
    await here.settle()
    assert len(here.nodes()) == 4


class Confused(Plugin):
    """Returns another value than a gang."""

    name = "Confused"
    answer: object = "a gang"

    def gang_of(self, pod):
        if self.answer is None:
            raise ZeroDivisionError("oh")
        return self.answer

    def permit(self, cycle, pod, node_name):
        return None


CONFUSED = {
    "no gang": ("a gang", "plugin Confused failed in GangOf: answered 'a gang', expected a Gang or None"),
    "an error": (None, "plugin Confused failed in GangOf: ZeroDivisionError: oh"),
}


@cases("answer, reason", CONFUSED)
@pytest.mark.scheduler(plugins=[Gangs, Confused])
async def test_an_error_in_gang_of_fails_the_attempt(here, answer, reason, monkeypatch):
    monkeypatch.setattr(Confused, "answer", answer)
    await here.add_node("a")
    await here.add("p")
    await here.settle(0.5)
    assert here.reasons() == {"p": reason}
    monkeypatch.setattr(Confused, "answer", Gang("alone", (here.scheduler.state.objects[POD]["default/p"],), 1))
    await here.settle()
    assert here.nodes() == {"p": "a"}


async def test_a_gang_is_pending_as_a_whole_until_its_victims_are_gone(here):
    await here.add_node("a", cpu="2")
    await here.add_node("b", cpu="2")
    await here.attempt("low-0", "low-1", cpu="2", priority=-5)
    await here.attempt("m-0", "m-1", "m-2", "m-3", "m-4", least=5)
    assert set(here.nodes()) == {"low-0", "low-1"}, "a gang that does not fit even then evicts no pod"
    await here.delete("m-4")
    await here.delete("m-3")
    await here.attempt("m-5", least=4)
    assert set(here.nodes()) == {"low-0", "low-1"}
    await here.attempt("m-6", least=4)
    nodes = here.nodes()
    assert sorted(nodes.values()) == ["a", "a", "b", "b"]
    assert {"low-0", "low-1"} & set(nodes) == set()


async def test_a_gang_evicts_no_other_pods_while_its_victims_terminate(here):
    for name in ("a", "b"):
        await here.add_node(name, cpu="1")
    await here.add("low-0", priority=-10)
    await here.attempt("low-1", priority=-5)
    await here.add_node("c", cpu="1")
    here.client.server.faults.add(Fault(verb="delete", name="low-0", answer=500, times=3))
    await here.add("m-0", "m-1", least=2)
    await here.settle(0.1)
    await here.add("m-2", least=2)
    await here.settle(0.1)
    assert {each.info.name for each in here.client.transport.sent("delete")} == {"low-0"}
    await here.settle()
    assert {"m-0", "m-1"} <= set(here.nodes())


class Wistful(Plugin):
    """Background work that fails once."""

    name = "Wistful"

    began = 0

    def filter(self, cycle, pod, node):
        return Status.unschedulable("never")

    async def background(self):
        Wistful.began += 1
        if Wistful.began == 1:
            raise ZeroDivisionError("oh")


@pytest.mark.scheduler(plugins=[Gangs, Wistful])
async def test_failed_background_work_is_restarted(here, caplog):
    await here.settle()
    assert Wistful.began == 2
    assert "plugin Wistful failed in Background: ZeroDivisionError: oh" in caplog.text
