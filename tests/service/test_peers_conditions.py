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


def test_conditions_of_all_pods_follow_the_attempt_of_one():
    async def story():
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
            for name in NAMES:
                await client.create(POD, pod(name))
            await asyncio.sleep(30)
            before, attempts = await pending_messages(client), attempts_of(scheduler)
            await client.create(NODE, tainted("tainted-1"))
            await asyncio.sleep(30)
            after, more = await pending_messages(client), attempts_of(scheduler) - attempts
            stop.set()
            await running
            return before, after, more

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        before, after, more = runner.run(story())
    text = "0/{} nodes are available: 1 Insufficient cpu, {} node(s) had untolerated taint(s)"
    assert before == dict.fromkeys(NAMES, text.format(2, 1))
    assert after == dict.fromkeys(NAMES, text.format(3, 2))
    assert more < len(NAMES)
