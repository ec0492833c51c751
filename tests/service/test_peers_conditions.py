"""Pods that are rejected for the same reasons have the message of the one that was attempted for all."""

from tests.support.stories import in_virtual_time, scheduling

from bayplan.testing.builders import make_node
from bayplan.testing.in_memory import load

NAMES = ("a", "b", "c")


def tainted(name):
    return make_node(name, cpu="8", taints=["dedicated=x:NoSchedule"])


def attempts_of(scheduler):
    return sum(queued.attempts for queued in scheduler.queue)


def pending_messages(here):
    return {name: message.partition(". ")[0] for name, message in here.reasons().items()}


async def after_a_new_node(names, seconds):
    """The messages of pods before and after a node was added, and the attempts since then."""
    async with scheduling(make_node("small", cpu="1"), tainted("tainted-0")) as here:
        await here.attempt(*names, cpu="4")
        before, attempts = pending_messages(here), attempts_of(here.scheduler)
        load(here.client.server, tainted("tainted-1"))
        await here.settle(seconds)
        return before, pending_messages(here), attempts_of(here.scheduler) - attempts


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
