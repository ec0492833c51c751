"""Documents with what kube-scheduler 1.36 made of them, and what we say of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.config import (
    ConfigurationError,
    build_profile,
    build_profiles,
    load_configuration,
    missing_plugins,
    parse_configuration,
)
from bayplan.config.documents import parse_yaml
from bayplan.framework.profile import Point
from bayplan.plugins.registry import DEFAULT_PLUGINS, NOT_IMPLEMENTED, OTHER_PLUGINS, PLUGINS
from bayplan.testing.offline import OfflineHandle

DATA = Path(__file__).parents[1] / "data" / "kube-scheduler"
RECORDED = [json.loads(line) for line in (DATA / "configurations.jsonl").read_text().splitlines()]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def handle():
    return OfflineHandle(ClusterState())


def profiles(text):
    return build_profiles(parse_configuration(parse_yaml(text)), handle())


def effective(profile):
    """Plugins by point, with weights where they score, as recorded."""
    points = {point.value: [plugin.name for plugin in plugins] for point, plugins in profile.plugins.items()}
    points = {point: names for point, names in points.items() if names}
    if "score" in points:
        points["score"] = [(name, profile.weights[name]) for name in points["score"]]
    return points


def recorded(points):
    """The same, without plugins that do not exist here yet."""
    kept = {
        point: [
            (each["name"], each["weight"]) if point == "score" else each["name"]
            for each in plugins
            if each["name"] not in NOT_IMPLEMENTED
        ]
        for point, plugins in points.items()
    }
    return {point: plugins for point, plugins in kept.items() if plugins}


@pytest.mark.parametrize("case", [each for each in RECORDED if "profiles" in each], ids=lambda case: case["name"])
def test_effective_plugins(case):
    got = {name: effective(profile) for name, profile in profiles(case["yaml"]).items()}
    assert got == {name: recorded(points) for name, points in case["profiles"].items()}


@pytest.mark.parametrize("case", [each for each in RECORDED if "refused" in each], ids=lambda case: case["name"])
def test_what_kube_scheduler_refuses_is_refused(case):
    with pytest.raises(ConfigurationError):
        profiles(case["yaml"])


def with_args(name, args):
    return f"profiles: [{{pluginConfig: [{{name: {name}, args: {args}}}]}}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour: red\n", "colour: unknown field"),
        (
            "profiles: [{plugins: {score: {enabled: [{name: X, wieght: 2}]}}}]\n",
            "profiles[0].plugins.score.enabled[0].wieght: unknown",
        ),
        ("parallelism: many\n", 'parallelism: expected an integer, got "many"'),
        ("profiles: true\n", "profiles: expected a list, got true"),
        ("parallelism: 1\nparallelism: 2\n", "parallelism: is there twice, in line 3 and in line 4"),
        (
            "leaderElection: {leaseDuration: 15 parsecs}\n",
            'leaderElection.leaseDuration: Invalid value: "15 parsecs": expected a duration such as 10s',
        ),
        (
            with_args("NodeAffinity", "{addedAffinity: {odd: 1}}"),
            "profiles[0].pluginConfig[0].args.addedAffinity.odd: unknown field",
        ),
        (
            with_args("NodeResourcesFit", "{scoringStrategy: {type: Tetris}}"),
            "profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value",
        ),
    ],
)
def test_faults_say_where_and_what(text, message):
    with pytest.raises(ConfigurationError) as refusal:
        profiles(HEAD + text)
    assert message in str(refusal.value)


@pytest.mark.parametrize("text", ["", "- a\n", "[", "a: {{b}\n", "just words"])
def test_what_is_no_mapping_is_refused(text):
    with pytest.raises(ConfigurationError):
        parse_yaml(text, "file.yaml")


def test_null_is_a_default():
    configuration = parse_configuration(parse_yaml(HEAD + "parallelism: null\nprofiles: null\n"))
    assert configuration.parallelism == 16
    assert configuration.profiles[0].schedulerName == "default-scheduler"


@pytest.mark.parametrize("name", ["nonesuch.yaml", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        load_configuration(tmp_path / name)


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


def test_plugins_that_do_not_exist_yet_are_told():
    text = HEAD + "profiles: [{plugins: {filter: {enabled: [{name: GangScheduling}]}}}]\n"
    profile = parse_configuration(parse_yaml(text)).profiles[0]
    assert missing_plugins(profile, explicit=True) == ["GangScheduling"]
    assert set(missing_plugins(profile)) == {each.name for each in DEFAULT_PLUGINS if each.factory is None} | {
        "GangScheduling"
    }
    assert Point.FILTER in build_profile(profile, handle()).plugins
