"""`bayplan shadow` as a process: beside a scheduler, with read-only rights, over restarts, and with bad input."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pyarrow.parquet
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.commands import bayplan

from bayplan.client import ClusterAccess, HttpClient
from bayplan.core.api.kinds import POD
from bayplan.faces.cli.shadow_running import ShadowOptions, ShadowRun, read_compared
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load
from bayplan.testing.running import running_scheduler
from bayplan_devcluster.apiserver import ADMIN, ApiServer

BAYPLAN = Path(sys.executable).with_name("bayplan")
TOKEN, READER, ADMINS = "readers-token", "reader", "admins-token"
GROUP = "rbac.authorization.k8s.io"
STARTED = "Comparing default-scheduler of http"


def role():
    result = bayplan("manifests", "--shadow", "--image", "registry.example/bayplan:0.2.0")
    documents = list(yaml.safe_load_all(result.stdout))
    (found,) = (each for each in documents if each["kind"] == "ClusterRole")
    return found


@pytest.fixture
async def server(tmp_path):
    """A server that enforces RBAC, and the kubeconfig of a user with the role of `bayplan manifests --shadow`."""
    async with ApiServer(alpha=True, rbac=True, tokens={TOKEN: READER, ADMINS: ADMIN}) as server:
        load(server, make_node("a", cpu="4"), make_node("b", cpu="8"))
        binding = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "bayplan-shadow"},
            "subjects": [{"kind": "User", "name": READER, "apiGroup": GROUP}],
            "roleRef": {"kind": "ClusterRole", "name": "bayplan-shadow", "apiGroup": GROUP},
        }
        server.load([role(), binding])
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        yield server


@asynccontextmanager
async def shadowing(folder, *options, started=STARTED):
    process = await asyncio.create_subprocess_exec(
        BAYPLAN,
        "shadow",
        *("--kubeconfig", folder / "kubeconfig", *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(40):
            while started:
                line = (await process.stderr.readline()).decode()
                assert line, (await process.stdout.read()).decode()
                if line.startswith(started):
                    break
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process):
    """The exit status, and the lines of stdout and stderr."""
    out, err = await asyncio.wait_for(process.communicate(), 40)
    return process.returncode, out.decode().splitlines(), err.decode().splitlines()


async def bind(client, name, node):
    await client.create(POD, as_sent(make_pod(name, cpu="1"))[1])
    await client.bind("default", name, node)


def access(server):
    return ClusterAccess(server=server.url, headers=(("Authorization", f"Bearer {ADMINS}"),))


def admin(server):
    return HttpClient(access(server))


async def test_beside_a_scheduler_with_the_rights_of_manifests(server, tmp_path):
    options = ("--decisions", "5", "--at-least", "100", "--unknown-at-most", "0", "--all")
    async with (
        shadowing(tmp_path, *options) as process,
        admin(server) as client,
        running_scheduler(access(server), scheduler_name="default-scheduler"),
    ):
        for number in range(5):
            await client.create(POD, as_sent(make_pod(f"pod-{number}", cpu="500m"))[1])
        status, out, err = await ended(process)
    assert (status, err) == (0, [])
    assert out[-1].startswith("default-scheduler: 5 of 5 decisions equal (100.00%)")
    assert len(out) == 6
    assert all("; Bayplan: " in line for line in out[:-1])


async def test_it_goes_on_after_a_restart_and_writes_reports(server, tmp_path):
    reports = [tmp_path / f"report.{ending}" for ending in ("html", "json", "parquet")]
    options = [("--state", tmp_path / "state"), *(("--report", each) for each in reports)]
    arguments = [str(each) for option in options for each in option]
    async with admin(server) as client:
        async with shadowing(tmp_path, *arguments, "--decisions", "1") as process:
            await bind(client, "odd", "a")
            status, out, _ = await ended(process)
        assert (status, out[-1]) == (0, "default-scheduler: 0 of 1 decision equal (0.00%); 1 different: 1 unknown")
        between = {"apiVersion": "v1", "kind": "Pod", **as_sent(make_pod("between", node="b"))[1]}
        later = datetime.now(UTC) + timedelta(seconds=1)  # times of objects are whole seconds
        between["metadata"]["creationTimestamp"] = f"{later:%Y-%m-%dT%H:%M:%SZ}"
        load(server, between)
        async with shadowing(tmp_path, *arguments, "--at-least", "99", "--all") as process:
            await bind(client, "good", "b")
            assert b"default/good" in await process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            status, out, err = await ended(process)
    assert status == 1
    assert err == ["bayplan shadow: 50.00% of the decisions are equal, expected at least 99%"]
    assert out[-1].endswith("1 of 2 decisions equal (50.00%); 1 different: 1 unknown; 1 missed")
    report = json.loads(reports[1].read_text())
    assert report["share"] == 0.5
    assert [each["pod"] for each in report["differences"]] == ["default/odd"]
    assert report["differences"][0]["ours"] == "b"
    (row,) = pyarrow.parquet.read_table(reports[2]).to_pylist()
    assert (row["pod"], row["theirs"], row["ours"], row["cause"]) == ("default/odd", "a", "b", "unknown")
    assert {each["plugin"] for each in row["plugins"]} >= {"NodeResourcesFit"}
    assert "default/odd" in reports[0].read_text()


async def test_it_ends_when_the_reader_has_gone(server, tmp_path):
    command = f"{BAYPLAN} shadow --kubeconfig {tmp_path / 'kubeconfig'} --all | head -n 1"
    process = await asyncio.create_subprocess_shell(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with admin(server) as client, asyncio.timeout(40):
        assert (await process.stderr.readline()).decode().startswith(STARTED)
        number = 0
        while process.stderr.at_eof() is False:
            await bind(client, f"pod-{number}", "b")
            number += 1
            with suppress(TimeoutError):
                assert await asyncio.wait_for(process.stderr.read(1), 0.1) == b""
        out, err = await process.communicate()
    assert (len(out.splitlines()), err) == (1, b"")


async def test_metrics_and_json_lines(server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    async with admin(server) as client, shadowing(tmp_path, "--port", port, "-o", "json") as process:
        await bind(client, "odd", "a")
        line = json.loads(await process.stdout.readline())
        assert (line["pod"], line["outcome"], line["cause"]) == ("default/odd", "other", "unknown")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            text = await (await session.get("/metrics")).text()
            assert (await session.get("/livez")).status == 200
            assert (await session.get("/readyz")).status == 200
            assert (await session.get("/other")).status == 404
        process.send_signal(signal.SIGINT)
        status, out, _ = await ended(process)
    families = text_string_to_metric_families(text)
    samples = {(each.name, *sorted(each.labels.values())): each.value for found in families for each in found.samples}
    assert samples["bayplan_shadow_comparisons_total", "binding", "other", "unknown"] == 1
    assert samples["bayplan_shadow_score_difference_total",] > 0
    assert samples["bayplan_shadow_synced",] == 1
    assert status == 0
    assert json.loads(out[-1])["summary"]["counts"][0]["number"] == 1


async def test_a_scheduler_that_decides_nothing_is_reported(server, tmp_path, capsys, caplog):
    load(server, make_pod("waits", scheduler_name="other"))
    options = ShadowOptions(kubeconfig=str(tmp_path / "kubeconfig"), output="lines", silence=0.2, duration=0.6)
    run = ShadowRun(read_compared(["typo"], (), (), None), options)
    await asyncio.wait_for(run.run(), 40)
    out, err = capsys.readouterr()
    (started,) = err.splitlines()
    assert started.startswith("Comparing typo of http")
    assert "typo has decided nothing in 0.2 s; pods without a node are for other (1)" in caplog.messages
    assert out == "typo: nothing was compared yet\n"
    assert run.verdict(1.0, None) == "nothing was compared"
    assert run.verdict(None, 0) == ""


async def test_without_rights(server, tmp_path):
    async with admin(server) as client:
        await client.request("DELETE", f"/apis/{GROUP}/v1/clusterrolebindings/bayplan-shadow")
    async with shadowing(tmp_path, started="") as process:
        status, out, err = await ended(process)
    assert (status, out) == (2, [])
    (line,) = err
    assert line.startswith("bayplan shadow: cannot read the nodes of http")
    assert "403 Forbidden" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "a kubeconfig that isn't there": (["--kubeconfig", "none"], "none"),
        "a report of another kind": (
            ["--report", "report.pdf"],
            "--report report.pdf: expected a name that ends with .html, .json or .parquet",
        ),
        "a report in no folder": (["--report", "no/report.html"], "--report no/report.html: there is no folder no"),
        "a state of another program": (["--state", "other.json"], "other.json is not a file of `bayplan shadow`"),
        "a state of another scheduler": (
            ["--state", "state.json"],
            "state.json is about silver, not default-scheduler",
        ),
        "three configurations": (["--config", "c.yaml"] * 3, "--config: expected at most two configurations, got 3"),
        "a version that isn't known": (["--emulated-version", "1.2"], "--emulated-version"),
        "no server": ([], "cannot read the nodes of http://127.0.0.1:1: "),
        "a plugin that isn't there": (["--plugin", "none.py"], "none.py"),
    }.values(),
    ids=lambda value: "" if isinstance(value, list) else value[:20],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    Path("kubeconfig").write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "users": [{"name": "u"}], "current-context": "c"})
    )
    Path("c.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    Path("other.json").write_text("[]")
    time = "2026-01-05T08:00:00Z"
    Path("state.json").write_text(json.dumps({"schedulers": ["silver"], "began": time, "until": time}))
    where = [] if "--kubeconfig" in arguments else ["--kubeconfig", "kubeconfig"]
    result = bayplan("shadow", *where, *arguments, status=2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len([line for line in result.stderr.splitlines() if not line.startswith(("Usage", "Try", ""))]) <= 1
