"""Plugins that fail or answer wrongly at one point, at first: the attempt fails, and the pod is retried."""

import numpy as np
import pytest
from tests.support.stories import in_virtual_time, scheduling
from tests.support.tables import cases

from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.status import SKIP, Code, Status
from bayplan.testing.builders import make_node


class Broken(Plugin):
    """Calls `behave` at one extension point for the pod `unlucky`, the first two times."""

    name = "Broken"

    def __init__(self, behave):
        self.times = 0
        self._behave = behave

    def act(self, pod):
        if pod.name == "unlucky" and self.times < 2:
            self.times += 1
            return self._behave()
        return None


class BrokenFilter(Broken):
    def filter(self, cycle, pod, node):
        return self.act(pod)


class BrokenFilterNodes(Broken):
    def filter_nodes(self, cycle, pod, nodes):
        return self.act(pod)


class BrokenPreFilter(Broken):
    def pre_filter(self, cycle, pod, nodes):
        return self.act(pod)


class BrokenScore(Broken):
    def score(self, cycle, pod, node):
        answer = self.act(pod)
        return 1 if answer is None else answer


class BrokenScoreNodes(Broken):
    def score_nodes(self, cycle, pod, nodes):
        answer = self.act(pod)
        return np.zeros(len(nodes), dtype=np.int64) if answer is None else answer


class BrokenPreScore(Broken):
    def pre_score(self, cycle, pod, nodes):
        return self.act(pod)


class BrokenReserve(Broken):
    def reserve(self, cycle, pod, node_name):
        return self.act(pod)

    def unreserve(self, cycle, pod, node_name):
        raise RuntimeError("unreserve breaks too") if pod.name == "unlucky" else None


class BrokenPermit(Broken):
    def permit(self, cycle, pod, node_name):
        return self.act(pod)


class BrokenPreBind(Broken):
    async def pre_bind(self, cycle, pod, node_name):
        return self.act(pod)


class BrokenBind(Broken):
    async def bind(self, cycle, pod, node_name):
        answer = self.act(pod)
        return SKIP if answer is None else answer


class BrokenPostBind(Broken):
    def post_bind(self, cycle, pod, node_name):
        return self.act(pod)


def breaks():
    raise KeyError("missing")


class Odd:
    """A value that can be neither shown nor compared."""

    __hash__ = None

    def __repr__(self):
        raise ValueError("no repr")

    def __eq__(self, other):
        raise ValueError("no eq")


def notes(here, reason):
    events = [sent.document for sent in here.client.transport.sent("create", "events")]
    return [event["note"] for event in events if (event["reason"], event["regarding"]["name"]) == (reason, "unlucky")]


def conditions(here):
    """The reasons of the conditions that were written for the pod `unlucky`."""
    patches = [sent.document for sent in here.client.transport.sent("patch", "pods") if sent.info.name == "unlucky"]
    return {each.get("reason") for patch in patches for each in patch["status"].get("conditions") or ()}


def describe_decision(plugins, *names):
    """What has become of these pods in a cluster of two nodes once everything has settled."""

    async def story():
        async with scheduling(make_node("a"), make_node("b"), plugins=plugins) as here:
            await here.attempt(*names)
            here.nothing_is_held()
        return here

    return in_virtual_time(story())


@cases(
    "behave",
    {
        "raises": breaks,
        "float": lambda: 3.5,
        "object": object,
        "odd object": Odd,
        "odd reason": lambda: Status(Code.UNSCHEDULABLE, (Odd(),)),
    },
)
@pytest.mark.parametrize(
    "plugin",
    [
        BrokenPreFilter, BrokenFilter, BrokenFilterNodes, BrokenPreScore, BrokenScore, BrokenScoreNodes,
        BrokenReserve, BrokenPermit, BrokenPreBind, BrokenBind,
    ],
    ids=lambda plugin: plugin.__name__,
)  # fmt: skip
def test_failure_of_a_plugin_fails_the_attempt(plugin, behave, caplog):
    broken = plugin(behave)
    here = describe_decision([broken], "unlucky", "lucky")
    assert set(here.nodes()) == {"unlucky", "lucky"}
    assert broken.times == 2
    failure, *_ = notes(here, "FailedScheduling")
    assert "Broken" in failure
    assert failure in caplog.text
    assert "SchedulerError" in conditions(here)


def test_failure_in_post_bind_is_logged_only(caplog):
    here = describe_decision([BrokenPostBind(breaks)], "unlucky")
    assert set(here.nodes()) == {"unlucky"}
    assert notes(here, "Scheduled")
    assert "(pod default/unlucky, which is bound)" in caplog.text
    assert "Broken" in caplog.text


def test_plugin_that_always_fails_blocks_only_its_pods():
    broken = BrokenFilter(breaks)
    broken.times = -(10**6)
    here = describe_decision([broken], "unlucky", "lucky")
    assert broken.times > 3 - 10**6
    assert set(here.nodes()) == {"lucky"}
    assert "Broken" in here.reasons()["unlucky"]
    assert "SchedulerError" in conditions(here)
