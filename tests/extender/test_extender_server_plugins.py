"""Which plugins an extender asks: those that somebody names, and for which pods."""

from __future__ import annotations

import pytest
from asking import cluster, no_c, node, pod, serving

from bayplan import Plugin, Wait, filter_plugin, score_plugin
from bayplan.cluster.state import ClusterState
from bayplan.config import ConfigurationError, PluginLoadError
from bayplan.extender.plugins import plugins_alone
from bayplan.extender.snippet import extenders_snippet
from bayplan.framework.profile import Point
from bayplan.testing.offline import OfflineHandle

pytestmark = pytest.mark.feature("Serving as an extender: which plugins are asked")


@filter_plugin
def no_a(_pod, node):
    return "a is out" if node.name == "a" else None


class Binds(Plugin):
    name = "Binds"

    def bind(self, cycle, pod, node_name):
        return None


class OutOfReach(Plugin):
    name = "OutOfReach"

    def permit(self, cycle, pod, node_name):
        return Wait(1)

    def filter(self, cycle, pod, node):
        return None


class Sorts(Plugin):
    name = "Sorts"

    def sort_key(self, pod, queued_at):
        return queued_at


def enabled(*names, point="multiPoint"):
    return {point: {"enabled": [{"name": name} for name in names]}}


def profile(name, plugins, **more):
    return {"schedulerName": name, "plugins": plugins, **more}


UNSCHEDULABLE = node("cordoned", spec={"unschedulable": True})


async def test_alone_they_are_asked_for_every_pod_and_nobody_else_is():
    async with serving(no_c) as extender:
        answer = await extender.filter_whole(UNSCHEDULABLE, node("c"), Pod=pod(schedulerName="whoever"))
    assert answer["FailedNodes"] == {"c": "c is out"}
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["cordoned"]


async def test_a_configuration_enables_in_tree_plugins_by_name_only():
    configuration = {"profiles": [profile("mine", enabled("no_c", "NodeUnschedulable"))]}
    async with serving(no_c, configuration=configuration) as extender:
        tainted = node("tainted", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
        answer = await extender.filter_whole(UNSCHEDULABLE, node("c"), tainted)
    assert answer["FailedNodes"] == {"c": "c is out"}
    assert list(answer["FailedAndUnresolvableNodes"]) == ["cordoned"]
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["tainted"]


async def test_of_several_profiles_the_pod_chooses_by_name():
    configuration = {"profiles": [profile("one", enabled("no_a")), profile("two", enabled("no_c", point="filter"))]}
    async with serving(no_a, no_c, configuration=configuration) as extender:
        nodes = [node("a"), node("c")]
        for name, failed in (("one", "a"), ("two", "c")):
            answer = await extender.filter_whole(*nodes, Pod=pod(schedulerName=name))
            assert list(answer["FailedNodes"]) == [failed]
        answer = await extender.filter_whole(*nodes, Pod=pod(schedulerName="three"))
    assert answer["Error"] == "no profile of the extender is for schedulerName 'three': it has one, two"


async def test_weights_and_arguments_come_from_the_configuration():
    class Steep(Plugin):
        name = "Steep"
        arguments = dict[str, int]

        def __init__(self, args):
            self._args = args

        def score(self, cycle, pod, node):
            return self._args["score"]

    flat = score_plugin(name="flat")(lambda _pod, _node: 0)
    configuration = {
        "profiles": [
            {
                "plugins": {"score": {"enabled": [{"name": "Steep", "weight": 3}, {"name": "flat"}]}},
                "pluginConfig": [{"name": "Steep", "args": {"score": 80}}],
            }
        ]
    }
    async with serving(Steep, flat, configuration=configuration) as extender:
        assert await extender.scores(node("a")) == {"a": 6}  # 3 * 80 of 400
        assert extender.running.profiles.weight == 4


@pytest.mark.parametrize(
    ("plugins", "verbs", "alone"),
    [
        pytest.param([no_c], ["filter", "preempt"], ["filter"], id="a filter"),
        pytest.param([score_plugin(name="s")(lambda _pod, _node: 1)], ["prioritize"], ["prioritize"], id="a score"),
        pytest.param([Binds], ["bind"], [], id="a binder"),
    ],
)
async def test_verbs_are_those_that_plugins_are_good_for(plugins, verbs, alone):
    async with serving(*plugins, client=cluster("a")) as extender:
        assert list(extender.running.verbs) == verbs
    async with serving(*plugins) as extender:
        assert list(extender.running.verbs) == alone


async def test_a_binder_that_the_configuration_names_counts():
    configuration = {"profiles": [profile("x", enabled("no_c") | enabled("DefaultBinder", point="bind"))]}
    async with serving(no_c, configuration=configuration, client=cluster("a")) as extender:
        assert list(extender.running.verbs) == ["filter", "preempt", "bind"]


async def test_what_is_out_of_reach_is_said():
    async with serving(OutOfReach, no_c) as extender:
        assert extender.running.profiles.not_asked() == [
            "plugin OutOfReach is not asked at permit: an extender does not get there"
        ]


def test_an_order_of_the_queue_is_not_in_the_way():
    profiles = plugins_alone([Sorts, no_c], OfflineHandle(ClusterState()))
    assert [each.name for each in profiles.profiles["extender"].at(Point.QUEUE_SORT)] == ["PrioritySort"]


@pytest.mark.parametrize(
    ("plugins", "configuration", "error", "message"),
    [
        pytest.param([Sorts], None, PluginLoadError, "nothing that an extender is asked for", id="nothing to ask"),
        pytest.param([no_c, no_c], None, PluginLoadError, "'no_c' has the name of another one", id="twice"),
        pytest.param([no_c], {}, PluginLoadError, "nothing that an extender is asked for", id="loaded, not enabled"),
        pytest.param(
            [],
            {"profiles": [profile("x", enabled("no_c"))]},
            ConfigurationError,
            "plugin 'no_c' does not exist",
            id="enabled, not loaded",
        ),
        pytest.param([], {}, PluginLoadError, "nothing that an extender is asked for", id="an empty configuration"),
    ],
)
async def test_plugins_that_do_not_go_together(plugins, configuration, error, message):
    with pytest.raises(error, match=message):
        async with serving(*plugins, configuration=configuration):
            pass


def test_the_snippet():
    paths = {"filter": "/a/filter", "prioritize": "/prioritize", "preempt": "/preempt", "bind": "/bind"}
    text = extenders_snippet(
        "https://e:1", ("filter", "prioritize"), paths, weight=3, watches=True, tls={"caFile": "ca.crt"}
    )
    assert text == (
        "extenders:\n"
        "- urlPrefix: https://e:1\n"
        "  filterVerb: a/filter\n"
        "  prioritizeVerb: prioritize\n"
        "  weight: 3\n"
        "  nodeCacheCapable: true\n"
        "  enableHTTPS: true\n"
        "  tlsConfig:\n"
        "    caFile: ca.crt\n"
    )
