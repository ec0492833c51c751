"""Pods that name a request take its places; what is held survives a restart, and other instances know it."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from answering import answering

from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS
from bayplan.core.api.provisioning import CONSUMES


@pytest.mark.parametrize("annotation", CONSUMES)
async def test_pods_that_name_a_request_take_its_places(here, annotation):
    await here.story.add_node("a")
    await here.ask("train", count=2)
    await here.story.attempt("other")
    assert here.story.nodes() == {}
    await here.take("train", "one", annotation=annotation)
    assert here.story.nodes() == {"one": "a"}
    assert here.held() == {"a": 1}
    assert await here.details("train") == {"held-0": '{"a":1}'}
    await here.take("train", "two", annotation=annotation)
    assert here.story.nodes() == {"one": "a", "two": "a"}
    assert here.held() == {}
    await here.story.delete("one")
    await here.settle()
    assert set(here.story.nodes()) == {"two", "other"}  # a place is taken once


async def test_pods_come_before_their_room_is_found(here):
    await here.story.add_node("a")
    await here.story.attempt("other", cpu="2")
    await here.ask("train", count=2)
    await here.take("train", "one", "two")
    assert await here.answer("train") == ("Provisioned", "False", "CapacityIsNotFound")
    await here.story.delete("other")
    await here.settle()
    # Whoever has its turn first has the room: the pods, or the request, whose room they then take.
    assert set(here.story.nodes()) == {"one", "two"}


async def test_gated_pods_take_no_place_until_they_are_let_in(here):
    await here.story.add_node("a")
    await here.ask("train", count=2)
    await here.take("train", "one", "two", schedulingGates=[{"name": "wait"}])
    assert here.held() == {"a": 2}
    await here.client.patch(POD, "one", {"spec": {"schedulingGates": None}}, "default")
    await here.settle()
    assert here.story.nodes() == {"one": "a"}
    assert here.held() == {"a": 1}


async def test_the_place_of_a_pod_that_goes_before_it_is_bound_is_held_again(here):
    """The pod does not fit the place that it takes, because it selects another node."""
    await here.story.add_node("a")
    await here.ask("train", count=2)
    await here.take("train", "one", nodeSelector={"zone": "elsewhere"})
    assert here.held() == {"a": 1}
    await here.story.attempt("other")
    assert here.story.nodes() == {}
    await here.story.delete("one")
    await here.settle()
    assert here.held() == {"a": 2}
    assert here.story.nodes() == {}


async def test_members_of_a_gang_keep_their_places_while_they_wait_for_each_other(here):
    await here.story.add_node("a", cpu="3")
    await here.ask("train", count=3)
    await here.take("train", "one", schedulingGates=[{"name": "wait"}])
    await here.take("train", "two")
    await here.story.attempt("other")
    assert here.story.nodes() == {"two": "a"}


async def test_more_pods_than_places_are_decided_as_others(here):
    await here.story.add_node("a", cpu="3")
    await here.ask("train", count=2)
    await here.take("train", "one", "two", "three", "four")
    assert len(here.story.nodes()) == 3
    assert here.held() == {}


async def test_a_pod_that_needs_more_than_a_place_takes_none(here):
    await here.story.add_node("a", cpu="2")
    await here.ask("train", count=2)
    await here.take("train", "large", cpu="2")
    assert here.story.nodes() == {}
    assert here.held() == {"a": 2}


async def test_pods_of_higher_priority_are_not_kept_out_by_what_is_lent(here):
    await here.story.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await here.story.add_node("a", cpu="2")
    await here.ask("train", count=2)
    await here.take("train", "one", "two", nodeSelector={"zone": "elsewhere"})
    await here.story.attempt("urgent", priorityClassName="high")
    assert here.story.nodes() == {"urgent": "a"}


# Restarts, and other instances


async def test_what_is_held_survives_a_restart():
    async with answering() as before:
        await before.story.add_node("a", cpu="4")
        await before.ask("train", count=4)
        await before.take("train", "one")
        await before.take("train", "two", nodeSelector={"zone": "elsewhere"})
        assert before.held() == {"a": 2}
        client = before.client
        client.close = client_stays_open
    async with answering(client=client) as after:
        assert after.held() == {"a": 2}
        await after.story.attempt("other")
        assert after.story.nodes() == {"one": "a"}
        await after.take("train", "three", "four")
        assert set(after.story.nodes()) == {"one", "three", "four"}
        await after.story.delete("two")  # its place is held again
        await after.settle()
        assert after.held() == {"a": 1}
        await after.settle(600)
        assert await after.answer("train") == ("BookingExpired", "True", "CapacityReservationTimeExpired")
        assert set(after.story.nodes()) == {"one", "three", "four", "other"}


async def test_room_whose_node_went_in_the_meantime_is_revoked_at_the_next_start():
    async with answering() as before:
        await before.story.add_node("a")
        await before.story.add_node("b")
        await before.ask("train", count=4)
        client = before.client
        client.close = client_stays_open
    await client.delete(NODE, "a")
    async with answering(client=client) as after:
        assert await after.answer("train") == ("CapacityRevoked", "True", "NodeDeleted")
        assert after.held() == {}


class Election:
    """A leadership that the test decides about."""

    def __init__(self, *, leads):
        self.acquired, self.lost = asyncio.Event(), asyncio.Event()
        if leads:
            self.acquired.set()

    def leads(self):
        return self.acquired.is_set() and not self.lost.is_set()

    def let_expire(self):
        """There is no lease."""


async def test_another_instance_holds_the_same_room_and_takes_over():
    first, second = Election(leads=True), Election(leads=False)
    async with AsyncExitStack() as stack:
        leader = await stack.enter_async_context(answering(leadership=first))
        leader.client.close = client_stays_open
        follower = await stack.enter_async_context(answering(client=leader.client, leadership=second))
        await leader.story.add_node("a", cpu="4")
        await leader.ask("train", count=3)
        await leader.ask("large", cpu="3")
        assert follower.held() == leader.held() == {"a": 3}
        await leader.take("train", "one")
        assert follower.held() == leader.held() == {"a": 2}
        assert await leader.answer("large") == ("Provisioned", "False", "CapacityIsNotFound")
        first.acquired.clear()
        second.acquired.set()
        await follower.settle(600)
        assert await follower.answer("train") == ("BookingExpired", "True", "CapacityReservationTimeExpired")
        assert follower.held() == leader.held() == {"a": 1}
        assert await follower.answer("large") == ("Provisioned", "True", "CapacityIsFound")


async def client_stays_open():
    """Do nothing, in place of closing a client that another scheduler goes on with."""


# Beside another scheduler


@pytest.mark.scheduler(alone=True)
async def test_beside_another_scheduler_bound_pods_take_places(here):
    """Pods are left to the other scheduler. What it binds counts."""
    await here.story.add_node("a", cpu="3")
    await here.ask("train", count=2, by="kube-scheduler-two")
    await here.ask("large", count=2)
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")
    assert await here.answer("large") == ("Provisioned", "False", "CapacityIsNotFound")
    await here.take("train", "one", "two")
    assert here.story.nodes() == {}
    assert here.held() == {"a": 2}
    for name in ("one", "two"):
        await here.client.bind("default", name, "a")
    await here.settle()
    assert here.held() == {}
    for name in ("one", "two"):
        await here.story.delete(name)
    await here.settle()
    assert await here.answer("large") == ("Provisioned", "True", "CapacityIsFound")


@pytest.mark.scheduler(alone=True)
async def test_room_is_not_given_twice_when_the_other_scheduler_binds_elsewhere(here):
    """Pods of the first request are bound where room for the second one is held."""
    for node in ("a", "b"):
        await here.story.add_node(node, cpu="2")
    await here.ask("first", count=2)
    await here.ask("second", count=2)
    before = here.held()
    assert before == {"a": 2, "b": 2}
    await here.take("first", "one", "two")
    for name in ("one", "two"):
        await here.client.bind("default", name, "a")
        await here.settle()
    assert here.held() == {"b": 2}
    await here.ask("third")
    assert await here.answer("third") == ("Provisioned", "False", "CapacityIsNotFound")
