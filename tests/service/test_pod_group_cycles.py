"""Kubernetes PodGroups in a complete scheduler, on an in-memory API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from bayplan.api.kinds import NODE, POD, POD_GROUP
from bayplan.config import default_profile
from bayplan.devcluster.apiserver import Fault
from bayplan.framework.gangs import GangVictims
from bayplan.framework.interface import Plugin
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime

SETTLED = 25.0
AT_ONCE = {"terminationGracePeriodSeconds": 0}
"""For pods that are gone once they are deleted, as there is no kubelet."""
GANGS = ("GangScheduling",)
TOPOLOGY = (*GANGS, "TopologyPlacementGenerator", "PodGroupPodsCount")
WHOLE = (*GANGS, "WorkloadAwarePreemption")


class World:
    def __init__(self, client, scheduler):
        self.client, self.scheduler = client, scheduler

    async def create(self, kind, document):
        load(self.client.server, {"apiVersion": kind.api_version, "kind": kind.kind, **document})
        await asyncio.sleep(0)

    async def add_node(self, name, rack=None, cpu="2"):
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        metadata = {"name": name, "labels": {"rack": rack} if rack else {}}
        await self.create(NODE, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})

    async def add_group(self, name, least=None, topology=None, **spec):
        policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
        constraints = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
        spec = {"schedulingPolicy": policy, **constraints, **spec}
        await self.create(POD_GROUP, {"metadata": {"name": name, "generation": 1}, "spec": spec})

    async def add(self, *names, of=None, cpu="1", scheduler="default-scheduler", **spec):
        if of is not None:
            spec["schedulingGroup"] = {"podGroupName": of}
        for name in names:
            containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
            document = {"containers": containers, "schedulerName": scheduler, **AT_ONCE, **spec}
            await self.create(POD, {"metadata": {"name": name}, "spec": document})

    async def delete(self, name):
        await self.client.delete(POD, name, "default")

    async def settle(self, seconds=SETTLED):
        await asyncio.sleep(seconds)

    async def nodes(self):
        pods = (await self.client.list(POD)).items
        return {pod.metadata.name: pod.spec.nodeName for pod in pods if pod.spec.nodeName}

    async def reason(self, name):
        return next(each.message for each in (await self.client.get(POD, name, "default")).status.conditions)

    async def condition(self, name):
        """Reason and message of the condition of a group."""
        group = await self.client.get(POD_GROUP, name, "default")
        conditions = (group.status.conditions if group.status else None) or ()
        return next(((each.reason, each.message) for each in conditions), None)

    def nothing_is_held(self):
        assert self.scheduler.state.assumed_count == 0
        assert len(self.scheduler.waiting) == 0
        assert self.scheduler.queue.pending_pods().in_flight == 0

    def evicted(self):
        return {each.info.name for each in self.client.transport.sent("delete") if each.document}


def tell(story, gated=GANGS, plugins=(), profiles=("default-scheduler",)):
    """Run a story with a scheduler that has these plugins."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(run_story(story, gated, plugins, profiles))


async def run_story(story, gated, plugins, profiles):
    async with world(gated, plugins, profiles) as here:
        await story(here)
        here.nothing_is_held()


@asynccontextmanager
async def world(gated, plugins, profiles):
    loop = asyncio.get_running_loop()
    async with make_client(clock=loop) as client:

        def build(handle):
            return {name: default_profile(name, handle, plugins, gated) for name in profiles}

        scheduler = Scheduler(client, build, Settings(seed=0, clock=loop))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop))
            try:
                await scheduler.synced.wait()
                yield World(client, scheduler)
            finally:
                stop.set()


FULL = "0/1 nodes are available: 1 Insufficient cpu."


