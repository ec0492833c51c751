"""Gangs in a complete scheduler, on an in-memory API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from bayplan.api.kinds import NODE, POD
from bayplan.config import default_profile
from bayplan.devcluster.apiserver import Fault
from bayplan.framework.gangs import Gang
from bayplan.framework.interface import Plugin
from bayplan.framework.status import Status
from bayplan.plugins.coscheduling.groups import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL
from bayplan.plugins.coscheduling.plugin import Coscheduling
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime

SETTLED = 25.0
AT_ONCE = {"terminationGracePeriodSeconds": 0}
"""For pods that are gone once they are deleted, as there is no kubelet."""


class Gangs(Coscheduling):
    """Coscheduling in addition to the default plugins."""

    name = "Gangs"


class World:
    def __init__(self, client, scheduler):
        self.client, self.scheduler = client, scheduler

    async def create(self, kind, document):
        load(self.client.server, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
        await asyncio.sleep(0)

    async def add_node(self, name, cpu="2"):
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        await self.create(NODE, {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}})

    async def add(self, *names, least=None, cpu="1", scheduler="default-scheduler", **spec):
        """Pods, of one gang if `least` is given."""
        labels = {} if least is None else {LIGHTWEIGHT_LABEL: "crew", MIN_AVAILABLE_LABEL: str(least)}
        for name in names:
            containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
            await self.create(
                POD,
                {
                    "metadata": {"name": name, "labels": labels},
                    "spec": {"containers": containers, "schedulerName": scheduler, **AT_ONCE, **spec},
                },
            )

    async def delete(self, name):
        await self.client.delete(POD, name, "default")

    async def settle(self, seconds=SETTLED):
        await asyncio.sleep(seconds)

    async def nodes(self):
        pods = (await self.client.list(POD)).items
        return {pod.metadata.name: pod.spec.nodeName for pod in pods if pod.spec.nodeName}

    async def reasons(self):
        pods = (await self.client.list(POD)).items
        return {
            pod.metadata.name: next(c.message for c in pod.status.conditions)
            for pod in pods
            if not pod.spec.nodeName and pod.status.conditions
        }

    def nothing_is_held(self):
        assert self.scheduler.state.assumed_count == 0
        assert len(self.scheduler.waiting) == 0
        assert self.scheduler.queue.pending_pods().in_flight == 0


@asynccontextmanager
async def world(*plugins, profiles=("default-scheduler",)):
    loop = asyncio.get_running_loop()
    async with make_client(clock=loop) as client:

        def build(handle):
            return {name: default_profile(name, handle, [Gangs, *plugins]) for name in profiles}

        scheduler = Scheduler(client, build, Settings(seed=0, clock=loop))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            try:
                await scheduler.synced.wait()
                yield World(client, scheduler)
            finally:
                stop.set()


def tell(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(story)


def test_attempt_of_the_last_member_schedules_the_whole_gang():
    async def story():
        async with world() as here:
            await here.add_node("a")
            await here.add("one", "two", least=2)
            await here.settle(0.5)
            assert await here.nodes() == {"one": "a", "two": "a"}
            here.nothing_is_held()

    tell(story())


def test_a_gang_is_pending_until_the_first_node_is_added():
    async def story():
        async with world() as here:
            await here.add("one", "two", least=2)
            await here.settle()
            expected = "gang crew: 0 of 2 members fit; the next one: no nodes available to schedule pods"
            assert set((await here.reasons()).values()) == {expected}
            await here.add_node("a")
            await here.settle()
            assert await here.nodes() == {"one": "a", "two": "a"}

    tell(story())


def test_members_that_are_not_needed_are_scheduled_one_by_one():
    async def story():
        async with world() as here:
            await here.add_node("a", cpu="3")
            await here.add(*(f"m-{number}" for number in range(5)), least=2)
            await here.settle()
            assert len(await here.nodes()) == 3
            reasons = await here.reasons()
            assert len(reasons) == 2
            assert all(reason.startswith("0/1 nodes are available: 1 Insufficient cpu.") for reason in reasons.values())
            await here.add_node("b", cpu="2")
            await here.settle()
            assert len(await here.nodes()) == 5

    tell(story())


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


def test_a_gang_with_a_member_that_reserve_rejects_is_pending():
    async def story():
        async with world(Reluctant) as here:
            await here.add_node("a", cpu="4")
            await here.add(*(f"m-{number}" for number in range(4)), least=4)
            await here.settle()
            assert await here.nodes() == {}
            here.nothing_is_held()
            reasons = await here.reasons()
            expected = "gang crew: 2 of 4 members fit; the next one: 0/1 nodes are available: 1 not this one."
            assert set(reasons.values()) == {expected}
            assert len(reasons) == 4

    tell(story())


class RejectsInPermit(Plugin):
    """Rejects one pod in Permit, which the what-if of the gang doesn't run."""

    name = "RejectsInPermit"

    def permit(self, cycle, pod, node_name):
        return "not this one" if pod.name == "m-2" else None

    def events(self):
        return ()


