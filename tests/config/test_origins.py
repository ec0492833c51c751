"""Plugins that Bayplan doesn't have are reported once, with the project that they come from."""

import pytest
import yaml
from tests.support.tables import cases

from bayplan.core.config import ConfigurationError, read_configuration
from bayplan.core.config.origins import origin_of
from bayplan.core.plugins.registry import PLUGINS

LOAD = "load your own plugin with --plugin FILE"
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def errors(folder, plugins, configs=()):
    """The errors in a profile that enables plugins by extension point."""
    sets = {place: {"enabled": [{"name": name} for name in names]} for place, names in plugins.items()}
    path = folder / "config.yaml"
    profile = {"plugins": sets, "pluginConfig": list(configs)}
    path.write_text(yaml.safe_dump(HEAD | {"profiles": [profile]}))
    try:
        read_configuration(path)
    except ConfigurationError as error:
        return [str(fault) for fault in error.faults]
    return []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("CrossNodePreemption", "is part of the scheduler-plugins project (kubernetes-sigs), and not of Bayplan"),
        ("LoadAwareScheduling", "is part of Koordinator, and not of Bayplan"),
        ("drf", "is part of Volcano's scheduler, and not of Bayplan"),
        ("NodeAffinityWrapped", "is part of kube-scheduler-simulator, and not of Bayplan"),
        ("Nonesuch", "does not exist"),
    ],
)
def test_the_origin_of_a_plugin_is_named_once(name, problem, tmp_path):
    assert errors(tmp_path, {"filter": ["NodePorts", name], "score": [name], "reserve": [name]}) == [
        f"profiles[0].plugins.filter.enabled[1].name: plugin {name!r} {problem}: {LOAD} (also in score, reserve)"
    ]


def test_a_misspelled_name_is_no_plugin_to_load(tmp_path):
    (error,) = errors(tmp_path, {"score": ["ImageLocalty"]})
    assert error.endswith("plugin 'ImageLocalty' does not exist: did you mean 'ImageLocality'?")


POINTS = {point: ["Coscheduling"] for point in ("preFilter", "permit", "postBind")}


@cases(
    "plugins, args",
    {
        "its arguments": (POINTS, {"defaultTimeout": "10m"}),
        "another plugin of Koordinator": (POINTS | {"bind": ["Reservation"]}, {}),
    },
)
def test_koordinators_coscheduling_is_another_plugin(plugins, args, tmp_path):
    found = errors(tmp_path, plugins, [{"name": "Coscheduling", "args": args}])
    assert found[-1] == (
        "profiles[0].plugins.preFilter.enabled[0].name: plugin 'Coscheduling' is Koordinator's here, and Bayplan "
        "has that of the scheduler-plugins project (kubernetes-sigs), whose arguments and annotations differ "
        "(also in permit, postBind)"
    )
    assert len(found) == len(plugins) - 2  # one for each plugin


def test_coscheduling_of_scheduler_plugins_is_taken(tmp_path):
    plugins = {"multiPoint": ["Coscheduling"], "queueSort": ["Coscheduling"]}
    found = errors(tmp_path, plugins, [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 5}}])
    assert all("queueSort" in error for error in found)


def test_no_plugin_of_bayplan_has_another_origin():
    assert {name: origin_of(name) for name in PLUGINS if origin_of(name)} == {}
