"""v1beta1 to v1beta3 as in articles and documentation of their time."""

from pathlib import Path

import msgspec
import pytest
from tests.support.tables import cases

from bayplan import Plugin
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import Catalog, build_profiles, read_configuration
from bayplan.core.config.writing import to_yaml
from bayplan.core.framework.profile import Point


class Sample(Plugin):
    name = "sample"

    def pre_filter(self, cycle, pod, nodes):
        return None


class GangArgs(msgspec.Struct):
    permitWaitingTimeSeconds: int = 60
    deniedPGExpirationTimeSeconds: int = 20


class Gang(Plugin):
    name = "Gang"
    arguments = GangArgs

    def __init__(self, args):
        self.args = args

    def sort_key(self, pod, queued_at):
        return pod.name

    def permit(self, cycle, pod, node_name):
        return None


def head(version):
    return f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"


def read(text, folder):
    path = folder / "old.yaml"
    path.write_text(text)
    return read_configuration(path, [Sample, Gang])


def built(reading):
    profiles = build_profiles(reading.configuration, OfflineHandle(ClusterState()), [Sample, Gang])
    (profile,) = profiles.values()
    return profile


def scored(profile):
    return {plugin.name: profile.weights[plugin.name] for plugin in profile.at(Point.SCORE)}


def notes(reading):
    return [f"{note.path}: {note.message}" for note in reading.warnings if note.path != "apiVersion"]


OLD_SCORES = {
    "DynamicResources": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeAffinity": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
    "VolumeBinding": 1,
}
NEW_SCORES = OLD_SCORES | {"InterPodAffinity": 2, "NodeAffinity": 2, "TaintToleration": 3}
SAMPLE = """
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: "/etc/kubernetes/scheduler.conf"
profiles:
- schedulerName: sample-scheduler
  plugins:
    preFilter:
      enabled:
      - name: sample
"""


@pytest.mark.parametrize(
    ("version", "scores"),
    [("v1beta1", OLD_SCORES), ("v1beta2", OLD_SCORES), ("v1beta3", NEW_SCORES), ("v1", NEW_SCORES)],
)
def test_a_users_plugin_works_in_every_version(version, scores, tmp_path):
    reading = read(head(version) + SAMPLE, tmp_path)
    profile = built(reading)
    assert profile.scheduler_name == "sample-scheduler"
    assert [plugin.name for plugin in profile.at(Point.PRE_FILTER)][-1] == "sample"
    assert scored(profile) == scores
    assert notes(reading) == []


def test_the_conversion_is_reported(tmp_path):
    assert read(head("v1beta2"), tmp_path).warning_lines() == [
        (
            f"{tmp_path}/old.yaml:1: warning: apiVersion: kubescheduler.config.k8s.io/v1beta2 is converted to "
            "kubescheduler.config.k8s.io/v1; --write-config-to FILE writes the result; the default weights of that "
            "version, 1 for TaintToleration, NodeAffinity and InterPodAffinity, are kept"
        )
    ]
    assert read(head("v1"), tmp_path).warning_lines() == []


CONVERSIONS = (Path(__file__).parent / "older_versions.txt").read_text().split("==== ")[1:]
"""Each has a name, a document and, after a line of dashes, the weights that differ from the version's defaults, and the
warnings except the one about the version.
"""


def conversion(case):
    document, _, rest = case.partition("\n")[2].partition("---- scores: ")
    differing, _, noted = rest.partition("\n")
    if differing == "none":
        return document, {}, noted
    changes = dict(each.split("=") for each in differing.split()) if differing != "defaults" else {}
    scores = OLD_SCORES | {name: int(weight) for name, weight in changes.items() if weight != "none"}
    return document, {name: scores[name] for name in scores if changes.get(name) != "none"}, noted


@pytest.mark.parametrize("case", CONVERSIONS, ids=lambda case: case.partition("\n")[0])
def test_changes_since_the_version_are_reported(case, tmp_path):
    document, scores, noted = conversion(case)
    reading = read(document, tmp_path)
    assert scored(built(reading)) == scores
    lines = [line for line in reading.warning_lines() if "warning: apiVersion: " not in line]
    assert [
        line.removeprefix(f"{tmp_path}/old.yaml:").replace(" warning:", "", 1) for line in lines
    ] == noted.splitlines()


