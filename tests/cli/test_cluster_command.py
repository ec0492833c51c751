from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.api.kinds import NODE, POD
from bayplan.cli.cluster import cluster
from bayplan.client import connect

POD_YAML = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: node-0, containers: [{name: c, image: i}]}\n"
)


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path, str]]:
    """`bayplan cluster` in a process of its own, once it serves: the process, its kubeconfig and what it printed."""
    command = [sys.executable, "-c", "from bayplan.cli import main; main()", "cluster", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed = ""
        while "stops it" not in printed:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            printed += line
        found = re.search(r"export KUBECONFIG=(\S+)", printed)
        yield process, Path(found[1]), printed
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_a_signal_ends_it_cleanly(number):
    with serving("--nodes", "2") as (process, kubeconfig, printed):
        assert "with 2 nodes serves at http://127.0.0.1:" in printed
        async with connect(kubeconfig) as client:
            assert len((await client.list(NODE)).items) == 2
        process.send_signal(number)
        output, errors = process.communicate(timeout=5)
    assert (process.returncode, output, errors) == (0, "", "")
    assert not kubeconfig.exists()


async def test_nodes_objects_port_and_kubeconfig_are_as_asked_for(tmp_path: Path):
    file, kubeconfig = tmp_path / "pod.yaml", tmp_path / "kubeconfig"
    file.write_text(POD_YAML)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shape = ("--nodes", "1", "--cpu", "500m", "--memory", "1Gi", "--pods", "7", "--zones", "1")
    others = ("--tls", "--port", str(port), "-f", str(file), "--kubeconfig", str(kubeconfig), "--clock-rate", "100")
    with serving(*shape, *others) as (_, named, printed):
        assert named == kubeconfig
        assert f"https://127.0.0.1:{port}" in printed
        assert "1 objects created" in printed
        async with connect(kubeconfig) as client:
            node = await client.get(NODE, "node-0")
            assert {**node.status.capacity}.items() >= {"cpu": "500m", "memory": "1Gi", "pods": "7"}.items()
            assert (await client.get(POD, "p", "default")).spec.nodeName == "node-0"


async def test_nodes_of_a_file_are_counted_and_get_the_labels_of_a_kubelet(tmp_path: Path):
    file = tmp_path / "nodes.yaml"
    capacity = "{cpu: '4', memory: 8Gi, pods: '110', nvidia.com/gpu: '2'}"
    file.write_text(
        "".join(
            f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{disk: ssd}}}}\n"
            f"status: {{capacity: {capacity}, allocatable: {capacity}}}\n---\n"
            for name in ("big-0", "big-1")
        )
    )
    with serving("--nodes", "1", "-f", str(file)) as (_, kubeconfig, printed):
        assert "with 3 nodes serves at" in printed
        async with connect(kubeconfig) as client:
            node = await client.get(NODE, "big-1")
    assert not node.spec.taints
    assert node.metadata.labels == {
        "disk": "ssd",
        "kubernetes.io/hostname": "big-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }


async def test_nodes_have_the_extended_resources_of_the_flag():
    flags = ("--extended-resource", "nvidia.com/gpu=8", "--extended-resource", "example.com/fpga=2")
    with serving("--nodes", "1", *flags) as (_, kubeconfig, printed):
        assert "with 1 node serves at" in printed
        async with connect(kubeconfig) as client:
            status = (await client.get(NODE, "node-0")).status
    for amounts in (status.capacity, status.allocatable):
        assert (amounts["nvidia.com/gpu"], amounts["example.com/fpga"], amounts["cpu"]) == ("8", "2", "8")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("gpu=1", "'gpu' is no extended resource", id="no domain"),
        pytest.param("kubernetes.io/gpu=1", "'kubernetes.io/gpu' is no extended resource", id="native"),
        pytest.param("a b.com/gpu=1", "'a b.com/gpu' is no extended resource", id="bad name"),
        pytest.param("nvidia.com/gpu", "expected an integer that isn't negative as the amount, not ''", id="no amount"),
        pytest.param("nvidia.com/gpu=-1", "expected an integer that isn't negative", id="negative"),
        pytest.param("nvidia.com/gpu=1.5", "expected an integer that isn't negative", id="fraction"),
    ],
)
def test_an_invalid_extended_resource_is_rejected(value: str, problem: str):
    assert problem in refused("--extended-resource", value)


def refused(*arguments: str) -> str:
    """What the command says when it does not start."""
    outcome = CliRunner().invoke(cluster, arguments)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    return outcome.stderr


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", str(port), "--nodes", "0")
    assert said == (
        f"bayplan cluster: port {port} on 127.0.0.1 is in use: choose another with --port, "
        "or leave --port out for a free one\n"
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("a: [", "document 1 (line 1): not valid YAML", id="bad YAML"),
        pytest.param(
            f"{POD_YAML}---\napiVersion: v1\nkind: Pot\n", "document 2 (line 6): there is no kind Pot", id="kind"
        ),
        pytest.param(
            POD_YAML.replace("containers", "boxes"),
            "document 1 (line 1): Pod p: ",
            id="refused by the server",
        ),
    ],
)
def test_objects_that_cannot_be_loaded(tmp_path: Path, content: str, complaint: str):
    file = tmp_path / "objects.yaml"
    file.write_text(content)
    said = refused("--nodes", "0", "-f", str(file))
    assert said.startswith(f"bayplan cluster: {file}, {complaint}")
    assert said.count("\n") == 1


def test_a_file_that_is_not_there(tmp_path: Path):
    file = tmp_path / "absent.yaml"
    assert refused("-f", str(file)) == f"bayplan cluster: {file}: No such file or directory\n"


def test_a_kubeconfig_of_somebody_else_is_left_alone(tmp_path: Path):
    file = tmp_path / "config"
    file.write_text("current-context: production\n")
    said = refused("--nodes", "0", "--kubeconfig", str(file))
    assert said == (
        f"bayplan cluster: {file} exists and is not the kubeconfig of an embedded cluster: name another file\n"
    )
    assert file.read_text() == "current-context: production\n"


def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path):
    file = tmp_path / "no-such-folder" / "config"
    said = refused("--nodes", "0", "--kubeconfig", str(file))
    assert said == f"bayplan cluster: cannot write the kubeconfig {file}: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments",
    [("--cpu", "many"), ("--nodes", "-1"), ("--clock-rate", "0"), ("--port", "70000"), ("--zones", "0"), ("--odd",)],
    ids=" ".join,
)
def test_options_that_make_no_sense(arguments: tuple[str, ...]):
    assert arguments[0] in refused(*arguments)


def test_help_answers_at_once():
    command = [sys.executable, "-X", "importtime", "-c", "from bayplan.cli import main; main()", "--help"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert "cluster" in outcome.stdout
    imported = set(re.findall(r"\| +([\w.]+)$", outcome.stderr, re.MULTILINE))
    assert not imported & {"aiohttp", "numpy", "yaml", "lightkube.models.core_v1"}