def test_the_condition_reports_how_many_members_fit_and_then_success():
    async def story(here):
        await here.add_node("a")
        await here.add_group("crew", 3)
        await here.add("one", "two", "three", of="crew")
        await here.settle()
        short = f"gang crew: 2 of 3 members fit; the next one: {FULL}"
        assert await here.condition("crew") == ("Unschedulable", short)
        assert await here.reason("one") == short
        await here.add_node("b")
        await here.settle()
        assert set(await here.nodes()) == {"one", "two", "three"}
        assert await here.condition("crew") == ("Scheduled", "")
        group = await here.client.get(POD_GROUP, "crew", "default")
        assert group.status.conditions[0].observedGeneration == 1

    tell(story)


def test_later_members_are_scheduled_one_by_one():
    async def story(here):
        await here.add_node("a", cpu="3")
        await here.add_group("crew", 2)
        await here.add("one", "two", of="crew")
        await here.settle()
        await here.add("three", "four", of="crew")
        await here.settle()
        assert set(await here.nodes()) == {"one", "two", "three"}
        assert (await here.reason("four")).startswith(FULL)
        assert await here.condition("crew") == ("Scheduled", "")

    tell(story)


def test_a_gang_with_too_few_members_holds_no_node():
    """The third member is of another scheduler. It counts once it is bound, so no member waits for it in Permit."""

    async def story(here):
        await here.add_node("a", cpu="4")
        await here.add_group("crew", 3)
        await here.add("one", "two", of="crew")
        await here.add("theirs", of="crew", scheduler="another-scheduler")
        await here.settle()
        here.nothing_is_held()
        assert await here.nodes() == {}
        assert (await here.condition("crew"))[0] == "Unschedulable"
        await here.client.bind("default", "theirs", "a")
        await here.settle()
        assert set(await here.nodes()) == {"one", "two", "theirs"}

    tell(story)


def test_members_of_two_profiles():
    async def story(here):
        await here.add_node("a", cpu="4")
        await here.add_group("crew", 2)
        await here.add("one", of="crew")
        await here.add("two", of="crew", scheduler="other")
        await here.settle()
        expected = "gang crew: 2 members are needed, and their scheduler names differ: default-scheduler, other"
        assert await here.condition("crew") == ("Unschedulable", expected)

    tell(story, profiles=("default-scheduler", "other"))


def test_a_basic_group_is_not_a_gang():
    async def story(here):
        await here.add_group("web")
        await here.add("one", "two", of="web")
        await here.settle()
        assert await here.condition("web") == ("Unschedulable", "no nodes available to schedule pods")
        await here.add_node("a", cpu="1")
        await here.settle()
        assert len(await here.nodes()) == 1
        assert await here.condition("web") == ("Scheduled", "")

    tell(story)


class Broken(Plugin):
    name = "Broken"
    fails_for = "two"

    def filter(self, cycle, pod, node):
        if pod.name == self.fails_for:
            raise ZeroDivisionError("oh")


def test_an_error_for_one_member_fails_the_gang():
    broken = Broken()

    async def story(here):
        await here.add_node("a", cpu="4")
        await here.add_group("crew", 3)
        await here.add("one", "two", "zzz", of="crew")
        await here.settle()
        problem = 'running "Broken" filter plugin: ZeroDivisionError: oh'
        expected = f"gang crew: 1 of 3 members fit; the next one: {problem}"
        assert await here.condition("crew") == ("SchedulerError", expected)
        broken.fails_for = ""
        await here.settle()
        assert await here.condition("crew") == ("Scheduled", "")

    tell(story, plugins=[broken])


def test_a_condition_is_retried_until_the_server_accepts_it():
    async def story(here):
        here.client.server.faults.add(Fault(verb="patch", resource=POD_GROUP.plural, answer=500, times=3))
        await here.add_node("a")
        await here.add_group("crew", 1)
        await here.add("one", of="crew")
        await here.settle()
        assert await here.condition("crew") == ("Scheduled", "")

    tell(story)


# One topology domain


