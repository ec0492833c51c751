"""`bayplan record` as a process: it is killed, goes on, and is stopped."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from tests.support.commands import bayplan
from tests.support.waiting import until

from bayplan.answers.history.reading import History
from bayplan.answers.history.recording import KINDS
from bayplan.answers.snapshots.rights import reading
from bayplan.core.api.kinds import POD
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer

BAYPLAN = Path(sys.executable).with_name("bayplan")
TOKEN, READER, ROLE = "readers-token", "reader", "bayplan-recorder"
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    """A server that enforces RBAC, and the kubeconfig of a user with the role of `bayplan manifests --recorder`."""
    async with ApiServer(alpha=True, rbac=True, tokens={TOKEN: READER}) as server:
        load(server, make_node("a"), make_pod("old", node="a"))
        binding = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ROLE},
            "subjects": [{"kind": "User", "name": READER, "apiGroup": GROUP}],
            "roleRef": {"kind": "ClusterRole", "name": ROLE, "apiGroup": GROUP},
        }
        role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": reading(KINDS)}
        server.load([role, binding])
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig())
        yield server, kubeconfig


@asynccontextmanager
async def record(folder: Path, kubeconfig: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        BAYPLAN,
        "record",
        folder,
        "--kubeconfig",
        kubeconfig,
        *options,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            line = await process.stdout.readline()
        if not line:
            assert process.stderr is not None
            pytest.fail((await process.stderr.read()).decode())
        assert line.startswith(b"Recording http")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def arrived(folder: Path) -> Sequence[str]:
    return [row.name for row in History.open(folder).rows() if row.event == "pod_arrived"]


async def test_a_killed_recording_is_complete_and_goes_on(server: tuple[ApiServer, Path], tmp_path: Path) -> None:
    api, kubeconfig = server
    folder = tmp_path / "h"
    async with record(folder, kubeconfig) as process:
        load(api, make_pod("one"))
        await until(lambda: "one" in arrived(folder))
        process.kill()
        await process.wait()
    assert arrived(folder) == ["old", "one"]
    assert History.open(folder).problems == ()
    journal = folder / "journal-000001.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    (problem,) = History.open(folder).problems
    assert re.fullmatch(r"journal-000001.jsonl: line \d+ is cut off, so one event is lost", problem)

    load(api, make_pod("two"))
    async with record(folder, kubeconfig) as process:
        await until(lambda: "two" in arrived(folder))
        process.send_signal(signal.SIGTERM)
        output, errors = await process.communicate()
    assert process.returncode == 0
    assert output.decode().startswith("Recorded 3 pods in 0:00:")
    assert b"Traceback" not in errors
    history = History.open(folder)
    assert [gap.reason for gap in history.gaps] == ["the recorder was not running"]
    assert sorted(arrived(folder)) == ["old", "one", "two"]
    assert history.problems == ()
    assert not list(folder.glob("journal-*"))


async def test_a_second_recorder_is_one_line(server: tuple[ApiServer, Path], tmp_path: Path) -> None:
    _, kubeconfig = server
    async with record(tmp_path / "h", kubeconfig) as process:
        command = (BAYPLAN, "record", tmp_path / "h", "--kubeconfig", kubeconfig)
        result = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert result.returncode == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"bayplan record: {tmp_path / 'h'} is being recorded to by process {process.pid} on ")
        process.kill()
    async with record(tmp_path / "h", kubeconfig) as process:  # a killed one holds nothing
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0


async def test_the_role_is_sufficient_and_names_stay_private(server: tuple[ApiServer, Path], tmp_path: Path) -> None:
    _, kubeconfig = server
    async with record(tmp_path / "h", kubeconfig, "--redact", "--port", "0") as process:
        assert process.stderr is not None
        url = (await process.stderr.readline()).decode().removeprefix("metrics: ").strip()
        async with ClientSession() as client:
            async with client.get(url) as answer:
                metrics = await answer.text()
            async with client.get(url.replace("/metrics", "/readyz")) as answer:
                assert answer.status == 200
        assert "bayplan_history_recording 1.0" in metrics.splitlines()
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert (tmp_path / "h.redaction-key").stat().st_mode & 0o777 == 0o600
    history = History.open(tmp_path / "h")
    assert history.notes == ()
    assert history.source == "a redacted cluster"
    assert [pod for pod in history.start().documents[POD] if "old" in pod] == []


@pytest.mark.parametrize(
    ("kubeconfig", "message"),
    [("missing", "cannot read"), ("unreachable", "cannot read the nodes of http://127.0.0.1:1")],
)
def test_bad_input_is_one_line(kubeconfig: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / kubeconfig
    if kubeconfig == "unreachable":
        path.write_text(
            "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n"
        )
    result = bayplan("record", tmp_path / "h", "--kubeconfig", path, status=2)
    assert message in result.output or "does not exist" in result.output
    assert len(result.output.strip().splitlines()) <= 4
    assert not (tmp_path / "h").exists()
