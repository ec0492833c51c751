"""Documents with what kube-scheduler 1.36 made of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.config import (
    Catalog,
    ConfigurationError,
    build_profile,
    build_profiles,
    load_configuration,
    parse_configuration,
    read_configuration,
)
from bayplan.config.documents import parse_yaml
from bayplan.config.writing import written
from bayplan.framework.profile import Point
from bayplan.plugins.registry import DEFAULT_PLUGINS, OTHER_PLUGINS, PLUGINS
from bayplan.testing.offline import OfflineHandle

DATA = Path(__file__).parents[1] / "data" / "kube-scheduler"
RECORDED = [json.loads(line) for line in (DATA / "configurations.jsonl").read_text().splitlines()]
ACCEPTED = [each for each in RECORDED if "profiles" in each]
CONVERTED_HERE = "old version"
"""The one configuration that kube-scheduler refuses and Bayplan reads."""
REFUSED = [each for each in RECORDED if "refused" in each and each["name"] != CONVERTED_HERE]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def handle():
    return OfflineHandle(ClusterState())


def profiles(text):
    return build_profiles(parse_configuration(parse_yaml(text)), handle())


def effective(profile):
    """Plugins by point, with weights where they score, as recorded."""
    points = {point.value: [plugin.name for plugin in plugins] for point, plugins in profile.plugins.items()}
    points = {point: names for point, names in points.items() if names}
    points.pop(Point.PLACEMENT_SCORE.value, None)  # was not recorded: nothing was asked there
    if "score" in points:
        points["score"] = [(name, profile.weights[name]) for name in points["score"]]
    return points


def recorded(points):
    """The same."""
    kept = {
        point: [(each["name"], each["weight"]) if point == "score" else each["name"] for each in plugins]
        for point, plugins in points.items()
    }
    return {point: plugins for point, plugins in kept.items() if plugins}


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["name"])
def test_effective_plugins(case):
    got = {name: effective(profile) for name, profile in profiles(case["yaml"]).items()}
    assert got == {name: recorded(points) for name, points in case["profiles"].items()}


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["name"])
def test_what_is_written_means_what_was_read(case):
    configuration = parse_configuration(parse_yaml(case["yaml"]))
    text = written(configuration, Catalog())
    again = parse_configuration(parse_yaml(text))
    assert written(again, Catalog()) == text
    assert {name: effective(each) for name, each in build_profiles(again, handle()).items()} == {
        name: effective(each) for name, each in build_profiles(configuration, handle()).items()
    }


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_what_kube_scheduler_refuses_is_refused_at_the_same_paths(case, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(case["yaml"])
    with pytest.raises(ConfigurationError) as refusal:
        read_configuration(path)
    ours = [fault.path for fault in refusal.value.faults]
    theirs = [found for error in case["refused"]["errors"] for found in recorded_paths(error)]
    assert [each for each in theirs if not any(path == each or path.startswith(f"{each}.") for path in ours)] == []
    with pytest.raises(ConfigurationError):
        profiles(case["yaml"])


FIELD_ERROR = re.compile(r"([a-z][\w.\[\]]*): (?:Invalid|Unsupported|Duplicate|Required) value|([\w.\[\]]+): Forbidden")
PATHS_OF_BUILDING = {
    "total score of Score plugins could overflow": "profiles[0].plugins.score.enabled[0].weight",
    'ScorePlugin "Nonesuch" does not exist': "profiles[0].plugins.score.enabled[0].name",
    'plugin "ImageLocality" does not extend FilterPlugin': "profiles[0].plugins.filter.enabled[0].name",
    'plugin "ImageLocality" already registered as "ScorePlugin"': "profiles[0].plugins.score.enabled[1].name",
    "only one queue sort plugin required": "profiles[0].plugins.queueSort",
    "at least one bind plugin is needed": "profiles[0].plugins.bind",
}
"""Faults that are found when profiles are built are recorded without paths."""


def recorded_paths(error):
    """The paths in one recorded error, as far as it has some: where in the document the fault is."""
    below = re.search(r"decoding \.([\w.\[\]]+):", error)
    args = f"{below[1]}.args" if below else ""
    if unknown := re.search(r'unknown field "([^"]+)"', error):
        return [f"{args}.{unknown[1]}" if args else unknown[1]]
    if twice := re.search(r'key "([^"]+)" already set', error):
        return [twice[1]]
    if wrong_type := re.search(r"Go struct field \w+\.([\w.]+) of type", error):
        return [wrong_type[1]]
    if below:
        return [args]
    for words, path in PATHS_OF_BUILDING.items():
        if words in error:
            return [path]
    plugin = "profiles[0].pluginConfig[0].args." if "initializing plugin" in error else ""
    return [plugin + (found[1] or found[2]) for found in FIELD_ERROR.finditer(error)]


def test_the_recorded_errors_have_paths():
    """All but those about a document as a whole, and a duration that Go's decoder tells without its place."""
    without = [case["name"] for case in REFUSED if not all(map(recorded_paths, case["refused"]["errors"]))]
    assert without == ["no kind", "no version", "wrong kind", "bad duration", "not yaml", "list document"]


