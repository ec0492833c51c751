"""Backoff bounds the attempts of a pod whatever a plugin does: random plugins in a complete scheduler."""

import asyncio
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.stories import in_virtual_time, scheduling

from bayplan.core.framework.events import Action, ClusterEvent, EventHint
from bayplan.core.framework.interface import Plugin, Wait
from bayplan.core.framework.status import Status
from bayplan.testing.builders import make_node

SECONDS = 60.0
MOST_ATTEMPTS = 20
"""Backoffs of 1, 2, 4, 8 and then 10 seconds leave room for 9 attempts; rejected pods may be popped early once each."""

ANSWERS = {
    "pass": lambda: None,
    "reject": lambda: "no",
    "pending": lambda: Status.pending("not yet"),
    "error": lambda: Status.error("broken"),
    "wait": lambda: Wait(0.2),
    "wait long": lambda: Wait(30.0),
}
EVENTS = {
    "all": [EventHint(ClusterEvent("*", Action.ALL))],
    "pods": [EventHint(ClusterEvent("Pod", Action.ALL))],
    "none": [],
}


@dataclass(frozen=True)
class Behavior:
    """What a plugin does at its points; `events` is None where it does not register any."""

    filter: str = "pass"
    reserve: str = "pass"
    permit: str = "pass"
    pre_bind: str = "pass"
    rejects_after: float | None = None
    events: str | None = None

    def plugin(self):
        """The plugin class. With `rejects_after`, a background task rejects waiting pods after so many seconds."""
        behavior = self

        class Odd(Plugin):
            name = "Odd"

            def __init__(self, handle):
                self.handle = handle

            def filter(self, cycle, pod, node):
                return ANSWERS[behavior.filter]()

            def reserve(self, cycle, pod, node_name):
                return ANSWERS[behavior.reserve]()

            def unreserve(self, cycle, pod, node_name):
                pass

            def permit(self, cycle, pod, node_name):
                return ANSWERS[behavior.permit]()

            async def pre_bind(self, cycle, pod, node_name):
                await asyncio.sleep(0.01)
                return ANSWERS[behavior.pre_bind]()

        if behavior.events is not None:
            Odd.events = lambda self: EVENTS[behavior.events]
        if behavior.rejects_after is not None:

            async def background(self):
                while True:
                    await asyncio.sleep(behavior.rejects_after)
                    for waiting in self.handle.waiting_pods:
                        waiting.reject(self.name, "not today")

            Odd.background = background
        return Odd


async def attempts(behavior, pods):
    """The attempts of each pending pod after SECONDS on a cluster where nothing else happens."""
    async with scheduling(make_node("a", cpu="2"), plugins=[behavior.plugin()]) as here:
        await here.add(*(f"p{number}" for number in range(pods)), cpu="1500m")
        await here.settle(SECONDS)
        return [queued.attempts for queued in here.scheduler.queue]


@settings(max_examples=25)
@given(
    st.builds(
        Behavior,
        filter=st.sampled_from(["pass", "pass", "reject", "pending", "error"]),
        reserve=st.sampled_from(["pass", "pass", "reject", "error"]),
        permit=st.sampled_from(["pass", "reject", "wait", "wait long", "error"]),
        pre_bind=st.sampled_from(["pass", "pass", "reject", "error"]),
        rejects_after=st.sampled_from([None, 0.01, 0.05]),
        events=st.sampled_from([None, *EVENTS]),
    ),
    st.integers(1, 3),
)
@example(Behavior(permit="wait long", rejects_after=0.01), 1)
@example(Behavior(permit="wait"), 1)
@example(Behavior(reserve="reject"), 2)
def test_attempts_are_bounded_by_backoff(behavior, pods):
    assert max(in_virtual_time(attempts(behavior, pods)), default=0) <= MOST_ATTEMPTS
