"""The chart: values are checked, renderers agree, switches make what commands print, and selectors find their pods."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from chart_rendering import render
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.faces.cli import main
from bayplan_devcluster.apiserver import ApiServer

CHART = Path(__file__).parents[2] / "deploy" / "chart" / "bayplan"
IMAGE = "registry.example/bayplan:0.2.0"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
ON = {"enabled": True}
EVERYTHING = {
    "shadow": {**ON, "schedulerNames": ["default-scheduler", "silver"], "storageClassName": "fast"},
    "recorder": {**ON, "redact": True, "image": "registry.example/bayplan:history", "storageClassName": "fast"},
    "serviceMonitor": {**ON, "labels": {"release": "prometheus"}, "account": {"name": "prometheus"}},
    "prometheusRule": {**ON, "labels": {"release": "prometheus"}},
    "dashboards": ON,
    "networkPolicy": {**ON, "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    "priorityClassName": "schedulers",
    "priorityClass": {"create": True},
    "topologySpread": {"whenUnsatisfiable": "DoNotSchedule"},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"role": "control"},
    "tolerations": [{"key": "control", "operator": "Exists"}],
    "plugins": {"policy.py": "import bayplan\n\nprint('\"{{ x }}')\n"},
    "enabledPlugins": ["tier"],
}
ODD = {
    "name": "1",
    "schedulerName": "0x1",
    "priorityClassName": "null",
    "lease": {"name": "true"},
    "plugins": {"policy.py": "\n    # \u00e9\n  # less\nimport bayplan\n"},
    "enabledPlugins": ["~"],
    "shadow": {**ON, "name": "true", "schedulerNames": ["1.0"], "storageClassName": "1"},
    "recorder": {**ON, "name": "1e3", "storageClassName": "yes"},
    "networkPolicy": ON,
    "priorityClass": {"create": True},
}
SETS = {
    "nothing": {},
    "everything": EVERYTHING,
    "only the shadow": {"scheduler": {"enabled": False}, "shadow": ON, "podDisruptionBudget": {"enabled": False}},
    "strings that YAML reads otherwise": ODD,
    "no budget": {"podDisruptionBudget": {"enabled": False}, "lease": {"role": False, "name": "kube-scheduler"}},
}
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="there is no helm on the PATH")


def helm(command, values, folder, *options):
    file = folder / "values.yaml"
    file.write_text(json.dumps(values))
    return subprocess.run(
        ["helm", *command.split(), CHART, "--values", file, "--namespace", "kube-system", *options],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(folder), "PATH": str(Path(str(shutil.which("helm"))).parent)},
    )


def by_name(documents):
    found = [each for each in documents if each]
    named = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(named) == len(found)
    return named


def rendered(values):
    return by_name(render(CHART, values, "kube-system"))


@needs_helm
@cases("values", SETS)
def test_helm_renders_what_the_other_tests_see(values, tmp_path):
    linted = helm("lint --strict", values, tmp_path)
    assert linted.returncode == 0, linted.stdout
    made = helm("template r", values, tmp_path)
    assert made.returncode == 0, made.stderr
    found, expected = by_name(yaml.safe_load_all(made.stdout)), rendered(values)
    for each in (found, expected):
        name = ("Deployment", values.get("name", VALUES["name"]))
        if name in each:  # both write the same values, but not in the same bytes
            annotations = each[name]["spec"]["template"]["metadata"]["annotations"]
            assert annotations.pop("checksum/configuration")
    assert found == expected


@cases("values", SETS)
def test_an_api_server_takes_the_objects(values):
    found = rendered(values)
    custom = {"ServiceMonitor", "PrometheusRule"}
    server = ApiServer(address=None)
    server.load([each for (kind, _), each in found.items() if kind not in custom])


def test_strings_and_files_arrive_as_they_were_given():
    found = rendered(ODD)
    data = found["ConfigMap", "1"]["data"]
    assert data["policy.py"] == ODD["plugins"]["policy.py"]
    configuration = yaml.safe_load(data["scheduler.yaml"])
    (profile,) = configuration["profiles"]
    assert profile["schedulerName"] == "0x1"
    assert profile["plugins"]["multiPoint"]["enabled"] == [{"name": "~"}]
    assert configuration["leaderElection"]["resourceName"] == "true"
    assert found["PersistentVolumeClaim", "1e3"]["spec"]["storageClassName"] == "yes"


@cases(
    "values, arguments",
    {
        "the shadow": ({"shadow": ON}, ["--shadow"]),
        "a shadow of another scheduler": (
            {"shadow": {**ON, "schedulerNames": ["silver"], "name": "beside"}},
            ["--shadow", "--scheduler-name", "silver", "--name", "beside"],
        ),
        "the recorder": ({"recorder": ON}, ["--recorder"]),
    },
)
def test_a_switch_makes_what_the_command_prints(values, arguments):
    command = ["manifests", *arguments, "--image", IMAGE]
    printed = CliRunner().invoke(main, command)
    expected = by_name(yaml.safe_load_all(printed.stdout))
    found = rendered({"scheduler": {"enabled": False}, **values})
    (deployment,) = (each for (kind, _), each in found.items() if kind == "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy")  # only the chart sets it
    assert found == expected


def test_the_schema_describes_every_value():
    def check(values, schema, where):
        assert schema.get("description") or where == "", where
        if "properties" not in schema or where.endswith(".resources"):
            return
        assert schema["additionalProperties"] is False
        assert values.keys() == schema["properties"].keys() - {"global"}, where
        for name, value in values.items():
            if isinstance(value, dict):
                check(value, schema["properties"][name], f"{where}.{name}")

    check(VALUES, SCHEMA, "")


TYPOS = {
    "another name": ({"replcas": 3}, "replcas"),
    "a name inside": ({"shadow": {"enable": True}}, "enable"),
    "another type": ({"replicas": "two"}, "replicas"),
    "no quantity": ({"recorder": {"storage": "lots"}}, "storage"),
    "no duration": ({"serviceMonitor": {"interval": "often"}}, "interval"),
    "another word": ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "a class of Kubernetes": ({"priorityClass": {"create": True}}, "priorityClassName"),
    "no name": ({"recorder": {"storageClassName": "Fast disks"}}, "storageClassName"),
    "no tag": ({"image": {"tag": "0.2.0 "}}, "tag"),
    "no file of Python": ({"plugins": {"policy": ""}}, "plugins"),
}


def merged(own, given):
    return {
        **own,
        **{key: merged(own[key], each) if isinstance(own.get(key), dict) else each for key, each in given.items()},
    }


@cases("values", SETS)
def test_good_values_are_accepted(values):
    jsonschema.validate(merged(VALUES, values), SCHEMA)


@cases("values, named", TYPOS)
def test_a_typo_in_values_is_named(values, named):
    (error,) = jsonschema.Draft7Validator(SCHEMA).iter_errors(merged(VALUES, values))
    assert named in f"{error.json_path} {error.message}"


@needs_helm
@cases("values, named", TYPOS)
def test_helm_names_a_typo_in_one_line(values, named, tmp_path):
    done = helm("template r", values, tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    # helm 3 also says that a condition of the whole was met
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("- ") and '"if" was valid' not in line)
    assert named in line


def selected(found, selector):
    """The pod templates that labels select."""
    pods = [each["spec"]["template"] for (kind, _), each in found.items() if kind == "Deployment"]
    return [pod for pod in pods if selector.items() <= pod["metadata"]["labels"].items()]


def test_what_selects_finds_its_pods_and_ports():
    found = rendered(EVERYTHING)
    names = {name for kind, name in found if kind == "Deployment"}
    assert names == {"bayplan-scheduler", "bayplan-shadow", "bayplan-recorder"}
    for name in names:
        service = found["Service", name]
        (pod,) = selected(found, service["spec"]["selector"])
        (container,) = pod["spec"]["containers"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        (port,) = service["spec"]["ports"]
        assert ports == {port["targetPort"]: port["port"]}
        monitor = found["ServiceMonitor", name]["spec"]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        (endpoint,) = monitor["endpoints"]
        assert endpoint["port"] == port["name"]
        assert (endpoint.get("scheme") == "https") is (name == "bayplan-scheduler")
        policy = found["NetworkPolicy", name]["spec"]
        assert selected(found, policy["podSelector"]["matchLabels"]) == [pod]
        (ingress,) = policy["ingress"]
        assert [each["port"] for each in ingress["ports"]] == [port["targetPort"]]
        assert ingress["from"] == EVERYTHING["networkPolicy"]["from"]
        alerts = yaml.safe_load((CHART / "alerts" / f"{name.removeprefix('bayplan-')}.yaml").read_text())
        assert found["PrometheusRule", name]["spec"] == alerts
        ((_, text),) = found["ConfigMap", f"{name}-dashboard"]["data"].items()
        assert json.loads(text)["panels"]
    spread = found["Deployment", "bayplan-scheduler"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert {each["whenUnsatisfiable"] for each in spread} == {"DoNotSchedule"}
    assert found["PriorityClass", "schedulers"]["value"] <= 1_000_000_000
    role = found["ClusterRole", "bayplan-scheduler:metrics"]["rules"]
    assert role == [{"nonResourceURLs": ["/metrics", "/metrics/resources"], "verbs": ["get"]}]
    assert found["ClusterRoleBinding", "bayplan-scheduler:metrics"]["subjects"][0]["namespace"] == "kube-system"


def test_without_peers_all_may_connect():
    policy = rendered({"networkPolicy": ON})["NetworkPolicy", "bayplan-scheduler"]
    assert "from" not in policy["spec"]["ingress"][0]


def test_the_chart_says_what_an_index_of_charts_shows():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    changes = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    kinds = {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert all(each["kind"] in kinds and each["description"] for each in changes)
    assert chart["keywords"]
