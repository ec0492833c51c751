"""Flags, plugins and a configuration combined."""

import json
import logging

import pytest
import yaml
from click.testing import CliRunner
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.client import ConfigError, TransportError
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import ConfigurationError, KubeSchedulerConfiguration
from bayplan.core.config.writing import to_yaml
from bayplan.core.framework.profile import Point
from bayplan.core.versions import gates_of
from bayplan.faces.cli import main
from bayplan.faces.cli.run_flags import FLAGS
from bayplan.faces.cli.run_logging import JsonLines
from bayplan.faces.cli.run_preparation import prepare
from bayplan.faces.cli.run_scheduler import _as_the_cluster, _client
from bayplan.foundations.log_fields import about_node, about_pod
from bayplan.running.client.leader_election import LeaderElectionSettings
from bayplan.testing.builders import make_pod

HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "leaderElection: {leaderElect: false}\n"
)
POLICY = (
    "from bayplan import filter_plugin\n"
    "@filter_plugin\ndef one(pod, node): ...\n"
    "@filter_plugin\ndef two(pod, node): ...\n"
)


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Prepares a configuration (None for none) with flags by name, in a temporary directory."""
    monkeypatch.chdir(tmp_path)

    def make(configuration=None, *, plugins=(), scheduler_name=None, **flags):
        (tmp_path / "policy.py").write_text(POLICY)
        if configuration is not None:
            (tmp_path / "config.yaml").write_text(HEAD + configuration)
            flags["config"] = "config.yaml"
        return prepare({flag.parameter: None for flag in FLAGS} | flags, plugins, scheduler_name)

    return make


def handle():
    return OfflineHandle(ClusterState())


def test_without_a_configuration_plugins_run_at_all_their_points(prepared):
    (profile,) = prepared(plugins=["policy.py"]).build_profiles(handle()).values()
    assert profile.scheduler_name == "bayplan-scheduler"
    assert [plugin.name for plugin in profile.at(Point.FILTER)][-2:] == ["one", "two"]


def test_added_plugins_are_the_users_and_those_that_profiles_enable_beside_the_in_tree_ones(prepared):
    enabled = "{enabled: [{name: CapacityScheduling}, {name: two}, {name: NodeName, weight: 2}]}"
    found = prepared(f"profiles: [{{plugins: {{multiPoint: {enabled}}}}}]", plugins=["policy.py"])

    assert (found.problems, found.added) == ([], ["one", "two", "CapacityScheduling"])
    assert prepared().added == []


def test_with_a_configuration_plugins_run_where_it_enables_them(prepared):
    made = prepared("profiles: [{plugins: {filter: {enabled: [{name: two}]}}}]\n", plugins=["policy.py"])
    (profile,) = made.build_profiles(handle()).values()
    assert profile.scheduler_name == "default-scheduler"
    assert [plugin.name for plugin in profile.at(Point.FILTER)][-2:] == ["NodeDeclaredFeatures", "two"]
    assert made.warnings == [
        (
            "bayplan run: warning: plugin 'one' is not enabled in any profile of config.yaml: "
            "enable it in plugins.multiPoint"
        )
    ]


GANG_GATES = ("GenericWorkload=true,GangScheduling=true",)


@cases(
    "configuration, gates, enabled_here",
    {
        "gates": (None, GANG_GATES, True),
        "no gates": (None, (), False),
        "gates and a configuration": ("profiles: [{schedulerName: x}]\n", GANG_GATES, True),
        "named": ("profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]\n", (), True),
        "both": ("profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]\n", GANG_GATES, True),
        "disabled again": (
            "profiles: [{plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}}]\n",
            GANG_GATES,
            False,
        ),
    },
)
def test_feature_gates_enable_gangs(configuration, gates, enabled_here, prepared):
    made = prepared(configuration, feature_gates=gates)
    assert (made.problems, made.warnings) == ([], [])
    (profile,) = made.build_profiles(handle()).values()
    for point in (Point.PRE_ENQUEUE, Point.RESERVE, Point.PERMIT):
        assert ("GangScheduling" in [plugin.name for plugin in profile.at(point)]) is enabled_here
    enabled = yaml.safe_load(to_yaml(made.configuration, made.catalog))["profiles"][0]["plugins"]["multiPoint"][
        "enabled"
    ]
    assert ([each["name"] for each in enabled][-1] == "GangScheduling") is enabled_here


ALL_GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true"
ADDED = {
    "gangs": ("GenericWorkload=true,GangScheduling=true", ["GangScheduling"]),
    "topology": (
        "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true",
        ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"],
    ),
    "all": (
        ALL_GATES,
        ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount", "WorkloadAwarePreemption"],
    ),
}


@cases("gates, plugins", ADDED)
def test_plugins_of_feature_gates_come_last(gates, plugins, prepared):
    made = prepared(feature_gates=(gates,))
    assert (made.problems, made.warnings) == ([], [])
    (profile,) = made.build_profiles(handle()).values()
    usual = prepared()
    (without,) = usual.build_profiles(handle()).values()
    more = {plugin.name for plugin in profile.every()} - {plugin.name for plugin in without.every()}
    assert more == set(plugins)
    assert [entry.name for entry in made.catalog.defaults][-len(plugins) :] == plugins


NEEDED = {
    "topology without workloads": ("TopologyAwareWorkloadScheduling=true", "GenericWorkload"),
    "preemption without gangs": ("GenericWorkload=true,WorkloadAwarePreemption=true", "GangScheduling"),
}


@cases("gates, needed", NEEDED)
def test_gates_that_require_another(gates, needed, prepared):
    name = gates.split(",")[-1]
    problem = f"bayplan run: --feature-gates: {name}: requires {needed}=true"
    assert prepared(feature_gates=(gates,)).problems == [problem]


def test_topology_without_gangs(prepared):
    made = prepared(feature_gates=("GenericWorkload=true,TopologyAwareWorkloadScheduling=true",))
    assert made.gates.enabled("TopologyAwareWorkloadScheduling")
    assert [
        "TopologyAwareWorkloadScheduling has no effect without GangScheduling=true" in each for each in made.warnings
    ] == [False, True]


def test_workloads_without_gangs(prepared):
    made = prepared(feature_gates=("GenericWorkload=true",))
    assert made.warnings == [
        (
            "bayplan run: warning: --feature-gates: GenericWorkload has no effect without GangScheduling=true, "
            "which schedules the pods of a PodGroup together"
        )
    ]


def test_the_error_about_an_unknown_plugin_says_how_to_load_it(prepared):
    assert prepared("profiles: [{plugins: {filter: {enabled: [{name: two}]}}}]\n").problems == [
        (
            "config.yaml:4: profiles[0].plugins.filter.enabled[0].name: plugin 'two' does not exist: load your own "
            "plugin with --plugin FILE"
        )
    ]


def test_settings_come_from_the_configuration_and_a_flag(prepared):
    made = prepared(
        "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 20\n", pod_max_in_unschedulable_pods_duration="1m30s"
    )
    settings = made.settings(seed=7)
    assert (settings.initial_backoff, settings.max_backoff, settings.unschedulable_timeout) == (2, 20, 90)
    assert (settings.seed, settings.freeze) == (7, True)
    assert prepared().settings(None).unschedulable_timeout == 300


@cases(
    "configuration, name, expected, problem",
    {
        "no configuration": (None, "mine", ["mine"], ""),
        "no name": ("", None, ["default-scheduler"], ""),
        "an unnamed profile": ("", "mine", ["mine"], ""),
        "one profile": ("profiles: [{schedulerName: a}]\n", "mine", ["mine"], ""),
        "two profiles": (
            "profiles: [{schedulerName: a}, {schedulerName: b}]\n",
            "mine",
            ["a", "b"],
            (
                "bayplan run: --scheduler-name: config.yaml has 2 profiles (a, b): set "
                "profiles[].schedulerName there instead"
            ),
        ),
    },
)
def test_scheduler_name_requires_a_single_profile(configuration, name, expected, problem, prepared):
    made = prepared(configuration, scheduler_name=name)
    assert [profile.schedulerName for profile in made.configuration.profiles] == expected
    assert made.problems == ([problem] if problem else [])


def test_the_kubeconfig_flag_overrides_the_configuration(prepared):
    made = prepared("clientConnection: {kubeconfig: /theirs}\n", kubeconfig="/mine")
    assert made.configuration.clientConnection.kubeconfig == "/mine"
    assert made.warnings == [
        "bayplan run: warning: --kubeconfig overrides clientConnection.kubeconfig: /theirs is not used"
    ]


def test_deprecated_flags_have_no_effect_with_a_configuration(prepared):
    made = prepared("", kube_api_qps=3.0, profiling=False)
    assert made.configuration.clientConnection.limit is None
    assert made.configuration.enableProfiling is True
    assert made.warnings == [
        "bayplan run: warning: --kube-api-qps has no effect with --config: set clientConnection.qps there",
        "bayplan run: warning: --profiling has no effect with --config: set enableProfiling there",
    ]


def test_flags_of_leader_election_override_the_configuration(prepared):
    made = prepared("", leader_elect=True, leader_elect_lease_duration="20s")
    election = made.configuration.leaderElection
    assert (election.leaderElect, election.leaseDuration) == (True, "20s")


@cases(
    "flags, configuration, lease",
    {
        "no configuration": ({}, None, None),
        "enabled": ({"leader_elect": True}, None, LeaderElectionSettings()),
        "default": ({}, "", LeaderElectionSettings()),
        "disabled": ({"leader_elect": False}, "", None),
        "invalid": (
            {"leader_elect_retry_period": "1s"},
            "leaderElection: {resourceName: mine, resourceNamespace: here, leaseDuration: 30s, renewDeadline: 1m}\n",
            None,
        ),
        "all settings": (
            {"leader_elect_retry_period": "1s"},
            "leaderElection: {resourceName: mine, resourceNamespace: here, leaseDuration: 30s, renewDeadline: 20s}\n",
            LeaderElectionSettings("mine", "here", 30.0, 20.0, 1.0),
        ),
    },
)
def test_the_lease(flags, configuration, lease, prepared, tmp_path):
    if configuration is not None:
        (tmp_path / "config.yaml").write_text(HEAD.partition("leaderElection")[0] + configuration)
        flags = {**flags, "config": "config.yaml"}
    made = prepared(**flags)
    assert bool(made.problems) == ("1m" in (configuration or ""))
    if not made.problems:
        assert made.election == lease


@pytest.mark.parametrize(
    ("name", "lease", "warned"),
    [("default-scheduler", "kube-scheduler", False), ("mine", "kube-scheduler", True), ("mine", "mine", False)],
)
def test_using_the_lease_of_the_stock_scheduler_is_reported(name, lease, warned, prepared):
    made = prepared(scheduler_name=name, leader_elect=True, leader_elect_resource_name=lease)
    assert made.warnings == (
        [
            (
                "bayplan run: warning: the lease kube-system/kube-scheduler belongs to the stock "
                "kube-scheduler, and only its holder schedules: set leaderElection.resourceName, such as mine"
            )
        ]
        if warned
        else []
    )


def test_delay_cache_until_active(prepared):
    assert prepared("delayCacheUntilActive: true\n").settings(None).delay_cache_until_active


def test_other_errors_are_reported_with_a_plugin_that_cannot_be_loaded(prepared):
    made = prepared("colour: red\nprofiles: [{plugins: {filter: {enabled: [{name: x}]}}}]\n", plugins=["gone.py"])
    assert made.problems[0] == "bayplan run: gone.py: no such file"
    assert [line.partition(": expected")[0] for line in made.problems[1:]] == ["config.yaml:4: colour: unknown field"]


def test_other_errors_are_reported_with_an_installed_plugin_that_cannot_be_loaded(prepared, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "odd_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bayplan.plugins]\nodd = nonesuch_module:odd\n")
    made = prepared("colour: red\nprofiles: [{plugins: {filter: {enabled: [{name: odd}]}}}]\n")
    assert [line.partition(": expected")[0] for line in made.problems] == [
        "bayplan run: odd-policies: nonesuch_module:odd: ModuleNotFoundError: No module named 'nonesuch_module'",
        "config.yaml:4: colour: unknown field",
    ]


def test_a_plugin_that_fails_to_start_is_reported_with_its_line(prepared, tmp_path):
    (tmp_path / "failing.py").write_text(
        "from bayplan import Plugin\n"
        "class Failing(Plugin):\n"
        "    name = 'Failing'\n"
        "    def __init__(self): raise OSError('no file')\n"
        "    def filter(self, cycle, pod, node): ...\n"
    )
    made = prepared("profiles:\n- plugins: {filter: {enabled: [{name: Failing}]}}\n", plugins=["failing.py"])
    assert made.problems == []
    with pytest.raises(ConfigurationError) as error:
        made.build_profiles(handle())
    assert str(error.value) == (
        "config.yaml:5: profiles[0].plugins.filter.enabled[0]: plugin 'Failing' failed to start: OSError: no file"
    )


KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://theirs:6443"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


async def test_the_client_uses_the_configuration_and_flags(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(KUBECONFIG))
    configuration = KubeSchedulerConfiguration()
    configuration.clientConnection.kubeconfig = str(path)
    async with _client(configuration, None, None) as client:
        assert (client.access.server, client._transport._limit) == ("https://theirs:6443", None)
    configuration.clientConnection.qps = 10.0
    async with _client(configuration, "https://mine:6443", "x") as client:
        assert client.access.server == "https://mine:6443"
        assert await client.access.credentials.headers() == {"Authorization": "Bearer secret"}
        assert client._transport._limit is not None
    with pytest.raises(ConfigError, match="nonesuch"):
        _client(configuration, None, "nonesuch")


async def test_a_client_with_only_master_has_no_credentials(tmp_path, monkeypatch):
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(KUBECONFIG))
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with _client(KubeSchedulerConfiguration(), "https://mine:6443", None) as client:
        assert await client.access.credentials.headers() == {}


def test_json_lines_have_the_fields_of_kubernetes_components():
    record = logging.LogRecord("bayplan.running.service", logging.WARNING, "/a/loop.py", 7, "pod %s", ("x",), None)
    line = json.loads(JsonLines().format(record))
    assert line.pop("ts") == round(record.created * 1000, 3)
    assert line == {"caller": "loop.py:7", "msg": "pod x", "v": 0, "severity": "warning"}


def test_json_lines_have_fields_for_pods_and_nodes():
    about = about_pod(make_pod("web", namespace="shop")), about_node("a")
    record = logging.LogRecord("bayplan.x", logging.INFO, "/a/x.py", 7, "pod %s bound to node %s", about, None)
    line = json.loads(JsonLines().format(record))
    assert {name: line[name] for name in ("msg", "pod", "node", "v")} == {
        "msg": "pod shop/web bound to node a",
        "pod": {"name": "web", "namespace": "shop"},
        "node": {"name": "a"},
        "v": 2,
    }


def test_warnings_are_logged_if_the_log_is_json(tmp_path, caplog):
    arguments = ["run", "--logging-format=json", "--vmodule=x=4", "--write-config-to", str(tmp_path / "written.yaml")]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert [record.getMessage() for record in caplog.records] == [
        "bayplan run: warning: --vmodule has no effect: its patterns are for source files of kube-scheduler"
    ]


def test_an_error_while_writing_the_configuration_is_reported(tmp_path):
    done = bayplan("run", "--write-config-to", tmp_path, status=2)
    assert done.stderr == f"bayplan run: --write-config-to: {tmp_path} cannot be written: Is a directory\n"


def test_a_written_configuration_is_equivalent(tmp_path):
    written, policy = tmp_path / "written.yaml", tmp_path / "policy.py"
    policy.write_text("from bayplan import filter_plugin\n@filter_plugin\ndef tier(pod, node): ...\n")
    again = tmp_path / "again.yaml"
    first = CliRunner().invoke(main, ["run", "--plugin", str(policy), "--write-config-to", str(written)])
    arguments = ["run", "--plugin", str(policy), "--config", str(written)]
    second = CliRunner().invoke(main, [*arguments, "--write-config-to", str(again)])
    assert (first.exit_code, first.stderr) == (0, "")
    assert (second.exit_code, second.stderr) == (0, "")
    assert again.read_text() == written.read_text()
    document = yaml.safe_load(written.read_text())
    assert document["leaderElection"]["leaderElect"] is False
    assert document["profiles"][0]["schedulerName"] == "bayplan-scheduler"


SHAPE = "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 10}]}}]}]\n"


@cases(
    "configuration, flags, version, follows",
    {
        "nothing": (None, {}, "1.36", True),
        "a version": (None, {"emulated_version": ("1.37",)}, "1.37", False),
        "a gate of 1.36": (None, {"feature_gates": GANG_GATES}, "1.36", True),
        "an argument of 1.37": (SHAPE, {}, "1.37", True),
        "the argument with its gate": (SHAPE, {"feature_gates": ("StorageCapacityScoring=true",)}, "1.36", True),
    },
)
def test_the_version_until_that_of_the_cluster_is_known(configuration, flags, version, follows, prepared):
    made = prepared(configuration, **flags)
    assert (made.problems, made.gates.version) == ([], version)
    assert (made.as_version is not None) is follows


def test_what_the_version_of_the_cluster_forbids_is_an_error(prepared):
    (problem,) = prepared(SHAPE).as_version("1.36").problems
    assert "shape" in problem
    assert "StorageCapacityScoring" in problem
    assert prepared(SHAPE).as_version("1.37").problems == []


def test_an_unread_version(prepared):
    assert prepared(emulated_version=("1.38",)).problems == [
        "bayplan run: --emulated-version: unknown version '1.38': expected one of 1.36, 1.37"
    ]


def test_problems_in_every_version_are_those_of_the_oldest(prepared):
    assert prepared(feature_gates=("Nonesuch=true",)).problems == [
        "bayplan run: --feature-gates: unknown feature gate 'Nonesuch'"
    ]
    assert prepared(feature_gates=("CompositePodGroup=true",)).problems == [
        "bayplan run: --feature-gates: CompositePodGroup: Kubernetes 1.36 doesn't have this gate, 1.37 does"
    ]


class Server:
    """A client of a server that replies to /version."""

    def __init__(self, reply):
        self.reply = reply

    async def request(self, method, path):
        assert (method, path) == ("GET", "/version")
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


@cases(
    "reply, flags, version, logged",
    {
        "the same": (b'{"gitVersion": "v1.36.4"}', {}, "1.36", ""),
        "the next": (b'{"gitVersion": "v1.37.2-eks-1"}', {}, "1.37", ""),
        "newer": (
            b'{"gitVersion": "v1.40.0"}',
            {},
            "1.37",
            "the newest it knows; --emulated-version names another one",
        ),
        "no JSON": (b"hello", {}, "1.36", "doesn't say which version it has"),
        "no reply": (TransportError("gone", sent=False), {}, "1.36", "doesn't say which version it has"),
        "chosen": (AssertionError(), {"emulated_version": ("1.37",)}, "1.37", ""),
    },
)
async def test_the_version_of_the_cluster_is_followed(reply, flags, version, logged, prepared, caplog):
    made = await _as_the_cluster(prepared(**flags), Server(reply))
    assert (made.problems, made.gates) == ([], gates_of(version))
    assert logged in caplog.text
    assert bool(caplog.text) is bool(logged)


async def test_a_cluster_whose_version_forbids_something_stops_the_start(prepared, capsys):
    with pytest.raises(SystemExit) as ended:
        await _as_the_cluster(prepared(feature_gates=GANG_GATES), Server(b'{"gitVersion": "v1.37.0"}'))
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "bayplan run: --feature-gates: GangScheduling: Kubernetes 1.37 doesn't have this gate, 1.36 does "
        "(the cluster has Kubernetes 1.37)\n"
    )


@cases(
    "version, warned", {"a version with GangScheduling": ("v1.36.4", True), "a version without it": ("v1.37.2", False)}
)
async def test_a_warning_about_a_version_waits_until_that_of_the_cluster_is_known(version, warned, prepared, caplog):
    made = prepared(feature_gates=("GenericWorkload=true",))
    assert "GenericWorkload has no effect" in "".join(made.doubtful)
    await _as_the_cluster(made, Server(json.dumps({"gitVersion": version}).encode()))
    assert ("GenericWorkload has no effect without GangScheduling" in caplog.text) is warned


def test_a_warning_that_holds_in_every_version_does_not_wait(prepared):
    made = prepared(vmodule=("a=1",))
    assert (len(made.warnings), made.doubtful) == (1, [])


def test_nothing_is_in_doubt_if_a_version_was_chosen(prepared):
    made = prepared(feature_gates=("GenericWorkload=true",), emulated_version=("1.36",))
    assert (len(made.warnings), made.doubtful) == (1, [])
