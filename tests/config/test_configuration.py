"""Configurations, compared with kube-scheduler 1.36."""

import json
import re
from pathlib import Path

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import (
    Catalog,
    ConfigurationError,
    build_profile,
    build_profiles,
    load_configuration,
    parse_configuration,
    read_configuration,
)
from bayplan.core.config.documents import parse_yaml
from bayplan.core.config.writing import to_yaml
from bayplan.core.framework.profile import Point
from bayplan.core.plugins.registry import PLUGINS
from bayplan.core.versions import gates_of, with_gangs

DATA = Path(__file__).parents[1] / "data" / "kube-scheduler"
RECORDED = [json.loads(line) for line in (DATA / "configurations.jsonl").read_text().splitlines()]
ACCEPTED = [each for each in RECORDED if "profiles" in each]
CONVERTED_HERE = "old version"
"""The only configuration that kube-scheduler rejects and Bayplan accepts."""
REFUSED = [each for each in RECORDED if "refused" in each and each["name"] != CONVERTED_HERE]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def handle():
    return OfflineHandle(ClusterState())


def profiles(text):
    return build_profiles(parse_configuration(parse_yaml(text)), handle())


def effective(profile):
    """Plugins by point, and their weights at score, in the form of the recordings."""
    points = {point.value: [plugin.name for plugin in plugins] for point, plugins in profile.plugins.items()}
    points = {point: names for point, names in points.items() if names}
    points.pop(Point.PLACEMENT_SCORE.value, None)  # not in the recordings
    if "score" in points:
        points["score"] = [(name, profile.weights[name]) for name in points["score"]]
    return points


def recorded(points):
    """The recorded plugins, in the same form."""
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
def test_a_written_configuration_is_equivalent(case):
    configuration = parse_configuration(parse_yaml(case["yaml"]))
    text = to_yaml(configuration, Catalog())
    again = parse_configuration(parse_yaml(text))
    assert to_yaml(again, Catalog()) == text
    assert {name: effective(each) for name, each in build_profiles(again, handle()).items()} == {
        name: effective(each) for name, each in build_profiles(configuration, handle()).items()
    }


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_errors_have_the_same_paths_as_kube_schedulers(case, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(case["yaml"])
    with pytest.raises(ConfigurationError) as error:
        read_configuration(path)
    ours = [fault.path for fault in error.value.faults]
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
"""Errors that kube-scheduler reports while it builds profiles have no paths."""


def recorded_paths(error):
    """The paths in a recorded error, if it has any."""
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
    """All except errors about whole documents, and one about a duration that Go's decoder reports without a path."""
    without = [case["name"] for case in REFUSED if not all(map(recorded_paths, case["refused"]["errors"]))]
    assert without == ["no kind", "no version", "wrong kind", "bad duration", "not yaml", "list document"]


def test_unknown_plugins_and_invalid_values_are_reported_together():
    (case,) = (each for each in RECORDED if each["name"] == "three faults")
    with pytest.raises(ConfigurationError) as error:
        profiles(case["yaml"].replace("podMaxBackoffSeconds: 0\n", "").replace("parallelism: -3\n", ""))
    assert [fault.path for fault in error.value.faults] == [
        "profiles[0].plugins.score.enabled[0].weight",
        "profiles[0].plugins.score.enabled[0].name",
    ]


@pytest.mark.parametrize("name", ["nonesuch.yaml", "."])
def test_the_error_names_an_unreadable_file(tmp_path, name):
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        load_configuration(tmp_path / name)


def test_null_means_the_default():
    configuration = parse_configuration(parse_yaml(HEAD + "parallelism: null\nprofiles: null\n"))
    assert configuration.parallelism == 16
    assert configuration.profiles[0].schedulerName == "default-scheduler"


@cases(
    "text, limit",
    {
        "not set": ("", None),
        "another setting": ("clientConnection: {kubeconfig: x}", None),
        "the default, set": ("clientConnection: {qps: 50}", (50.0, 100)),
        "both": ("clientConnection: {qps: 7.5, burst: 3}", (7.5, 3)),
        "only burst": ("clientConnection: {burst: 3}", (50.0, 3)),
        "zero means not set": ("clientConnection: {qps: 0, burst: 0}", None),
        "negative means no limit, as in client-go": ("clientConnection: {qps: -1}", None),
    },
)
def test_requests_are_limited_only_if_a_limit_is_set(text, limit):
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


def test_the_written_default_configuration_is_equivalent_to_the_default():
    document = parse_yaml((DATA / "defaults.yaml").read_text())
    explicit = build_profile(parse_configuration(document).profiles[0], handle())
    implicit = build_profile(parse_configuration(parse_yaml(HEAD)).profiles[0], handle())
    assert effective(explicit) == effective(implicit)


def test_the_registry_has_the_default_order():
    enabled = parse_yaml((DATA / "defaults.yaml").read_text())["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert [(each["name"], each["weight"]) for each in enabled] == [
        (each.name, each.weight) for each in Catalog().defaults
    ]
    assert PLUGINS.keys() > {each.name for each in Catalog().defaults}


WITH_PLACEMENTS = """profiles:
- plugins:
    placementScore:
      enabled: [{name: NodeResourcesFit, weight: 3}]
    multiPoint:
      enabled: [{name: TopologyPlacementGenerator}, {name: PodGroupPodsCount, weight: 2}]
"""


def test_placement_scores_have_separate_weights():
    profile = profiles(HEAD + WITH_PLACEMENTS)["default-scheduler"]
    names = [plugin.name for plugin in profile.at(Point.PLACEMENT_SCORE)]
    assert names == ["NodeResourcesFit", "PodGroupPodsCount"]
    assert [profile.placement_weights[name] for name in names] == [3, 2]
    assert profile.weights["NodeResourcesFit"] == 1
    without = profiles(HEAD + "profiles: [{schedulerName: a}]")["a"]
    assert without.at(Point.PLACEMENT_GENERATE) == []


def test_profiles_do_not_share_plugin_instances():
    built = profiles(HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    assert [profile.scheduler_name for profile in built.values()] == ["a", "b"]
    ours, theirs = ({id(plugin) for plugin in profile.every()} for profile in built.values())
    assert not ours & theirs


def test_a_profile_can_override_the_percentage():
    text = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 0}]\n"
    built = profiles(f"{HEAD}percentageOfNodesToScore: 30\n{text}").values()
    assert [each.percentage_of_nodes_to_score for each in built] == [30, 0]


