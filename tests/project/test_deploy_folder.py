"""The manifests in deploy/: all forms agree, pods are restricted, and permissions are minimal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from chart_rendering import render
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.core.config import read_configuration
from bayplan.faces.cli.manifests import manifests
from bayplan.faces.cli.run import run

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "chart" / "bayplan"
IMAGE = "registry.example/bayplan:0.2.0"
POLICY = "from bayplan import filter_plugin\n\n\n@filter_plugin\ndef tier(pod, node):\n    pass\n"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: bayplan-scheduler}
profiles:
- schedulerName: gold
"""

needs_kubectl = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH"),
]


def printed(*arguments):
    result = CliRunner().invoke(manifests, ["--image", IMAGE, *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def by_name(documents):
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def kustomized(folder):
    built = subprocess.run(["kubectl", "kustomize", DEPLOY / folder], capture_output=True, text=True, check=True)
    return by_name(yaml.safe_load_all(built.stdout))


def deployment_of(found):
    return found["Deployment", "bayplan-scheduler"]["spec"]


FORMS = {
    "file": lambda: by_name(yaml.safe_load_all((DEPLOY / "bayplan.yaml").read_text())),
    "chart": lambda: by_name(render(CHART, {}, "kube-system")),
    "base": lambda: kustomized("base"),
    "default-scheduler": lambda: kustomized("overlays/default-scheduler"),
    "development": lambda: kustomized("overlays/development"),
}
EACH = pytest.mark.parametrize(
    "form", ["file", "chart", *(pytest.param(form, marks=needs_kubectl) for form in list(FORMS)[2:])]
)


@pytest.mark.parametrize("file", ["bayplan.yaml", "base/bayplan.yaml"])
def test_files_match_the_output_of_the_command(file):
    assert (DEPLOY / file).read_text() == printed(), f"bayplan manifests --image {IMAGE} > deploy/{file}"


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
def test_base_matches_the_output_of_the_command():
    assert kustomized("base") == FORMS["file"]()


@cases(
    "values, arguments",
    {
        "with defaults": ({}, ()),
        "with another name": (
            {"name": "gold", "schedulerName": "silver", "replicas": 3},
            ("--name", "gold", "--scheduler-name", "silver", "--replicas", "3"),
        ),
        "with a plugin": ({"plugins": {"policy.py": POLICY}, "enabledPlugins": ["tier"]}, ("--plugin", "policy.py")),
        "with a configuration": ({"configuration": CONFIGURATION}, ("--config", "config.yaml")),
    },
)
def test_chart_matches_the_output_of_the_command(values, arguments, tmp_path, monkeypatch):
    """Rendered by chart_rendering.py, not by helm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    rendered = by_name(render(CHART, values, "kube-system"))
    plugins = rendered["ConfigMap", values.get("name", "bayplan-scheduler")]["data"].items()
    assert {file: text.strip() for file, text in plugins if ".py" in file} == {
        file: text.strip() for file, text in values.get("plugins", {}).items()
    }
    expected = by_name(yaml.safe_load_all(printed(*arguments)))
    for found in (rendered, expected):
        (deployment,) = (each for (kind, _), each in found.items() if kind == "Deployment")
        template = deployment["spec"]["template"]
        assert template["metadata"]["annotations"].pop("checksum/configuration"), "both have a checksum"
        template["spec"]["containers"][0].pop("imagePullPolicy", None)  # only the chart sets it
        (config_map,) = (each for (kind, _), each in found.items() if kind == "ConfigMap")
        config_map["data"] = {
            file: yaml.safe_load(text) for file, text in config_map["data"].items() if ".py" not in file
        }
    assert rendered == expected


@EACH
def test_pods_meet_the_restricted_security_standard(form):
    """The Pod Security Standard "restricted", and a read-only root filesystem."""
    spec = deployment_of(FORMS[form]())["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"}} == {"configMap", "emptyDir"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@EACH
def test_probes_use_the_serving_port(form):
    (container,) = deployment_of(FORMS[form]())["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"https": 10259}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    assert {(probe["port"], probe["scheme"]) for probe in probes.values()} == {("https", "HTTPS")}


@EACH
def test_selectors_match_the_pods(form):
    found = FORMS[form]()
    spec = deployment_of(found)
    labels = spec["template"]["metadata"]["labels"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    budget = found["PodDisruptionBudget", "bayplan-scheduler"]["spec"]
    assert {each["topologyKey"] for each in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    for selector in (spec["selector"], budget["selector"], *(each["labelSelector"] for each in spread)):
        assert selector["matchLabels"].items() <= labels.items()


@EACH
def test_roles_grant_no_wildcards_or_cluster_wide_rules(form):
    found = FORMS[form]()
    roles = {each["roleRef"]["name"] for (kind, _), each in found.items() if kind.endswith("Binding")}
    own = {name for kind, name in found if kind == "Role"}
    assert roles - own == {
        "system:kube-scheduler",
        "system:volume-scheduler",
        "extension-apiserver-authentication-reader",
    }
    for kind, name in found:
        assert kind != "ClusterRole", name
        for rule in found[kind, name].get("rules", ()):
            assert "*" not in str(rule), f"{name} grants too much: {rule}"
            assert rule["resourceNames"], f"{name} is not limited to one object: {rule}"


@EACH
def test_replicas_elect_a_leader(form, tmp_path):
    found = FORMS[form]()
    spec = deployment_of(found)
    file = tmp_path / "scheduler.yaml"
    file.write_text(found["ConfigMap", "bayplan-scheduler"]["data"]["scheduler.yaml"])
    reading = read_configuration(file)
    assert reading.warnings == []
    election = reading.configuration.leaderElection
    assert election.leaderElect
    names = [profile.schedulerName for profile in reading.configuration.profiles]
    lease = found.get(("Role", "bayplan-scheduler:lease"))
    if form == "default-scheduler":
        assert (names, election.resourceName, lease) == (["default-scheduler"], "kube-scheduler", None)
    else:
        assert names == ["bayplan-scheduler"]
        assert lease["rules"][0]["resourceNames"] == [election.resourceName]
        assert lease["metadata"]["namespace"] == election.resourceNamespace
    assert spec["replicas"] == (1 if form == "development" else 2)


def test_bayplan_run_accepts_the_arguments_of_the_static_pod(tmp_path):
    pod = yaml.safe_load((DEPLOY / "static-pod.yaml").read_text())
    (container,) = pod["spec"]["containers"]
    name, *arguments = container["args"]
    assert name == "run"
    result = CliRunner().invoke(run, [*arguments, "--write-config-to", str(tmp_path / "written.yaml")])
    assert result.exit_code == 0, result.output
    written = yaml.safe_load((tmp_path / "written.yaml").read_text())
    assert [profile["schedulerName"] for profile in written["profiles"]] == ["default-scheduler"]
    assert (written["leaderElection"]["leaderElect"], written["leaderElection"]["resourceName"]) == (
        True,
        "kube-scheduler",
    )


def test_dockerfile_runs_as_non_root_and_copies_existing_files():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("USER")] == ["65532:65532"]
    root = DEPLOY.parent
    kept = (root / ".dockerignore").read_text().split()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    sets = ("runtime", "history")  # what the build argument LIBRARIES can be
    for path in {path.replace("${LIBRARIES}", each) for paths in copied for path in paths for each in sets}:
        assert (root / path).exists(), path
        assert f"!{path}" in kept, f"{path} is excluded from the build by .dockerignore"
