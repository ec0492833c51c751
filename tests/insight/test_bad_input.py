"""Bad input to all commands about a cluster is one message and exit status 2."""

import asyncio
import gzip
import json

import pytest
import yaml
from bayplan_documents import document, workload
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.faces.cli import main
from bayplan.insight import Snapshot
from bayplan_devcluster.apiserver import ApiServer

NODE = document("Node", "a", namespace="", status={"allocatable": {"cpu": "4", "pods": "10"}})
POD = document("Pod", "web", spec={"containers": [{"name": "c", "image": "i"}]})
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SITE = workload("Deployment", "site", 0)
DUMP = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD, SITE]})

COMMANDS = {
    "explain": ["explain", "web"],
    "explain all": ["explain", "--all-pending"],
    "explain workload": ["explain", "deployment/web"],
    "why-not": ["why-not", "web", "a"],
    "fit": ["fit", "-f", "more.json"],
    "check": ["check", "more.json"],
    "capacity": ["capacity", "-f", "more.json"],
    "drain": ["drain", "a"],
    "shrink": ["shrink"],
    "what-if": ["what-if", "--cordon", "a"],
    "balance": ["balance"],
    "when": ["when", "--all-pending"],
    "scale-up": ["scale-up"],
    "usage": ["usage"],
    "doctor": ["doctor"],
    "upgrade-preview": ["upgrade-preview"],
    "diff": ["diff", "--config", "same.yaml"],
    "snapshot": ["snapshot", "saved"],
}
SOURCES = {
    "missing file": (["--from", "none.json"], "none.json: No such file or directory"),
    "cut-off dump": (["--from", "cut.json"], "cut.json, document 1 (line 1): the file ends in the middle"),
    "no snapshot": (["--from", "text.bayplan"], "text.bayplan"),
    "cut-off snapshot": (["--from", "cut.bayplan"], "cut.bayplan is cut off"),
    "newer snapshot": (["--from", "newer.bayplan"], "newer.bayplan is a snapshot of version 99"),
    "empty folder": (["--from", "empty"], "empty: no file in this directory ends in .yaml, .yml, .json"),
    "empty file": (["--from", "empty.json"], "there are no objects in empty.json"),
    "nothing that matters": (["--from", "map.json"], "there are no objects in map.json that decisions depend on: "),
    "binary file": (["--from", "bytes"], "bytes: not a text file in UTF-8: line 1 has byte 0xff"),
    "YAML with a tab": (["--from", "tab.yaml"], "tab.yaml, document 1 (line 3): not valid YAML: found a tab character"),
    "no Kubernetes object": (["--from", "other.yaml"], "other.yaml, document 1 (line 1): apiVersion is missing"),
    "unknown context": (["--kubeconfig", "kubeconfig", "--context", "x"], "kubeconfig: there is no context 'x'"),
    "unreachable server": (["--kubeconfig", "kubeconfig"], "cannot read nodes of http://127.0.0.1:1"),
    "missing kubeconfig": (["--kubeconfig", "none"], "none: cannot read the kubeconfig"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.json").write_text(json.dumps(document("Pod", "more", spec=POD["spec"])))
    (tmp_path / "dump.json").write_text(DUMP)
    (tmp_path / "cut.json").write_text(DUMP[:-20])
    (tmp_path / "text.bayplan").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.json").touch()
    (tmp_path / "map.json").write_text(json.dumps(document("ConfigMap", "settings")))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "tab.yaml").write_text("apiVersion: v1\nkind: Pod\n\tmetadata: {}\n")
    (tmp_path / "other.yaml").write_text("services: {}\n")
    (tmp_path / "same.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    Snapshot.of([NODE, POD]).save("whole.bayplan")
    content = (tmp_path / "whole.bayplan").read_bytes()
    (tmp_path / "cut.bayplan").write_bytes(content[:-9])
    header, *lines = gzip.decompress(content).splitlines()
    newer = json.dumps(json.loads(header) | {"version": 99}).encode()
    (tmp_path / "newer.bayplan").write_bytes(gzip.compress(b"\n".join([newer, *lines])))
    (tmp_path / "kubeconfig").write_text(kubeconfig("http://127.0.0.1:1"))


def kubeconfig(server):
    named = {"cluster": {"server": server}, "user": {"token": "token"}, "context": {"cluster": "dev", "user": "dev"}}
    lists = {f"{name}s": [{"name": "dev", name: value}] for name, value in named.items()}
    return yaml.dump({**lists, "current-context": "dev"})


def message_of(*arguments):
    """The only line of an error."""
    result = CliRunner().invoke(main, arguments, prog_name="bayplan")
    assert isinstance(result.exception, SystemExit), result.exc_info
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


@cases("command", COMMANDS)
@cases("source, message", SOURCES)
def test_unusable_source_is_one_message(command, source, message):
    assert message_of(*command, *source).startswith(f"bayplan {command[0]}: {message}")


@cases("command", COMMANDS)
async def test_missing_permission_is_one_message(command, tmp_path):
    async with ApiServer(rbac=True, tokens={"token": "unprivileged"}) as server:
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        line = await asyncio.to_thread(message_of, *command, "--kubeconfig", "kubeconfig")

    assert "no right to list nodes; `bayplan manifests --insight` prints the ClusterRole" in line


NAMES = {
    "pod": (["explain", "x"], "there is no pod default/x in dump.json"),
    "pod elsewhere": (["explain", "web", "-n", "shop"], "there is no pod shop/web in dump.json; there is default/web"),
    "similar pod": (["explain", "wbe"], "there is no pod default/wbe in dump.json: did you mean 'web'?"),
    "workload for a pod": (
        ["explain", "site"],
        "there is no pod default/site in dump.json; there is deployment defaul",
    ),
    "workload": (["explain", "job/x"], "there is no job default/x with pods in dump.json"),
    "pod of why-not": (["why-not", "x", "a"], "there is no pod default/x in dump.json"),
    "node of why-not": (["why-not", "web", "b"], "there is no node b"),
    "manifest": (["fit", "-f", "x.json"], "x.json: No such file or directory"),
    "manifest of capacity": (["capacity", "-f", "x.json"], "x.json: No such file or directory"),
    "manifest without objects": (["fit", "-f", "empty.json"], "there are no objects in empty.json"),
    "node of drain": (["drain", "b"], "there is no node b"),
}


@cases("command, message", NAMES)
def test_unknown_name_is_one_message(command, message):
    assert message_of(*command, "--from", "dump.json").startswith(f"bayplan {command[0]}: {message}")


ODD = {
    "pod without a spec": (document("Pod", "odd", spec=None), "Pod default/odd is left out: a pod needs metadata and"),
    "text for a number": (document("Pod", "odd", spec={"priority": "high"}), "Pod default/odd is left out: Expected"),
    "no quantity": (
        document("Pod", "odd", spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "1e300"}}}]}),
        "Pod default/odd is left out: '1e300' is not a quantity",
    ),
    "huge priority": (document("Pod", "odd", spec={"priority": 10**30}), "Pod default/odd is left out: Expected `int`"),
    "no name": (document("Pod", ""), "odd.json, document 1 (line 1), item 3: Pod: metadata.name is missing"),
    "text for metadata": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": "x"},
        "odd.json, document 1 (line 1), item 3",
    ),
    "no object": (5, "odd.json, document 1 (line 1), item 3: Expected `object`, got `int`"),
    "unknown kind": (document("Frob", "odd"), "odd.json, document 1 (line 1), item 3: there is no kind Frob in v1"),
    "custom kind": (document("Frob", "odd", "example.com/v1"), ""),
    "node without a status": (document("Node", "odd", namespace=""), ""),
    "the same object again": (POD, ""),
    "nested lists": ({"apiVersion": "v1", "kind": "List", "items": [{"kind": "PodList", "items": [POD]}]}, ""),
    "node with a bad quantity": (
        document("Node", "odd", namespace="", status={"allocatable": {"cpu": "many"}}),
        "Node odd is left out: 'many' is not a quantity",
    ),
    "budget of another type": (
        document("PodDisruptionBudget", "odd", "policy/v1", spec=5),
        "PodDisruptionBudget default/odd is left out: Expected",
    ),
}
QUESTIONS = [command for name, command in COMMANDS.items() if name not in {"snapshot", "explain workload", "drain"}]