def with_groups(plugins, version="1.37"):
    """The profile of a configuration with `plugins`, at a version."""
    text = f"{HEAD}profiles:\n- schedulerName: s\n  plugins: {plugins}\n"
    gates = with_gangs(gates_of(version))
    (profile,) = build_profiles(parse_configuration(parse_yaml(text), gates=gates), handle(), gates=gates).values()
    return profile


@cases(
    "plugins, preempts",
    {
        "as by default": ("{}", True),
        "enabled": ("{podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}", True),
        "disabled": ("{podGroupPostFilter: {disabled: [{name: DefaultPreemption}]}}", False),
        "all disabled": ("{podGroupPostFilter: {disabled: [{name: '*'}]}}", False),
        "disabled and enabled": (
            "{podGroupPostFilter: {disabled: [{name: '*'}], enabled: [{name: DefaultPreemption}]}}",
            True,
        ),
    },
)
def test_who_preempts_for_pod_groups_since_1_37(plugins, preempts):
    names = {plugin.name for plugin in with_groups(plugins).every()}
    assert ("WorkloadAwarePreemption" in names, "DefaultPreemption" in names) == (preempts, True)


@cases(
    "version, plugins, problem",
    {
        "1.36 doesn't have the point": (
            "1.36",
            "{podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}",
            "profiles[0].plugins.podGroupPostFilter: unknown field: Kubernetes 1.37 has it, and 1.36 doesn't",
        ),
        "not even empty": ("1.36", "{podGroupPostFilter: {}}", "podGroupPostFilter: unknown field"),
        "a plugin that doesn't preempt": (
            "1.37",
            "{podGroupPostFilter: {enabled: [{name: ImageLocality}]}}",
            "plugin 'ImageLocality' does not implement podGroupPostFilter",
        ),
    },
)
def test_invalid_plugins_that_preempt_for_pod_groups(version, plugins, problem):
    with pytest.raises(ConfigurationError) as rejected:
        with_groups(plugins, version)
    assert problem in str(rejected.value)
