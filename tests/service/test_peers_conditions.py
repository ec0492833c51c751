"""Pods that are rejected for the same reasons have the message of the one that was attempted for all."""

from __future__ import annotations

import asyncio

from bayplan.api.kinds import NODE, POD
from bayplan.config import default_profile
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.builders import make_node
from bayplan.testing.in_memory import make_client
from bayplan.testing.virtual_time import VirtualTime

NAMES = ("a", "b", "c")


def pod(name):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def tainted(name):
    return make_node(name, cpu="8", taints=["dedicated=x:NoSchedule"])


def attempts_of(scheduler):
    return sum(queued.attempts for queued in scheduler.queue)


async def pending_messages(client):
    messages = {}
    for each in (await client.list(POD)).items:
        [condition] = [each for each in each.status.conditions if each.type == "PodScheduled"]
        messages[each.metadata.name] = condition.message.partition(". ")[0]
    return messages


async def after_a_new_node(names, seconds):
    """The messages of pods before and after a node was added, and the attempts since then."""
    loop = asyncio.get_running_loop()
    async with make_client(make_node("small", cpu="1"), tainted("tainted-0")) as client:
        scheduler = Scheduler(
            client,
            lambda handle: {"default-scheduler": default_profile("default-scheduler", handle)},
            Settings(clock=loop),
        )
        stop = asyncio.Event()
        running = asyncio.create_task(scheduler.run(stop))
        await scheduler.synced.wait()
        for name in names:
            await client.create(POD, pod(name))
        await asyncio.sleep(30)
        before, attempts = await pending_messages(client), attempts_of(scheduler)
        await client.create(NODE, tainted("tainted-1"))
        await asyncio.sleep(seconds)
        after, more = await pending_messages(client), attempts_of(scheduler) - attempts
        stop.set()
        await running
        return before, after, more


def in_virtual_time(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


def message(nodes, with_taints):
    return f"0/{nodes} nodes are available: 1 Insufficient cpu, {with_taints} node(s) had untolerated taint(s)"


def test_conditions_of_all_pods_follow_the_attempt_of_one():
    before, after, more = in_virtual_time(after_a_new_node(NAMES, 30))
    assert before == dict.fromkeys(NAMES, message(2, 1))
    assert after == dict.fromkeys(NAMES, message(3, 2))
    assert more < len(NAMES)


def test_conditions_of_pods_that_were_not_attempted_are_written_at_a_bounded_rate():
    _, after, more = in_virtual_time(after_a_new_node([f"p{number}" for number in range(200)], 2))
    written = sum(each == message(3, 2) for each in after.values())
    assert 50 <= written <= 100 + more
