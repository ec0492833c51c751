"""Which plugins an extender runs, and for which pods."""

import pytest
from asking import cluster, no_c, node, pod, serving
from tests.support.tables import cases

from bayplan import Plugin, Wait, filter_plugin, score_plugin
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import ConfigurationError, PluginLoadError
from bayplan.core.framework.profile import Point
from bayplan.running.extender.plugins import profile_of_plugins
from bayplan.running.extender.snippet import extenders_snippet

pytestmark = pytest.mark.feature("Serving as an extender: enabled plugins")


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


async def test_without_a_configuration_only_the_given_plugins_run():
    async with serving(no_c) as extender:
        answer = await extender.filter_whole(UNSCHEDULABLE, node("c"), Pod=pod(schedulerName="another-scheduler"))
    assert answer["FailedNodes"] == {"c": "c is out"}
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["cordoned"]


async def test_in_tree_plugins_run_only_if_the_configuration_names_them():
    configuration = {"profiles": [profile("mine", enabled("no_c", "NodeUnschedulable"))]}
    async with serving(no_c, configuration=configuration) as extender:
        tainted = node("tainted", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
        answer = await extender.filter_whole(UNSCHEDULABLE, node("c"), tainted)
    assert answer["FailedNodes"] == {"c": "c is out"}
    assert list(answer["FailedAndUnresolvableNodes"]) == ["cordoned"]
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["tainted"]


async def test_the_scheduler_name_of_a_pod_selects_the_profile():
    configuration = {"profiles": [profile("one", enabled("no_a")), profile("two", enabled("no_c", point="filter"))]}
    async with serving(no_a, no_c, configuration=configuration) as extender:
        nodes = [node("a"), node("c")]
        for name, failed in (("one", "a"), ("two", "c")):
            answer = await extender.filter_whole(*nodes, Pod=pod(schedulerName=name))
            assert list(answer["FailedNodes"]) == [failed]
        answer = await extender.filter_whole(*nodes, Pod=pod(schedulerName="three"))
    assert answer["Error"] == "the extender has no profile for schedulerName 'three', but for one, two"


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


@cases(
    "plugins, verbs, alone",
    {
        "a filter": ([no_c], ["filter", "preempt"], ["filter"]),
        "a score": ([score_plugin(name="s")(lambda _pod, _node: 1)], ["prioritize"], ["prioritize"]),
        "a bind plugin": ([Binds], ["bind"], []),
    },
)
async def test_verbs_depend_on_the_plugins(plugins, verbs, alone):
    async with serving(*plugins, client=cluster("a")) as extender:
        assert list(extender.running.verbs) == verbs
    async with serving(*plugins) as extender:
        assert list(extender.running.verbs) == alone


async def test_a_named_default_binder_enables_bind():
    configuration = {"profiles": [profile("x", enabled("no_c") | enabled("DefaultBinder", point="bind"))]}
    async with serving(no_c, configuration=configuration, client=cluster("a")) as extender:
        assert list(extender.running.verbs) == ["filter", "preempt", "bind"]


async def test_unsupported_extension_points_are_reported():
    async with serving(OutOfReach, no_c) as extender:
        assert extender.running.profiles.unused_points() == [
            "plugin OutOfReach does not run at permit, which an extender does not have"
        ]


def test_queue_sort_plugins_are_ignored():
    profiles = profile_of_plugins([Sorts, no_c], OfflineHandle(ClusterState()))
    assert [each.name for each in profiles.profiles["extender"].at(Point.QUEUE_SORT)] == ["PrioritySort"]


@cases(
    "plugins, configuration, error, message",
    {
        "no supported extension point": ([Sorts], None, PluginLoadError, "no extension point of an extender"),
        "duplicate plugin": ([no_c, no_c], None, PluginLoadError, "name 'no_c' is already used by another plugin"),
        "loaded, not enabled": ([no_c], {}, PluginLoadError, "no extension point of an extender"),
        "enabled, not loaded": (
            [],
            {"profiles": [profile("x", enabled("no_c"))]},
            ConfigurationError,
            "plugin 'no_c' does not exist",
        ),
        "an empty configuration": ([], {}, PluginLoadError, "no extension point of an extender"),
    },
)
async def test_invalid_plugins_are_rejected(plugins, configuration, error, message):
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