@pytest.mark.parametrize("command", QUESTIONS, ids=[command[0] for command in QUESTIONS])
@cases("odd, warning", ODD)
def test_odd_object_costs_only_itself(command, odd, warning, tmp_path):
    (tmp_path / "odd.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD, odd]}))

    result = CliRunner().invoke(main, [*command, "--from", "odd.json"], prog_name="bayplan")

    assert result.exit_code == 0, result.output
    assert [line.startswith(f"warning: {warning}") for line in result.stderr.splitlines()] == [True] * bool(warning)


FLAGS = {
    "a negative limit": (["explain", "web", "--limit", "-1"], "-1 is not in the range x>=0"),
    "a text for the seed": (["explain", "web", "--seed", "x"], "'x' is not a valid integer"),
    "an unknown format": (["explain", "web", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'json', 'html'"),
    "a bad selector": (["shrink", "-l", "a in"], "--selector 'a in': unable to parse requirement"),
    "no pod": (["explain", "/"], "expected a pod or TYPE/NAME"),
    "no copies": (["capacity", "-f", "more.json=0"], "expected 1 to 10,000 copies in a set"),
    "too many copies": (["capacity", "-f", f"more.json={10**20}"], "expected 1 to 10,000 copies in a set"),
    "a negative ratio": (["capacity", "-f", "more.json", "--ratio", "-1"], "expected a positive number for each file"),
    "no more sets": (["capacity", "-f", "more.json", "--most", "0"], "0 is not in the range x>=1"),
    "negative replicas": (["what-if", "--scale", "deployment/web=-1"], "expected TYPE/NAME=NUMBER"),
    "a negative number of nodes": (["what-if", "--add-nodes=-1xlike:a"], "expected the number of new nodes"),
    "too many nodes": (["what-if", "--add-nodes", f"{10**20}xlike:a"], "the limit of nodes is 5,000"),
    "an unknown effect": (["what-if", "--taint", "a", "x=y:Never"], "with an effect of NoSchedule, PreferNoSchedule"),
    "a manifest of another type": (
        ["fit", "-f", "text.json"],
        "text.json, document 1 (line 1): Pod: metadata: expected",
    ),
    "too many pods": (
        ["fit", "-f", "many.json"],
        "2,000,000,000 new pods in one question; the limit of pods is 50,000",
    ),
    "two readers of standard input": (["fit", "-f", "-", "--from", "-"], "only one of them can read standard input"),
    "an address": (["fit", "-f", "https://example.com/a.yaml"], "https://example.com/a.yaml: addresses aren't read: "),
    "many runs": (["when", "web", "--runs", f"{10**12}"], "runs: expected at most 1,000, not 1,000,000,000,000"),
    "two questions": (["when", "web", "--all-pending"], "expected one of a pod, a workload such as job/train, -f and"),
    "one file for two formats": (
        ["check", "more.json", "--save", "sarif=a", "--save", "junit=a"],
        "--save: a file is named twice",
    ),
    "no configuration": (["explain", "web", "--config", "tab.yaml"], "tab.yaml:3: a tab cannot start a value"),
    "no plugin": (["explain", "web", "--plugin", "none.py"], "none.py: no such file"),
}


@cases("command, message", FLAGS)
def test_bad_value_of_a_flag_is_one_message(command, message, tmp_path):
    (tmp_path / "text.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": "x"}')
    template = {"metadata": {"labels": {"app": "a"}}, "spec": POD["spec"]}
    spec = {"replicas": 2 * 10**9, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    (tmp_path / "many.json").write_text(json.dumps(document("ReplicaSet", "a", "apps/v1", spec=spec)))

    source = [] if "-" in command else ["--from", "dump.json"]
    result = CliRunner().invoke(main, [*command, *source], prog_name="bayplan", input=DUMP)

    assert isinstance(result.exception, SystemExit), result.exc_info
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr.splitlines()[-1]


def test_answer_is_shown_that_cannot_be_saved():
    command = ["check", "more.json", "--from", "dump.json", "--save", "sarif=none/a"]
    result = CliRunner().invoke(main, command, prog_name="bayplan")

    assert result.exit_code == 2
    assert result.stdout.startswith("1 note; 1 of 1 pod of 1 object would be placed\n")
    assert result.stderr == "bayplan check: --save sarif=none/a: No such file or directory\n"


def test_closed_standard_input_is_one_message(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SystemExit) as error:
        main(["explain", "web", "--from", "-"], prog_name="bayplan")

    assert error.value.code == 2


def test_pod_may_be_named_with_its_namespace():
    result = CliRunner().invoke(main, ["explain", "default/web", "--from", "dump.json"], prog_name="bayplan")

    assert result.stdout.startswith("pod default/web: pending, and would be placed on node a now")
