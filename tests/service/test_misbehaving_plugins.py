"""Any exception of a plugin, at any extension point, is its error: the scheduler continues."""

import asyncio
import logging

import pytest
from tests.support.stories import in_virtual_time, scheduling

from bayplan.core.api.kinds import NODE
from bayplan.core.framework.events import ALL_EVENTS, EventHint
from bayplan.core.framework.interface import Plugin, Wait
from bayplan.core.framework.status import SKIP
from bayplan.testing.builders import make_node

NO_EXCEPTIONS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit)
"""What plugins can raise that is no `Exception`."""
FAILS = [
    "pre_enqueue",
    "pre_filter",
    "filter",
    "pre_score",
    "score",
    "normalize_scores",
    "reserve",
    "permit",
    "gang_of",
    "pre_bind_pre_flight",
    "pre_bind",
    "bind",
]
"""The methods whose error leaves the pod pending."""
PASSES = ["post_bind", "sign", "rests_on", "sort_key", "background", "started"]
"""The methods whose error does not stop the pod."""
ASYNC = {"pre_bind", "bind", "background"}


def raising(method, error):
    """A plugin class that raises at one method for the pod "bad", and otherwise accepts everything."""

    defaults = {"score": 0, "bind": SKIP, "sign": (), "rests_on": ()}

    def fail_for_bad(pod):
        if pod is None or pod.name == "bad":
            raise error("oh")

    def synchronous(self, *arguments):
        pods = [argument for argument in arguments if hasattr(argument, "uid")]
        fail_for_bad(pods[0] if pods else None)
        return defaults.get(method)

    async def asynchronous(self, *arguments):
        await asyncio.sleep(0)
        return synchronous(self, *arguments)

    body = {
        "name": "Odd",
        "filter": lambda self, cycle, pod, node: None,
        "sign": lambda self, pod: pod.name,
        "permit": lambda self, cycle, pod, node_name: None,
        "unreserve": lambda self, cycle, pod, node_name: None,
        "reserve": lambda self, cycle, pod, node_name: None,
        "score": lambda self, cycle, pod, node: 0,
        "pre_bind": lambda self, cycle, pod, node_name: None,
        method: asynchronous if method in ASYNC else synchronous,
    }
    if method == "normalize_scores":
        body[method] = lambda self, cycle, pod, scores, nodes: fail_for_bad(pod) or scores
    if method == "sort_key":
        body[method] = lambda self, pod, queued_at: fail_for_bad(pod) or queued_at
    if method == "started":
        body["__init__"] = lambda self, handle: handle.start("odd work", lambda: asynchronous(self))
    return type("Odd", (Plugin,), body)


async def schedule(plugin, *, seconds=5.0, names=("bad", "good"), during=None):
    """Run a scheduler with the plugin and two pods for a while. Returns the nodes by pod, and the pods' messages."""
    async with scheduling(make_node("a"), make_node("b"), plugins=[plugin]) as here:
        await here.add(*names)
        await here.settle(seconds / 2)
        if during is not None:
            await during(here.client)
        await here.settle(seconds / 2)
    # what follows the end of the scheduler, such as a cancelled binding, counts, too
    messages = {queued.pod.name: queued.message for queued in here.scheduler.queue}
    return {name: here.nodes().get(name) for name in names}, messages


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("method", [*FAILS, *PASSES])
def test_whatever_a_plugin_raises_is_its_error(method, error, caplog):
    nodes, messages = in_virtual_time(schedule(raising(method, error)))
    assert nodes["good"], "the scheduler continues"
    if method in FAILS:
        assert not nodes["bad"]
        assert "Odd" in messages["bad"]
        assert messages["bad"].endswith(f": {error.__name__}: oh")
    else:
        assert nodes["bad"]
    [shown] = [record for record in caplog.records if "in fail_for_bad" in (record.exc_text or "")]
    assert shown.levelno == logging.ERROR
    assert f"{error.__name__}: oh" in shown.message
    assert f'(most recent call last):\n  File "{__file__}", line ' in shown.exc_text
    assert "bayplan/core/framework" not in shown.exc_text


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=lambda error: error.__name__)
def test_hint_that_raises_requeues_the_pod(error, caplog):
    def hint(pod, old, new):
        raise error("oh")

    class Odd(Plugin):
        name = "Odd"
        open = False

        def filter(self, cycle, pod, node):
            return None if pod.name == "good" or node.labels.get("open") else "closed"

        def events(self):
            yield EventHint(ALL_EVENTS, hint)

    async def open_node(client):
        await client.patch(NODE, "a", {"metadata": {"labels": {"open": "yes"}}})

    nodes, _ = in_virtual_time(schedule(Odd, during=open_node))
    assert nodes["bad"] == "a"
    assert f"plugin Odd failed in the hint for UpdateNodeLabel: {error.__name__}: oh" in caplog.text or (
        f"plugin Odd failed in the hint for NodeUpdateNodeLabel: {error.__name__}: oh" in caplog.text
    )


