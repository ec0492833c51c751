"""Bad input to all commands about a cluster is one message and exit status 2."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
import yaml
from bayplan_documents import document
from click.testing import CliRunner

from bayplan.cli import main
from bayplan.devcluster.apiserver import ApiServer
from bayplan.insight import Snapshot

NODE = document("Node", "a", namespace="", status={"allocatable": {"cpu": "4", "pods": "10"}})
POD = document("Pod", "web", spec={"containers": [{"name": "c", "image": "i"}]})
DUMP = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]})

COMMANDS = {
    "explain": ["explain", "web"],
    "explain all": ["explain", "--all-pending"],
    "explain workload": ["explain", "deployment/web"],
    "why-not": ["why-not", "web", "a"],
    "fit": ["fit", "-f", "more.json"],
    "capacity": ["capacity", "-f", "more.json"],
    "drain": ["drain", "a"],
    "snapshot": ["snapshot", "saved"],
}
SOURCES = {
    "missing file": (["--from", "none.json"], "none.json: No such file or directory"),
    "cut-off dump": (["--from", "cut.json"], "cut.json, document 1 (line 1): the file ends in the middle"),
    "no snapshot": (["--from", "text.bayplan"], "text.bayplan"),
    "cut-off snapshot": (["--from", "cut.bayplan"], "cut.bayplan is cut off"),
    "newer snapshot": (["--from", "newer.bayplan"], "newer.bayplan is a snapshot of version 99"),
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


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("source", "message"), SOURCES.values(), ids=SOURCES)
def test_unusable_source_is_one_message(command, source, message):
    assert message_of(*command, *source).startswith(f"bayplan {command[0]}: {message}")


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_missing_permission_is_one_message(command, tmp_path):
    async with ApiServer(rbac=True, tokens={"token": "unprivileged"}) as server:
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        line = await asyncio.to_thread(message_of, *command, "--kubeconfig", "kubeconfig")

    assert "no right to list nodes; `bayplan manifests --insight` prints the ClusterRole" in line


NAMES = {
    "pod": (["explain", "x"], "there is no pod default/x in dump.json"),
    "pod elsewhere": (["explain", "web", "-n", "shop"], "there is no pod shop/web in dump.json; there is default/web"),
    "workload": (["explain", "job/x"], "there is no job default/x with pods in dump.json"),
    "pod of why-not": (["why-not", "x", "a"], "there is no pod default/x in dump.json"),
    "node of why-not": (["why-not", "web", "b"], "there is no node b"),
    "manifest": (["fit", "-f", "x.json"], "x.json: No such file or directory"),
    "manifest of capacity": (["capacity", "-f", "x.json"], "x.json: No such file or directory"),
    "existing pod": (["fit", "-f", "dump.json"], "pod default/web exists already"),
    "node of drain": (["drain", "b"], "there is no node b"),
}


@pytest.mark.parametrize(("command", "message"), NAMES.values(), ids=NAMES)
def test_unknown_name_is_one_message(command, message):
    assert message_of(*command, "--from", "dump.json").startswith(f"bayplan {command[0]}: {message}")
