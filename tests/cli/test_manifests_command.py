"""The output and the errors of `bayplan manifests`."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.core.config import read_configuration
from bayplan.faces.cli.manifests import manifests
from bayplan.faces.cli.run import run

ROOT = Path(__file__).parents[2]
IMAGE = ("--image", "registry.example/bayplan:1")
POLICY = """
from bayplan import filter_plugin

@filter_plugin
def tier(pod, node):
    return "no" if node.labels.get("tier") == "control" else None
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: gold, resourceNamespace: locks}
profiles:
- schedulerName: gold
"""


def printed(*arguments, status=0):
    result = CliRunner().invoke(manifests, [*map(str, arguments)])
    assert result.exit_code == status, result.output
    return result


def objects(*arguments):
    found = list(yaml.safe_load_all(printed(*IMAGE, *arguments).stdout))
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(by_name) == len(found), "duplicate objects"
    return by_name


def pod_of(found):
    (deployment,) = (each for (kind, _), each in found.items() if kind == "Deployment")
    return deployment["spec"]["template"]["spec"]


def configuration_of(found, tmp_path):
    (config_map,) = (each for (kind, _), each in found.items() if kind == "ConfigMap")
    for name, text in config_map["data"].items():
        (tmp_path / name).write_text(text)
    return config_map["data"]


def test_objects_have_the_name_and_namespace():
    found = objects("--name", "gold", "--namespace", "shop", "--replicas", "3")
    kinds = sorted({kind for kind, _ in found})
    assert kinds == [
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ]
    for (kind, name), each in found.items():
        assert name.partition(":")[0] == "gold", (kind, name)
        elsewhere = {"gold:extension-apiserver-authentication-reader": "kube-system"}
        home = None if kind == "ClusterRoleBinding" else elsewhere.get(name, "shop")
        assert each["metadata"].get("namespace") == home
        for subject in each.get("subjects", ()):
            assert (subject["name"], subject["namespace"]) == ("gold", "shop")
    assert found["Deployment", "gold"]["spec"]["replicas"] == 3
    assert pod_of(found)["containers"][0]["image"] == "registry.example/bayplan:1"


def test_the_generated_configuration_is_valid(tmp_path):
    configuration_of(objects("--name", "gold", "--namespace", "shop"), tmp_path)
    reading = read_configuration(tmp_path / "scheduler.yaml")
    assert reading.warnings == []
    assert [profile.schedulerName for profile in reading.configuration.profiles] == ["gold"]
    election = reading.configuration.leaderElection
    assert (election.leaderElect, election.resourceNamespace, election.resourceName) == (True, "shop", "gold")


def test_scheduler_name(tmp_path):
    configuration_of(objects("--scheduler-name", "silver"), tmp_path)
    (profile,) = read_configuration(tmp_path / "scheduler.yaml").configuration.profiles
    assert profile.schedulerName == "silver"


def test_a_plugin_is_deployed_and_enabled(tmp_path):
    (tmp_path / "policy.py").write_text(POLICY)
    found = objects("--plugin", tmp_path / "policy.py")
    data = configuration_of(found, tmp_path)
    assert data["policy.py"] == POLICY
    assert "--plugin=/etc/bayplan/policy.py" in pod_of(found)["containers"][0]["args"]
    (profile,) = yaml.safe_load(data["scheduler.yaml"])["profiles"]
    assert profile["plugins"] == {"multiPoint": {"enabled": [{"name": "tier"}]}}


def test_a_configuration_is_deployed_unchanged(tmp_path):
    file = tmp_path / "gold.yaml"
    file.write_text(CONFIGURATION)
    found = objects("--config", file, "--scheduler-name", "silver")
    assert configuration_of(found, tmp_path)["scheduler.yaml"] == CONFIGURATION
    assert "--scheduler-name=silver" in pod_of(found)["containers"][0]["args"]
    role = found["Role", "bayplan-scheduler:lease"]
    assert role["metadata"]["namespace"] == "locks"
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["gold"],
            "verbs": ["get", "update"],
        }
    ]


def test_one_of_several_configurations_is_deployed_alone(tmp_path):
    (tmp_path / "all.yaml").write_text(f"{CONFIGURATION}---\n{CONFIGURATION}")
    deployed = configuration_of(objects("--config", tmp_path / "all.yaml#2"), tmp_path)["scheduler.yaml"]
    assert yaml.safe_load(deployed) == yaml.safe_load(CONFIGURATION)


def test_a_module_of_the_image_is_not_deployed(tmp_path):
    file = tmp_path / "gold.yaml"
    file.write_text(CONFIGURATION)
    found = objects("--config", file, "--plugin", "my_policies:tier")
    assert "--plugin=my_policies:tier" in pod_of(found)["containers"][0]["args"]
    assert list(configuration_of(found, tmp_path)) == ["scheduler.yaml"]


def test_the_lease_of_the_stock_scheduler_needs_no_role(tmp_path):
    file = tmp_path / "default.yaml"
    file.write_text(CONFIGURATION.replace("gold, resourceNamespace: locks", "kube-scheduler"))
    result = printed(*IMAGE, "--config", file)
    assert not [each for each in yaml.safe_load_all(result.stdout) if each["kind"] == "Role"]
    assert "is the lease of the stock kube-scheduler, and Bayplan waits while that one leads" in result.stderr


def test_one_replica_without_leader_election_is_recreated(tmp_path):
    file = tmp_path / "alone.yaml"
    file.write_text(CONFIGURATION.replace("leaderElect: true", "leaderElect: false"))
    found = objects("--config", file, "--replicas", "1")
    assert ("Role", "bayplan-scheduler:lease") not in found
    assert found["Deployment", "bayplan-scheduler"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "strategy" not in objects()["Deployment", "bayplan-scheduler"]["spec"]


def test_permissions_for_coscheduling_match_those_of_its_custom_resource():
    found = objects("--config", ROOT / "examples" / "coscheduling" / "config.yaml", "--replicas", "1")
    shipped = yaml.safe_load_all((ROOT / "deploy" / "podgroup-crd.yaml").read_text())
    definition, role, binding = shipped
    assert found["CustomResourceDefinition", "podgroups.scheduling.x-k8s.io"] == definition
    assert found["ClusterRole", "bayplan-scheduler:plugins"]["rules"] == role["rules"]
    assert found["ClusterRoleBinding", "bayplan-scheduler:plugins"]["subjects"] == binding["subjects"]


def test_a_plugin_that_is_not_enabled_is_reported(tmp_path):
    (tmp_path / "gold.yaml").write_text(CONFIGURATION)
    (tmp_path / "policy.py").write_text(POLICY)
    result = printed(*IMAGE, "--config", tmp_path / "gold.yaml", "--plugin", tmp_path / "policy.py")
    assert "plugin 'tier' is not enabled in any profile: enable it in plugins.multiPoint" in result.stderr


def test_a_changed_configuration_replaces_the_pods(tmp_path):
    def checksum(*arguments):
        (deployment,) = (each for (kind, _), each in objects(*arguments).items() if kind == "Deployment")
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"]

    assert checksum() == checksum("--replicas", "5")
    assert checksum() != checksum("--scheduler-name", "silver")


@pytest.mark.parametrize("more", [(), ("--plugin", "policy.py"), ("--config", "gold.yaml", "--scheduler-name", "s")])
def test_bayplan_run_accepts_the_arguments(more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "gold.yaml").write_text(CONFIGURATION)
    found = objects(*more)
    configuration_of(found, tmp_path)
    name, *arguments = pod_of(found)["containers"][0]["args"]
    assert name == "run"
    here = [argument.replace("/etc/bayplan", str(tmp_path)) for argument in arguments]
    result = CliRunner().invoke(run, [*here, "--write-config-to", str(tmp_path / "written.yaml")])
    assert result.exit_code == 0, result.output
    (profile,) = yaml.safe_load((tmp_path / "written.yaml").read_text())["profiles"]
    assert profile["schedulerName"] == ("s" if "--config" in more else "bayplan-scheduler")
    names = [plugin["name"] for plugin in profile["plugins"]["multiPoint"]["enabled"]]
    assert ("tier" in names) is ("--plugin" in more)


@cases(
    "files, arguments, problem",
    {
        "no image": ({}, (), "Missing option '--image'"),
        "an invalid image": ({}, ("--image", "a b"), "'a b' is not an image"),
        "an invalid name": ({}, (*IMAGE, "--name", "My_Scheduler"), "expected at most 63 of a-z"),
        "no replicas": ({}, (*IMAGE, "--replicas", "0"), "is not in the range"),
        "no such plugin": ({}, (*IMAGE, "--plugin", "no.py"), "no.py: no such file"),
        "no such configuration": ({}, (*IMAGE, "--config", "no.yaml"), "no.yaml"),
        "an unknown module": ({}, (*IMAGE, "--plugin", "nowhere"), "enable its plugins in a --config"),
        "a plugin in another encoding": (
            {"p.py": f"# -*- coding: latin-1 -*-\n# caf\xe9\n{POLICY}".encode("latin-1")},
            (*IMAGE, "--plugin", "p.py"),
            "is not UTF-8 text",
        ),
        "a broken plugin": ({"p.py": "x = ("}, (*IMAGE, "--plugin", "p.py"), "p.py: line 1"),
        "two files with the same name": (
            {"a/p.py": POLICY, "b/p.py": POLICY.replace("tier", "other")},
            (*IMAGE, "--plugin", "a/p.py", "--plugin", "b/p.py"),
            "another plugin file has the name p.py",
        ),
        "a space": (
            {"my policy.py": POLICY},
            (*IMAGE, "--plugin", "my policy.py"),
            "file names in a ConfigMap may contain only",
        ),
        "big": ({"p.py": f"{POLICY}\n# {'x' * 1024 * 1024}\n"}, (*IMAGE, "--plugin", "p.py"), "a ConfigMap can hold"),
        "replicas without leader election": (
            {"c.yaml": CONFIGURATION.replace("leaderElect: true", "leaderElect: false")},
            (*IMAGE, "--config", "c.yaml"),
            "2 replicas would schedule the same pods",
        ),
        "one name for two profiles": (
            {"c.yaml": CONFIGURATION + "- schedulerName: silver\n"},
            (*IMAGE, "--config", "c.yaml", "--scheduler-name", "s"),
            "has 2 profiles (gold, silver)",
        ),
        "a kubeconfig of this machine": (
            {"c.yaml": CONFIGURATION + "clientConnection: {kubeconfig: /somewhere/config}\n"},
            (*IMAGE, "--config", "c.yaml"),
            "does not exist in the pod",
        ),
        "a broken configuration": (
            {"c.yaml": CONFIGURATION.replace("profiles", "profles")},
            (*IMAGE, "--config", "c.yaml"),
            "c.yaml:5",
        ),
    },
)
def test_invalid_arguments_and_files_are_rejected(files, arguments, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    result = printed(*arguments, status=2)
    assert problem in result.stderr
    assert result.stdout == ""


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
def test_kubectl_accepts_the_output(tmp_path):
    (tmp_path / "policy.py").write_text(POLICY)
    text = printed(*IMAGE, "--plugin", tmp_path / "policy.py").stdout
    (tmp_path / "kustomization.yaml").write_text("resources: [bayplan.yaml]\n")
    (tmp_path / "bayplan.yaml").write_text(text)
    built = subprocess.run(["kubectl", "kustomize", tmp_path], capture_output=True, text=True, check=True).stdout
    (config_map,) = (each for each in yaml.safe_load_all(built) if each["kind"] == "ConfigMap")
    assert config_map["data"]["policy.py"] == POLICY


def test_plugins_without_a_configuration_get_what_they_declare(tmp_path):
    (tmp_path / "policy.py").write_text(
        f"{POLICY}\n\ntier.permissions = ({{'apiGroups': ['x.example'], 'resources': ['teams'], 'verbs': ['list']}},)\n"
    )
    found = objects("--plugin", tmp_path / "policy.py")
    assert found["ClusterRole", "bayplan-scheduler:plugins"]["rules"] == [
        {"apiGroups": ["x.example"], "resources": ["teams"], "verbs": ["list"]}
    ]
