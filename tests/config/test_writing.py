"""The complete configuration, as kube-scheduler writes it."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from tests.support.tables import cases

from bayplan import Plugin, filter_plugin
from bayplan.core.config import Catalog, KubeSchedulerConfiguration, parse_configuration, read_configuration
from bayplan.core.config.documents import parse_yaml
from bayplan.core.config.profiles import profile_of_all
from bayplan.core.config.writing import to_yaml

DEFAULTS = (Path(__file__).parents[1] / "data" / "kube-scheduler" / "defaults.yaml").read_text()
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@dataclass
class Limits:
    most: int = 3
    zones: list[str] = field(default_factory=list)


class Limited(Plugin):
    name = "Limited"
    arguments = Limits

    def __init__(self, args):
        self.args = args

    def filter(self, cycle, pod, node):
        return None


@filter_plugin
def tier(pod, node):
    return f"{pod} not on {node}"


CATALOG = Catalog([Limited, tier])


def rewritten(text):
    return yaml.safe_load(to_yaml(parse_configuration(parse_yaml(HEAD + text)), CATALOG))


def test_the_default_configuration_is_identical_to_kube_schedulers():
    expected = DEFAULTS.replace("kubeconfig: /etc/kubernetes/scheduler.conf", 'kubeconfig: ""')
    assert to_yaml(KubeSchedulerConfiguration(), Catalog()).rstrip() == expected.rstrip()


def test_the_default_configuration_is_unchanged_by_reading_it():
    assert to_yaml(parse_configuration(parse_yaml(DEFAULTS)), Catalog()).rstrip() == DEFAULTS.rstrip()


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("600s", "10m0s"),
        ("1.5h", "1h30m0s"),
        ("90s", "1m30s"),
        ("61.25s", "1m1.25s"),
        ("100ms", "100ms"),
        ("1500us", "1.5ms"),
        ("0.5us", "500ns"),
        ("1ns", "1ns"),
        ("3µs", "3µs"),
        ("-2s", "-2s"),
        ("0", "5s"),
        ("", "5s"),
    ],
)
def test_durations_are_formatted_like_in_go(given, printed):
    document = rewritten(f"extenders: [{{urlPrefix: 'http://x', httpTimeout: {given!r}}}]")
    assert document["extenders"][0]["httpTimeout"] == printed


def test_an_extender_is_written_without_empty_fields():
    text = (
        "extenders: [{urlPrefix: 'http://x', filterVerb: f, weight: 2, prioritizeVerb: p, ignorable: true, "
        "tlsConfig: {caFile: /ca}, managedResources: [{name: example.com/x}]}]"
    )
    assert rewritten(text)["extenders"] == [
        {
            "urlPrefix": "http://x",
            "filterVerb": "f",
            "prioritizeVerb": "p",
            "weight": 2,
            "httpTimeout": "5s",
            "ignorable": True,
            "tlsConfig": {"caFile": "/ca"},
            "managedResources": [{"name": "example.com/x", "ignoredByScheduler": False}],
        }
    ]


def test_plugins_are_merged():
    document = rewritten(
        "profiles: [{percentageOfNodesToScore: 7, plugins: {multiPoint: {disabled: [{name: ImageLocality}], "
        "enabled: [{name: NodeAffinity, weight: 9}, {name: tier}]}, score: {disabled: [{name: '*'}]}}}]"
    )
    (profile,) = document["profiles"]
    assert profile["percentageOfNodesToScore"] == 7
    assert profile["plugins"]["score"] == {"disabled": [{"name": "*", "weight": 0}]}
    multi = profile["plugins"]["multiPoint"]
    assert multi["disabled"] == [{"name": "ImageLocality", "weight": 0}]
    weights = {each["name"]: each["weight"] for each in multi["enabled"]}
    assert (weights["NodeAffinity"], list(weights)[-1], "ImageLocality" in weights) == (9, "tier", False)


@pytest.mark.parametrize(
    ("place", "name", "written"),
    [("score", "NodeAffinity", 1), ("multiPoint", "NodeAffinity", 1), ("multiPoint", "NodeName", 0)],
)
def test_a_weight_of_zero_is_written_as_what_it_means(place, name, written):
    (profile,) = rewritten(f"profiles: [{{plugins: {{{place}: {{enabled: [{{name: {name}, weight: 0}}]}}}}}}]")[
        "profiles"
    ]
    weights = {each["name"]: each["weight"] for each in profile["plugins"][place]["enabled"]}
    assert weights[name] == written


@cases(
    "config, expected",
    {
        "defaults": ("[]", {"most": 3, "zones": []}),
        "some given": ("[{name: Limited, args: {zones: [a]}}]", {"most": 3, "zones": ["a"]}),
    },
)
def test_arguments_of_the_users_plugins_include_defaults(config, expected):
    document = rewritten(
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: Limited}}]}}}}, pluginConfig: {config}}}]"
    )
    assert [each["args"] for each in document["profiles"][0]["pluginConfig"] if each["name"] == "Limited"] == [expected]


def test_arguments_of_unknown_plugins_are_kept():
    document = rewritten("profiles: [{pluginConfig: [{name: Nonesuch, args: {a: [1, {b: c}]}}]}]")
    assert document["profiles"][0]["pluginConfig"][0] == {"name": "Nonesuch", "args": {"a": [1, {"b": "c"}]}}


def test_a_profile_made_from_flags_can_be_written_and_read(tmp_path):
    path = tmp_path / "written.yaml"
    profile = profile_of_all("mine", CATALOG)
    path.write_text(to_yaml(KubeSchedulerConfiguration(profiles=[profile]), CATALOG))
    (again,) = read_configuration(path, [Limited, tier]).configuration.profiles
    assert again.schedulerName == "mine"
    assert {"Limited", "tier"} <= set(again.plugins.enabled_names())