def test_a_member_rejected_by_permit_undoes_the_others():
    async def story():
        async with world(RejectsInPermit) as here:
            await here.add_node("a", cpu="4")
            await here.add(*(f"m-{number}" for number in range(4)), least=4)
            await here.settle()
            assert await here.nodes() == {}
            here.nothing_is_held()
            reasons = await here.reasons()
            assert reasons["m-2"] == "0/1 nodes are available: 1 not this one."
            expected = "gang crew: pod default/m-2 was rejected on its node"
            assert reasons["m-3"] == expected
            assert reasons["m-0"] == reasons["m-1"] == f"0/1 nodes are available: 1 {expected}."

    tell(story())


class Keeper(Plugin):
    """Gates one pod until `keeps` is cleared."""

    name = "Keeper"
    keeps = "m-1"

    def pre_enqueue(self, pod):
        return "not yet" if pod.name == self.keeps else None


def test_members_wait_for_a_gated_member():
    async def story():
        keeper = Keeper()
        async with world(keeper) as here:
            await here.add_node("a", cpu="4")
            await here.add("m-0", "m-1", "m-2", least=3)
            await here.settle()
            here.nothing_is_held()
            assert (await here.reasons())["m-0"] == "gang crew: 3 members are needed; held back: m-1"
            keeper.keeps = ""
            held = here.scheduler.state.objects[POD]["default/m-1"]
            here.scheduler.queue.activate([held], asyncio.get_running_loop().time())
            await here.add("nudge")
            await here.settle()
            assert set(await here.nodes()) == {"m-0", "m-1", "m-2", "nudge"}

    tell(story())


def test_members_of_another_scheduler_count_in_permit():
    async def story():
        async with world() as here:
            await here.add_node("a", cpu="4")
            await here.add("theirs", least=2, scheduler="another-scheduler")
            await here.add("ours", least=2)
            await here.settle()
            assert len(here.scheduler.waiting) == 1
            assert await here.nodes() == {}
            await here.client.bind("default", "theirs", "a")
            await here.settle(70)  # until its Permit timeout
            assert await here.nodes() == {"ours": "a", "theirs": "a"}
            here.nothing_is_held()

    tell(story())


def test_members_of_two_profiles_are_rejected_with_a_reason():
    async def story():
        async with world(profiles=("default-scheduler", "other")) as here:
            await here.add_node("a", cpu="4")
            await here.add("one", least=2)
            await here.add("two", least=2, scheduler="other")
            await here.settle()
            here.nothing_is_held()
            assert (await here.reasons())["two"] == (
                "gang crew: 2 members are needed, and their scheduler names differ: default-scheduler, other"
            )

    tell(story())


LOST_BINDINGS = {
    "the server says no": {"answer": 500},
    "no answer comes": {"drop": "before"},
}


@pytest.mark.parametrize("fault", LOST_BINDINGS.values(), ids=LOST_BINDINGS)
def test_a_failed_binding_is_retried(fault):
    async def story():
        async with world() as here:
            await here.add_node("a", cpu="4")
            here.client.server.faults.add(Fault(subresource="binding", times=1, **fault))
            await here.add("m-0", "m-1", "m-2", least=3)
            await here.settle()
            assert set(await here.nodes()) == {"m-0", "m-1", "m-2"}
            here.nothing_is_held()

    tell(story())