@pytest.mark.parametrize("case", CONVERSIONS, ids=lambda case: case.partition("\n")[0])
def test_a_converted_configuration_is_written_as_an_equivalent_v1(case, tmp_path):
    document, scores, _ = conversion(case)
    again = read(to_yaml(read(document, tmp_path).configuration, Catalog([Sample, Gang])), tmp_path)
    assert again.document.data["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert scored(built(again)) == scores


def test_disable_preemption_disables_the_plugin(tmp_path):
    reading = read(head("v1beta1") + "disablePreemption: true\n", tmp_path)
    assert [plugin.name for plugin in built(reading).at(Point.POST_FILTER)] == ["DynamicResources"]
    assert notes(reading) == ["disablePreemption: was removed: DefaultPreemption is disabled in postFilter instead"]


def test_volume_limits_of_cloud_providers_are_one_plugin(tmp_path):
    enabled = "[{name: EBSLimits}, {name: GCEPDLimits}, {name: NodeName}]"
    text = f"profiles: [{{plugins: {{filter: {{disabled: [{{name: '*'}}], enabled: {enabled}}}}}}}]"
    reading = read(head("v1beta1") + text, tmp_path)
    enabled = reading.configuration.profiles[0].plugins.filter.enabled
    assert [reference.name for reference in enabled] == ["NodeVolumeLimits", "NodeName"]
    assert notes(reading)[0] == (
        "profiles[0].plugins.filter.enabled[0].name: plugin 'EBSLimits' was removed: "
        "NodeVolumeLimits counts its volumes"
    )


@cases(
    "args, strategy",
    {
        "no arguments of NodeResourcesFit": (
            (
                "{name: RequestedToCapacityRatio, args: {resources: [{name: intel.com/foo, weight: 3}], "
                "shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}"
            ),
            {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "intel.com/foo", "weight": 3}],
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            },
        ),
        "with arguments of NodeResourcesFit": (
            (
                "{name: NodeResourcesFit, args: {ignoredResources: [example.com/x]}}, {name: RequestedToCapacityRatio, "
                "args: {kind: RequestedToCapacityRatioArgs, shape: [{utilization: 50, score: 1}]}}"
            ),
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {"shape": [{"utilization": 50, "score": 1}]},
            },
        ),
    },
)
def test_a_shape_moves_to_the_scoring_strategy(args, strategy, tmp_path):
    enabled = "plugins: {score: {enabled: [{name: RequestedToCapacityRatio, weight: 2}]}}"
    reading = read(f"{head('v1beta1')}profiles: [{{{enabled}, pluginConfig: [{args}]}}]", tmp_path)
    (config,) = reading.configuration.profiles[0].pluginConfig
    assert (config.name, config.args["scoringStrategy"]) == ("NodeResourcesFit", strategy)
    assert built(reading).weights["NodeResourcesFit"] == 2


def test_default_constraints_of_v1beta1_get_the_type_list(tmp_path):
    constraint = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}"
    args = f"{{apiVersion: kubescheduler.config.k8s.io/v1beta1, defaultConstraints: [{constraint}]}}"
    text = f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {args}}}]}}]"
    reading = read(head("v1beta1") + text, tmp_path)
    assert reading.configuration.profiles[0].pluginConfig[0].args["defaultingType"] == "List"
    assert notes(reading) == [
        "profiles[0].pluginConfig[0].args: defaultConstraints need defaultingType: List, which is added"
    ]


def test_the_gang_scheduling_example_of_its_documentation(tmp_path):
    text = """
profiles:
- schedulerName: gangs
  plugins:
    queueSort: {enabled: [{name: Gang}], disabled: [{name: "*"}]}
    permit: {enabled: [{name: Gang}]}
  pluginConfig:
  - name: Gang
    args: {permitWaitingTimeSeconds: 10, deniedPGExpirationTimeSeconds: 3}
"""
    profile = built(read(head("v1beta1") + text, tmp_path))
    (gang,) = profile.at(Point.QUEUE_SORT)
    assert gang is profile.at(Point.PERMIT)[0]
    assert gang.args == GangArgs(10, 3)