def test_a_gang_is_placed_in_a_domain_that_it_fits_in():
    async def story(here):
        await here.add_node("a", "r1", cpu="3")
        await here.add_node("b", "r2", cpu="2")
        await here.add_node("c", "r2", cpu="2")
        await here.add_node("d", cpu="9")
        await here.add_group("crew", 4, "rack")
        await here.add(*(f"m-{number}" for number in range(4)), of="crew")
        await here.settle()
        assert sorted((await here.nodes()).values()) == ["b", "b", "c", "c"]
        assert await here.condition("crew") == ("Scheduled", "")

    tell(story, TOPOLOGY)


def test_a_gang_that_fits_in_no_domain_reports_the_best_one():
    async def story(here):
        await here.add_node("a", "r1", cpu="3")
        await here.add_node("b", "r2", cpu="2")
        await here.add_group("crew", 4, "rack")
        await here.add(*(f"m-{number}" for number in range(4)), of="crew")
        await here.settle()
        assert await here.nodes() == {}
        expected = f"gang crew: 3 of 4 members fit in r1, the best of 2 placements; the next one: {FULL}"
        assert await here.condition("crew") == ("Unschedulable", f"{expected}")
        await here.add_node("c", "r2", cpu="2")
        await here.settle()
        assert sorted((await here.nodes()).values()) == ["b", "b", "c", "c"]

    tell(story, TOPOLOGY)


def test_a_gang_is_pending_until_a_node_has_the_topology_label():
    async def story(here):
        await here.add_node("a", cpu="3")
        await here.add_group("crew", 2, "rack")
        await here.add("one", "two", of="crew")
        await here.settle()
        assert await here.condition("crew") == ("Unschedulable", "gang crew: no feasible placements found")
        await here.client.patch(NODE, "a", {"metadata": {"labels": {"rack": "r1"}}})
        await here.settle()
        assert set(await here.nodes()) == {"one", "two"}

    tell(story, TOPOLOGY)


def test_later_members_are_placed_in_the_domain_of_the_others():
    async def story(here):
        await here.add_node("a", "r1", cpu="3")
        await here.add_group("crew", 2, "rack")
        await here.add("one", "two", of="crew")
        await here.settle()
        await here.add_node("b", "r2", cpu="9")
        await here.add("three", "four", of="crew")
        await here.settle()
        assert set((await here.nodes()).values()) == {"a"}
        (waiting,) = {"three", "four"} - (await here.nodes()).keys()
        expected = "preemption: not eligible due to placement-based pod group scheduling limitation"
        assert expected in await here.reason(waiting)
        await here.add_node("c", "r1")
        await here.settle()
        assert set((await here.nodes()).values()) == {"a", "c"}

    tell(story, TOPOLOGY)


def test_a_basic_group_with_a_constraint_takes_the_larger_domain():
    async def story(here):
        await here.add_node("a", "r1", cpu="1")
        await here.add_node("b", "r2", cpu="3")
        await here.add(*(f"m-{number}" for number in range(4)), of="web")
        await here.settle(0.1)
        await here.add_group("web", None, "rack")
        await here.settle()
        assert sorted((await here.nodes()).values()) == ["b", "b", "b"]

    tell(story, TOPOLOGY)


def test_a_gang_with_a_topology_constraint_does_not_preempt():
    async def story(here):
        await here.add_node("a", "r1")
        await here.add("low", cpu="2", priority=-5)
        await here.settle()
        await here.add_group("crew", 2, "rack")
        await here.add("one", "two", of="crew")
        await here.settle()
        assert set(await here.nodes()) == {"low"}
        await here.delete("low")
        await here.settle()
        assert set(await here.nodes()) == {"one", "two"}

    tell(story, TOPOLOGY)


def test_without_the_plugin_a_constraint_is_ignored():
    async def story(here):
        await here.add_node("a", "r1", cpu="1")
        await here.add_node("b", "r2", cpu="1")
        await here.add_group("crew", 2, "rack")
        await here.add("one", "two", of="crew")
        await here.settle()
        assert set((await here.nodes()).values()) == {"a", "b"}

    tell(story)


