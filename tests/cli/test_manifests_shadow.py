"""`bayplan manifests --shadow`: the objects of a shadow, which may only read, and deploy/shadow.yaml."""

from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.faces.cli import main
from bayplan.faces.cli.shadow import shadow

SHIPPED = Path(__file__).parents[2] / "deploy" / "shadow.yaml"
IMAGE = "registry.example/bayplan:0.2.0"
POLICY = """
from bayplan import score_plugin


@score_plugin
def tier(pod, node):
    return 1
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gold
"""


def printed(*arguments):
    return CliRunner().invoke(main, ["manifests", "--shadow", "--image", IMAGE, *arguments])


def objects(*arguments):
    result = printed(*arguments)
    assert result.exit_code == 0, result.output
    return {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}


def container(found):
    (only,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


def test_the_shipped_file_is_what_the_command_prints():
    expected = f"bayplan manifests --shadow --image {IMAGE} > deploy/shadow.yaml"
    assert SHIPPED.read_text() == printed().stdout, expected


def test_it_may_only_read():
    rules = objects()["ClusterRole"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert {"nodes", "pods", "persistentvolumeclaims", "resourceclaims", "podgroups"} <= resources
    assert not {"secrets", "configmaps", "events", "*"} & resources
    assert "nonResourceURLs" not in str(rules)


def test_its_arguments_are_those_of_the_command():
    command, *arguments = container(objects("--scheduler-name", "silver"))["args"]
    assert command == "shadow"
    assert "--scheduler-name=silver" in arguments
    shadow.make_context("shadow", list(arguments))


def test_pods_meet_the_restricted_security_standard():
    spec = objects()["Deployment"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(objects())["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_without_files_there_is_no_config_map():
    found = objects()
    assert "ConfigMap" not in found
    assert [each["name"] for each in found["Deployment"]["spec"]["template"]["spec"]["volumes"]] == ["found", "tmp"]


def test_a_configuration_and_plugins_are_deployed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.py").write_text(POLICY)
    Path("config.yaml").write_text(CONFIGURATION)
    found = objects("--config", "config.yaml", "--plugin", "policy.py", "--name", "mine", "--namespace", "tools")
    assert set(found["ConfigMap"]["data"]) == {"policy.py", "scheduler.yaml"}
    arguments = container(found)["args"]
    assert {"--config=/etc/bayplan/scheduler.yaml", "--plugin=/etc/bayplan/policy.py"} <= set(arguments)
    names = {(each["metadata"]["name"], each["metadata"].get("namespace", "tools")) for each in found.values()}
    assert names == {("mine", "tools")}


READER = """
from bayplan.plugin import Filter, Plugin


class Teams(Plugin, Filter):
    name = "Teams"
    permissions = (
        {"apiGroups": ["example.com"], "resources": ["teams"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["example.com"], "resources": ["teams/status"], "verbs": ["patch"]},
        {"apiGroups": ["metrics.example.com"], "resources": ["loads"], "verbs": ["list"]},
    )

    def filter(self, pod, nodes, cycle):
        return None
"""
TOPOLOGIES = f"{CONFIGURATION}  plugins: {{multiPoint: {{enabled: [{{name: NodeResourceTopologyMatch}}]}}}}\n"


@cases(
    "arguments, granted",
    {
        "none": ([], set()),
        "the plugin's own": (["--plugin", "reader.py"], {("example.com", "teams"), ("metrics.example.com", "loads")}),
        "one that comes with Bayplan": (["--config", "t.yaml"], {("topology.node.k8s.io", "noderesourcetopologies")}),
        "beside a module of the image": (
            ["--config", "t.yaml", "--plugin", "only_in_the_image"],
            {("topology.node.k8s.io", "noderesourcetopologies")},
        ),
    },
)
def test_it_may_follow_what_its_plugins_declare(arguments, granted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reader.py").write_text(READER)
    Path("t.yaml").write_text(TOPOLOGIES)
    rules, usual = (objects(*each)["ClusterRole"]["rules"] for each in (arguments, []))
    new = [rule for rule in rules if rule not in usual]
    assert {(group, each) for rule in new for group in rule["apiGroups"] for each in rule["resources"]} == granted
    for rule in rules:  # a source of measurements is asked, and not watched
        assert rule["verbs"] == (["list"] if rule["apiGroups"] == ["metrics.example.com"] else ["list", "watch"])


@pytest.mark.parametrize(
    ("text", "message"),
    [("profiles: 3\n", "config.yaml"), (f"{CONFIGURATION}clientConnection: {{kubeconfig: /k}}\n", "remove it")],
)
def test_bad_files_are_one_message(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(text)
    result = printed("--config", "config.yaml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_help_names_the_option():
    help_text = CliRunner().invoke(main, ["manifests", "--help"]).stdout
    assert "--shadow" in help_text
    assert isinstance(main.get_command(click.Context(main), "shadow"), click.Command)