class Broken(Plugin):
    """Fails for one pod, until it is repaired."""

    name = "Broken"
    fails_for = "m-1"

    def filter(self, cycle, pod, node):
        if pod.name == self.fails_for:
            raise ZeroDivisionError("oh")


def test_a_plugin_error_for_one_member_affects_only_its_gang():
    async def story():
        broken = Broken()
        async with world(broken) as here:
            await here.add_node("a", cpu="4")
            await here.add("m-0", "m-1", "m-2", least=3)
            await here.add("plain")
            await here.settle()
            assert set(await here.nodes()) == {"plain"}
            here.nothing_is_held()
            problem = 'running "Broken" filter plugin: ZeroDivisionError: oh'
            reasons = await here.reasons()
            assert reasons["m-1"] == problem
            assert reasons["m-0"] == f"gang crew: 1 of 3 members fit; the next one: {problem}"
            broken.fails_for = ""
            await here.settle()
            assert len(await here.nodes()) == 4

    tell(story())


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


@pytest.mark.parametrize(("answer", "reason"), CONFUSED.values(), ids=CONFUSED)
def test_an_error_in_gang_of_fails_the_attempt(answer, reason):
    async def story():
        confused = Confused()
        confused.answer = answer
        async with world(confused) as here:
            await here.add_node("a")
            await here.add("p")
            await here.settle(0.5)
            assert await here.reasons() == {"p": reason}
            confused.answer = Gang("alone", (here.scheduler.state.objects[POD]["default/p"],), 1)
            await here.settle()
            assert await here.nodes() == {"p": "a"}

    tell(story())


def test_a_gang_is_pending_as_a_whole_until_its_victims_are_gone():
    async def story():
        async with world() as here:
            await here.add_node("a", cpu="2")
            await here.add_node("b", cpu="2")
            await here.add("low-0", "low-1", cpu="2", priority=-5)
            await here.settle()
            await here.add("m-0", "m-1", "m-2", "m-3", "m-4", least=5)
            await here.settle()
            assert set(await here.nodes()) == {"low-0", "low-1"}, "a gang that does not fit even then evicts no pod"
            await here.delete("m-4")
            await here.delete("m-3")
            await here.add("m-5", least=4)
            await here.settle()
            assert set(await here.nodes()) == {"low-0", "low-1"}
            await here.add("m-6", least=4)
            await here.settle()
            nodes = await here.nodes()
            assert sorted(nodes.values()) == ["a", "a", "b", "b"]
            assert {"low-0", "low-1"} & set(nodes) == set()
            here.nothing_is_held()

    tell(story())


def test_a_gang_evicts_no_other_pods_while_its_victims_terminate():
    async def story():
        async with world() as here:
            for name in ("a", "b"):
                await here.add_node(name, cpu="1")
            await here.add("low-0", priority=-10)
            await here.add("low-1", priority=-5)
            await here.settle()
            await here.add_node("c", cpu="1")
            here.client.server.faults.add(Fault(verb="delete", name="low-0", answer=500, times=3))
            await here.add("m-0", "m-1", least=2)
            await here.settle(0.1)
            await here.add("m-2", least=2)
            await here.settle(0.1)
            assert {each.info.name for each in here.client.transport.sent("delete")} == {"low-0"}
            await here.settle()
            assert {"m-0", "m-1"} <= set(await here.nodes())
            here.nothing_is_held()

    tell(story())


class Wistful(Plugin):
    """Background work that fails once."""

    name = "Wistful"

    def __init__(self):
        self.began = 0

    def filter(self, cycle, pod, node):
        return Status.unschedulable("never")

    async def background(self):
        self.began += 1
        if self.began == 1:
            raise ZeroDivisionError("oh")


def test_failed_background_work_is_restarted(caplog):
    async def story():
        wistful = Wistful()
        async with world(wistful) as here:
            await here.settle()
            assert wistful.began == 2

    tell(story())
    assert "plugin Wistful failed in Background: ZeroDivisionError: oh" in caplog.text
