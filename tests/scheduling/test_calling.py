"""An attempt calls plugins through `Options.call`, and only through it."""

import random

import pytest

from bayplan.core.framework.calling import call
from bayplan.core.framework.status import PluginError
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_cluster, make_node, make_pod


class Listener:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def call(self, plugin, point, method, /, *arguments):
        self.calls.append((plugin.name, point))
        return call(plugin, point, method, *arguments)

    def points(self) -> set[str]:
        return {point for _, point in self.calls}


@pytest.fixture
def cluster():
    return make_cluster(*(make_node(f"node-{number}") for number in range(4)))


def test_the_caller_calls_every_point(cluster) -> None:
    listener = Listener()
    decision = decide(cluster.profile, cluster.state, make_pod("p", cpu="1"), random.Random(1), call=listener.call)
    assert decision.node
    assert listener.points() == {"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"}
    assert decision.cycle.call == listener.call, "the binding cycle uses the same caller"


def test_the_caller_calls_plugins_in_what_ifs(cluster) -> None:
    listener = Listener()
    for number in range(4):
        cluster.state.set_pod(make_pod(f"low-{number}", cpu="4", node=f"node-{number}"))
    vip = make_pod("vip", cpu="4", priority=10)
    decision = decide(cluster.profile, cluster.state, vip, random.Random(1), call=listener.call)
    assert decision.victims
    first = listener.calls.index(("DefaultPreemption", "PostFilter"))
    assert ("NodeResourcesFit", "Filter") in listener.calls[first:]


def test_shared_rows_are_refreshed_through_the_caller_of_the_attempt(cluster) -> None:
    sharing, listeners = Sharing(cluster.profile), [Listener() for _ in range(5)]
    for number, listener in enumerate(listeners):
        before = [len(each.calls) for each in listeners]
        pod = make_pod(f"p-{number}", cpu="100m")
        decision = decide(
            cluster.profile, cluster.state, pod, random.Random(1), start=sharing.start, call=listener.call
        )
        cluster.state.assume(pod, decision.node)
        changed = [each for each, count in zip(listeners, before, strict=True) if len(each.calls) != count]
        assert changed == [listener]
    assert (sharing.used, sharing.unused) == (4, 1)


def test_an_exception_gets_the_plugin_name() -> None:
    class Broken:
        name = "Broken"

    with pytest.raises(PluginError, match='running "Broken" filter plugin: ZeroDivisionError: division by zero'):
        call(Broken(), "Filter", lambda: 1 / 0)
    inner = PluginError("Other", "Score", "already named")

    def raises() -> None:
        raise inner

    with pytest.raises(PluginError) as caught:
        call(Broken(), "Filter", raises)
    assert caught.value is inner