def test_a_group_bound_in_two_domains_is_an_error():
    async def story(here):
        for node, rack in (("a", "r1"), ("b", "r2")):
            await here.add_node(node, rack)
            await here.add(f"on-{node}", of="crew", scheduler="another-scheduler")
            await here.client.bind("default", f"on-{node}", node)
        await here.add_group("crew", 3, "rack")
        await here.add("late", of="crew")
        await here.settle()
        reason, message = await here.condition("crew")
        assert reason == "SchedulerError"
        assert "more than 1 domain found for pod group: r1, r2" in message

    tell(story, TOPOLOGY)


# Preemption as a whole


def test_a_group_preempts_by_its_priority_and_victim_groups_as_a_whole():
    async def story(here):
        for name in "abc":
            await here.add_node(name, cpu="1")
        await here.add_group("humble", 2, disruptionMode="PodGroup", priority=-1)
        await here.add("h-0", "h-1", of="humble")
        await here.add("plain", priority=1)
        await here.settle()
        await here.add_group("vip", 1, priority=10)
        await here.add("us", of="vip")
        await here.settle(0.5)
        await here.settle()
        assert here.evicted() == {"h-0", "h-1"}
        assert {"us", "plain"} <= set(await here.nodes())
        events = [each.document for each in here.client.transport.sent("create", "events")]
        notes = [each["note"] for each in events if each["reason"] == "Preempted"]
        uid = (await here.client.get(POD_GROUP, "vip", "default")).metadata.uid
        assert notes == [f"Preempted by podgroup {uid} on node cluster"] * 2

    tell(story, WHOLE)


def test_a_group_that_does_not_fit_either_way_does_not_preempt():
    async def story(here):
        await here.add_node("a", cpu="1")
        await here.add("low", priority=-5)
        await here.settle()
        await here.add_group("vip", 2, priority=10)
        await here.add("one", "two", of="vip")
        await here.settle()
        assert here.evicted() == set()
        expected = "preemption: the gang would not fit even if all pods of lower priority were evicted"
        assert expected in (await here.condition("vip"))[1]

    tell(story, WHOLE)


def test_a_group_without_priority_does_not_preempt_whatever_its_pods_have():
    async def story(here):
        await here.add_node("a", cpu="1")
        await here.add("zero")
        await here.settle()
        await here.add_group("crew", 1)
        await here.add("one", of="crew", priority=100)
        await here.settle()
        assert set(await here.nodes()) == {"zero"}
        assert "No preemption victims found for incoming preemptor" in (await here.condition("crew"))[1]

    tell(story, WHOLE)


def test_a_group_evicts_no_other_pods_while_its_victims_terminate():
    async def story(here):
        for name in "ab":
            await here.add_node(name, cpu="1")
        await here.add("low-a", "low-b", priority=-5)
        await here.settle()
        await here.add_group("vip", 1, priority=10)
        here.client.server.faults.add(Fault(verb="delete", answer=500, times=3))
        await here.add("us", of="vip")
        await here.settle()
        assert len(here.evicted()) == 1
        assert "us" in await here.nodes()

    tell(story, WHOLE)


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
def test_victims_that_do_not_suffice_are_an_error(answer):
    picky = Picky()

    async def story(here):
        await here.add_node("a", cpu="1")
        await here.add("low", priority=-5)
        await here.settle()
        low = here.scheduler.state.objects[POD]["default/low"]
        await here.add_group("crew", 2)
        await here.add("one", "two", of="crew")
        if answer is not None:
            picky.answer = GangVictims(low, (low,))
        await here.settle()
        reason, message = await here.condition("crew")
        assert reason == "SchedulerError"
        expected = "GangPostFilter: ZeroDivisionError: oh" if answer is None else "does not fit without the victims"
        assert expected in message
        assert set(await here.nodes()) == {"low"}

    tell(story, plugins=[picky])