def test_a_plugin_that_does_not_exist_is_told_beside_wrong_values():
    (case,) = (each for each in RECORDED if each["name"] == "three faults")
    with pytest.raises(ConfigurationError) as refusal:
        profiles(case["yaml"].replace("podMaxBackoffSeconds: 0\n", "").replace("parallelism: -3\n", ""))
    assert [fault.path for fault in refusal.value.faults] == [
        "profiles[0].plugins.score.enabled[0].weight",
        "profiles[0].plugins.score.enabled[0].name",
    ]


@pytest.mark.parametrize("name", ["nonesuch.yaml", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        load_configuration(tmp_path / name)


def test_null_is_a_default():
    configuration = parse_configuration(parse_yaml(HEAD + "parallelism: null\nprofiles: null\n"))
    assert configuration.parallelism == 16
    assert configuration.profiles[0].schedulerName == "default-scheduler"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param("", None, id="nothing said"),
        pytest.param("clientConnection: {kubeconfig: x}", None, id="something else said"),
        pytest.param("clientConnection: {qps: 50}", (50.0, 100), id="the default said"),
        pytest.param("clientConnection: {qps: 7.5, burst: 3}", (7.5, 3), id="both"),
        pytest.param("clientConnection: {burst: 3}", (50.0, 3), id="burst alone"),
        pytest.param("clientConnection: {qps: 0, burst: 0}", None, id="zero is as good as nothing"),
        pytest.param("clientConnection: {qps: -1}", None, id="negative is none, as in client-go"),
    ],
)
def test_requests_are_limited_where_somebody_says_so(text, limit):
    assert parse_configuration(parse_yaml(HEAD + text)).clientConnection.limit == limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ("enableProfiling: false", False), ("enableProfiling: false\nenableContentionProfiling: true", True)],
)
def test_contention_profiling_follows_profiling(text, expected):
    assert parse_configuration(parse_yaml(HEAD + text)).enableContentionProfiling is expected


def test_empty_settings_of_leader_election_are_the_defaults():
    text = "leaderElection: {leaseDuration: 0s, renewDeadline: '', resourceName: '', retryPeriod: 3s}"
    election = parse_configuration(parse_yaml(HEAD + text)).leaderElection
    assert (election.leaseDuration, election.renewDeadline, election.resourceName) == ("15s", "10s", "kube-scheduler")
    assert election.retryPeriod == "3s"


def test_the_complete_default_configuration_is_the_default():
    document = parse_yaml((DATA / "defaults.yaml").read_text())
    explicit = build_profile(parse_configuration(document).profiles[0], handle())
    implicit = build_profile(parse_configuration(parse_yaml(HEAD)).profiles[0], handle())
    assert effective(explicit) == effective(implicit)


def test_the_registry_is_the_default_order():
    enabled = parse_yaml((DATA / "defaults.yaml").read_text())["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert [(each["name"], each["weight"]) for each in enabled] == [
        (each.name, each.weight) for each in DEFAULT_PLUGINS
    ]
    assert len(PLUGINS) == len(DEFAULT_PLUGINS) + len(OTHER_PLUGINS)


WITH_PLACEMENTS = """profiles:
- plugins:
    placementScore:
      enabled: [{name: NodeResourcesFit, weight: 3}]
    multiPoint:
      enabled: [{name: TopologyPlacementGenerator}, {name: PodGroupPodsCount, weight: 2}]
"""


def test_placements_are_scored_by_weights_of_their_own():
    profile = profiles(HEAD + WITH_PLACEMENTS)["default-scheduler"]
    names = [plugin.name for plugin in profile.at(Point.PLACEMENT_SCORE)]
    assert names == ["NodeResourcesFit", "PodGroupPodsCount"]
    assert [profile.placement_weights[name] for name in names] == [3, 2]
    assert profile.weights["NodeResourcesFit"] == 1
    without = profiles(HEAD + "profiles: [{schedulerName: a}]")["a"]
    assert without.at(Point.PLACEMENT_GENERATE) == []


def test_each_profile_has_plugins_of_its_own():
    built = profiles(HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    assert [profile.scheduler_name for profile in built.values()] == ["a", "b"]
    ours, theirs = ({id(plugin) for plugin in profile.every()} for profile in built.values())
    assert not ours & theirs


def test_a_profile_can_have_a_percentage_of_its_own():
    text = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 0}]\n"
    built = profiles(f"{HEAD}percentageOfNodesToScore: 30\n{text}").values()
    assert [each.percentage_of_nodes_to_score for each in built] == [30, 0]
