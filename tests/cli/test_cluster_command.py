import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.client import connect
from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.cli.cluster import cluster

POD_YAML = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: node-0, containers: [{name: c, image: i}]}\n"
)


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path, str]]:
    """`bayplan cluster` in a process. Yields the process, its kubeconfig and its output once it serves."""
    command = [sys.executable, "-c", "from bayplan.faces.cli import main; main()", "cluster", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed = ""
        while "to stop it" not in printed:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            printed += line
        found = re.search(r"export KUBECONFIG=(\S+)", printed)
        yield process, Path(found[1]), printed
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_cleanly(number):
    with serving("--nodes", "2") as (process, kubeconfig, printed):
        assert "Serving an embedded Kubernetes cluster with 2 nodes at http://127.0.0.1:" in printed
        async with connect(kubeconfig) as client:
            assert len((await client.list(NODE)).items) == 2
        process.send_signal(number)
        output, errors = process.communicate(timeout=5)
    assert (process.returncode, output, errors) == (0, "", "")
    assert not kubeconfig.exists()


def test_it_answers_to_accepted_host_names():
    with serving("--nodes", "1", "--accept-hosts", r"\.svc$") as (_, kubeconfig, _):
        address = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"].removeprefix("http://")
        for host, status in ((address, 200), ("api.default.svc", 200), ("evil.example", 403)):
            connection = HTTPConnection(address)
            connection.request("GET", "/version", headers={"Host": host})
            assert connection.getresponse().status == status
            connection.close()


async def test_options_for_nodes_objects_port_and_kubeconfig(tmp_path: Path):
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


async def test_banner_explains_how_pods_are_scheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with serving("--nodes", "1", "--kubeconfig", "dev.yaml") as (_, named, printed):
        assert named == tmp_path / "dev.yaml"
        assert "pods that don't set schedulerName stay Pending until you run this as well:" in printed
        assert "\n  bayplan run --scheduler-name default-scheduler\n" in printed


async def test_scheduler_can_run_in_the_command(tmp_path: Path):
    file = tmp_path / "pod.yaml"
    file.write_text(POD_YAML.replace("nodeName: node-0, ", ""))
    with serving("--nodes", "1", "--scheduler", "--rbac", "-f", str(file)) as (process, kubeconfig, printed):
        assert "A scheduler runs inside" in printed
        async with connect(kubeconfig) as client, asyncio.timeout(20):
            async for event in client.watch(POD):
                if event.object.spec.nodeName:
                    break
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


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
        assert "with 3 nodes at" in printed
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
        assert "with 1 node at" in printed
        async with connect(kubeconfig) as client:
            status = (await client.get(NODE, "node-0")).status
    for amounts in (status.capacity, status.allocatable):
        assert (amounts["nvidia.com/gpu"], amounts["example.com/fpga"], amounts["cpu"]) == ("8", "2", "8")


@cases(
    "value, problem",
    {
        "no domain": ("gpu=1", "'gpu' is no extended resource"),
        "native": ("kubernetes.io/gpu=1", "'kubernetes.io/gpu' is no extended resource"),
        "bad name": ("a b.com/gpu=1", "'a b.com/gpu' is no extended resource"),
        "no amount": ("nvidia.com/gpu", "expected an integer that isn't negative as the amount, not ''"),
        "negative": ("nvidia.com/gpu=-1", "expected an integer that isn't negative"),
        "fraction": ("nvidia.com/gpu=1.5", "expected an integer that isn't negative"),
    },
)
def test_an_invalid_extended_resource_is_rejected(value: str, problem: str):
    assert problem in error_of("--extended-resource", value)


def error_of(*arguments: str) -> str:
    """The error of a command that doesn't start."""
    outcome = CliRunner().invoke(cluster, arguments)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    return outcome.stderr


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = error_of("--port", str(port), "--nodes", "0")
    assert error == (
        f"bayplan cluster: port {port} on 127.0.0.1 is in use: choose another with --port, "
        "or omit --port to use a free one\n"
    )


@cases(
    "content, complaint",
    {
        "invalid YAML": ("a: [", "document 1 (line 1): not valid YAML"),
        "unknown kind": (f"{POD_YAML}---\napiVersion: v1\nkind: Pot\n", "document 2 (line 6): there is no kind Pot"),
        "rejected by the server": (POD_YAML.replace("containers", "boxes"), "document 1 (line 1): Pod p: "),
    },
)
def test_invalid_objects_are_reported(tmp_path: Path, content: str, complaint: str):
    file = tmp_path / "objects.yaml"
    file.write_text(content)
    error = error_of("--nodes", "0", "-f", str(file))
    assert error.startswith(f"bayplan cluster: {file}, {complaint}")
    assert error.count("\n") == 1


def test_a_missing_file(tmp_path: Path):
    file = tmp_path / "absent.yaml"
    assert error_of("-f", str(file)) == f"bayplan cluster: {file}: No such file or directory\n"


def test_another_kubeconfig_is_not_overwritten(tmp_path: Path):
    file = tmp_path / "config"
    file.write_text("current-context: production\n")
    error = error_of("--nodes", "0", "--kubeconfig", str(file))
    assert error == (
        f"bayplan cluster: {file} exists and is not the kubeconfig of an embedded cluster: choose another file\n"
    )
    assert file.read_text() == "current-context: production\n"


def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path):
    file = tmp_path / "no-such-folder" / "config"
    error = error_of("--nodes", "0", "--kubeconfig", str(file))
    assert error == f"bayplan cluster: cannot write the kubeconfig {file}: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cpu", "many"),
        ("--cpu", "-1"),
        ("--memory", "-5Gi"),
        ("--nodes", "-1"),
        ("--clock-rate", "0"),
        ("--port", "70000"),
        ("--zones", "0"),
        ("--odd",),
    ],
    ids=" ".join,
)
def test_invalid_options_are_rejected(arguments: tuple[str, ...]):
    assert arguments[0] in error_of(*arguments)


def test_help_imports_no_slow_modules():
    command = [sys.executable, "-X", "importtime", "-c", "from bayplan.faces.cli import main; main()", "--help"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert "cluster" in outcome.stdout
    imported = set(re.findall(r"\| +([\w.]+)$", outcome.stderr, re.MULTILINE))
    assert not imported & {"aiohttp", "numpy", "yaml", "lightkube.models.core_v1"}
