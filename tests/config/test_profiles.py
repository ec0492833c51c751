"""Building profiles, and the errors of plugins that fail to start."""

import random
import sys
from pathlib import Path

import msgspec
import pytest
from tests.support.tables import cases

from bayplan import Plugin
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import (
    ConfigurationError,
    PluginLoadError,
    build_profiles,
    parse_configuration,
    read_configuration,
)
from bayplan.core.config.documents import parse_yaml
from bayplan.core.framework.profile import Point
from bayplan.core.scheduling import decide
from bayplan.testing.builders import make_cluster, make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def handle():
    return OfflineHandle(ClusterState())


class Limits(msgspec.Struct):
    most: int = 1


class Limited(Plugin):
    name = "Limited"
    arguments = Limits

    def __init__(self, args, handle):
        if args.most == 13:
            raise LookupError("no luck")
        self.most, self.handle = args.most, handle

    def filter(self, cycle, pod, node):
        return None


class Eventful(Plugin):
    name = "Eventful"

    def events(self):
        return ["Node"]

    def filter(self, cycle, pod, node):
        return None


def limited(name, most):
    return (
        f"- schedulerName: {name}\n"
        "  plugins: {multiPoint: {enabled: [{name: Limited}]}}\n"
        f"  pluginConfig: [{{name: Limited, args: {{most: {most}}}}}]\n"
    )


def build(text, *plugins):
    return build_profiles(parse_configuration(parse_yaml(HEAD + text)), handle(), plugins)


def test_each_profile_builds_its_plugins_with_its_arguments():
    profiles = build("profiles:\n" + limited("a", 3) + limited("b", 4), Limited)
    assert [profile.at(Point.FILTER)[-1].most for profile in profiles.values()] == [3, 4]


def test_plugins_that_fail_to_start_are_reported_for_all_profiles():
    with pytest.raises(ConfigurationError) as error:
        build("profiles:\n" + limited("a", 13) + limited("b", 1) + limited("c", 13), Limited)
    assert str(error.value).splitlines() == [
        "profiles[0].pluginConfig[0].args: plugin 'Limited' failed to start: LookupError: no luck",
        "profiles[2].pluginConfig[0].args: plugin 'Limited' failed to start: LookupError: no luck",
    ]


def test_invalid_events_are_reported_where_the_plugin_is_enabled():
    with pytest.raises(ConfigurationError) as error:
        build("profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: Eventful}]}}}]", Eventful)
    assert str(error.value).startswith(
        "profiles[0].plugins.filter.enabled[1]: plugin 'Eventful': events yielded 'Node', expected an EventHint("
    )


class ByName(Plugin):
    name = "ByName"

    def sort_key(self, pod, queued_at):
        return pod.name


@cases(
    "plugins, problem",
    {
        "two": (
            "multiPoint: {enabled: [{name: ByName}]}",
            "but PrioritySort and ByName are enabled: disable all but one in queueSort or multiPoint",
        ),
        "none": ("queueSort: {disabled: [{name: '*'}]}", "but none is enabled"),
        "one": ("queueSort: {disabled: [{name: '*'}], enabled: [{name: ByName}]}", ""),
    },
)
def test_one_plugin_sorts_the_queue(plugins, problem):
    text = f"profiles: [{{plugins: {{{plugins}}}}}]"
    if not problem:
        (profile,) = build(text, ByName).values()
        assert [plugin.name for plugin in profile.at(Point.QUEUE_SORT)] == ["ByName"]
        return
    with pytest.raises(ConfigurationError) as error:
        build(text, ByName)
    assert str(error.value) == (f"profiles[0].plugins.queueSort: exactly one plugin must sort the queue, {problem}")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An installed distribution with a plugin `nowhere`, and one that cannot be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "some_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bayplan.plugins]\nnowhere = some_policies:nowhere\nbroken = gone:x\n")
    (tmp_path / "some_policies.py").write_text(
        "from bayplan import filter_plugin\n@filter_plugin\ndef nowhere(pod, node): return 'not here'\n"
    )
    yield tmp_path / "config.yaml"
    sys.modules.pop("some_policies", None)


def enabling(path: Path, name):
    path.write_text(f"{HEAD}profiles: [{{plugins: {{filter: {{enabled: [{{name: {name}}}]}}}}}}]\n")
    return path


def test_naming_an_installed_plugin_is_enough(installed):
    reading = read_configuration(enabling(installed, "nowhere"))
    assert [plugin.name for plugin in reading.plugins] == ["nowhere"]
    (profile,) = build_profiles(reading.configuration, handle(), reading.plugins).values()
    assert profile.at(Point.FILTER)[-1].name == "nowhere"


def test_installed_plugins_that_are_not_named_are_not_imported(installed):
    assert read_configuration(enabling(installed, "NodeName")).plugins == []
    assert "some_policies" not in sys.modules


def test_an_installed_plugin_that_cannot_be_imported_is_reported(installed):
    with pytest.raises(PluginLoadError, match="some-policies: gone:x: ModuleNotFoundError: No module named 'gone'"):
        read_configuration(enabling(installed, "broken"))


EXTENDERS = """
extenders:
  - {urlPrefix: "http://a", managedResources: [{name: e.com/a, ignoredByScheduler: true}, {name: e.com/b}]}
  - {urlPrefix: "http://b", managedResources: [{name: e.com/c, ignoredByScheduler: true}]}
"""


@cases(
    "document, ignored",
    {
        "by extenders": (EXTENDERS, {"e.com/a", "e.com/c"}),
        "extenders override arguments": (
            EXTENDERS + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [e.com/d]}}]}]",
            {"e.com/a", "e.com/c"},
        ),
        "by arguments": (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [e.com/d]}}]}]",
            {"e.com/d"},
        ),
    },
)
def test_resources_that_only_extenders_check(document, ignored):
    wants = make_pod("p", resources=dict.fromkeys(("e.com/a", "e.com/b", "e.com/c", "e.com/d"), "1"))
    configuration = parse_configuration(parse_yaml(HEAD + document, "c.yaml"))
    cluster = make_cluster(make_node("a"))
    (profile,) = build_profiles(configuration, OfflineHandle(cluster.state)).values()
    reasons = decide(profile, cluster.state, wants, random.Random(0)).diagnosis.verdicts.of(0).reasons
    lacking = {"e.com/a", "e.com/b", "e.com/c", "e.com/d"} - ignored
    assert set(reasons) == {f"Insufficient {name}" for name in lacking}