def test_frames_are_logged_once_and_then_counted(caplog):
    class Odd(Plugin):
        name = "Odd"

        def pre_filter(self, cycle, pod, nodes):
            raise ValueError("of\ntwo lines")

    _, messages = in_virtual_time(schedule(Odd, seconds=120.0))
    assert messages["bad"] == 'running PreFilter plugin "Odd": ValueError: of two lines'
    shown = [record for record in caplog.records if record.name == "bayplan.foundations.failures"]
    assert len(shown) == 2
    assert "in pre_filter" in shown[0].exc_text
    assert "; 10 times so far" in shown[1].message


def test_cancelling_a_binding_is_not_an_error_of_the_plugin(caplog):
    """The scheduler stops while PreBind waits: that cancellation ends the task."""
    cancelled = []

    class Slow(Plugin):
        name = "Slow"

        async def pre_bind(self, cycle, pod, node_name):
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(pod.name)
                raise

    nodes, _ = in_virtual_time(schedule(Slow, names=["bad"]))
    assert nodes == {"bad": None}
    assert cancelled == ["bad"]
    assert "plugin Slow failed" not in caplog.text


@pytest.mark.parametrize(
    ("method", "message"),
    [("pre_bind", "a PreBind plugin cancelled its own task"), ("bind", "a plugin cancelled the task of the binding")],
)
def test_binding_whose_task_a_plugin_cancels_is_undone(method, message):
    async def cancel(self, cycle, pod, node_name):
        if pod.name == "bad":
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        return SKIP if method == "bind" else None

    nodes, messages = in_virtual_time(schedule(type("Odd", (Plugin,), {"name": "Odd", method: cancel})))
    assert nodes["good"]
    assert nodes["bad"] is None
    assert messages["bad"] == message


def test_background_work_that_cancels_its_own_task_is_restarted(caplog):
    calls = []

    class Odd(Plugin):
        name = "Odd"

        def filter(self, cycle, pod, node):
            return None

        async def background(self):
            calls.append(1)
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    nodes, _ = in_virtual_time(schedule(Odd, seconds=25.0))
    assert all(nodes.values())
    assert len(calls) == 3
    assert "the background work of plugin Odd failed: CancelledError" in caplog.text


def test_waiting_on_a_task_that_was_cancelled_is_an_error_of_the_plugin():
    class Odd(Plugin):
        name = "Odd"

        async def pre_bind(self, cycle, pod, node_name):
            task = asyncio.create_task(asyncio.sleep(1))
            task.cancel()
            await task

    _, messages = in_virtual_time(schedule(Odd))
    assert messages["bad"] == 'running PreBind plugin "Odd": CancelledError'


def test_keys_that_cannot_be_compared_sort_last(caplog):
    class Odd(Plugin):
        name = "Odd"

        def sort_key(self, pod, queued_at):
            return None if pod.name == "bad" else queued_at

    nodes, _ = in_virtual_time(schedule(Odd))
    assert all(nodes.values())
    assert "plugin Odd failed in QueueSort: TypeError" in caplog.text


def test_plugin_that_raises_in_gang_of_delays_no_other_pods(caplog):
    class Odd(Plugin):
        name = "Odd"

        def permit(self, cycle, pod, node_name):
            return Wait(1.0) if pod.name == "bad" else None

        def gang_of(self, pod):
            if pod.name == "bad":
                raise SystemExit

    nodes, messages = in_virtual_time(schedule(Odd))
    assert nodes["good"]
    assert messages["bad"] == "plugin Odd failed in GangOf: SystemExit"
