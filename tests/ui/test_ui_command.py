"""`bayplan ui` and `bayplan demo --ui` as processes."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
from gone_through import RECORDING, write_day
from served_page import Visitor, small_cluster
from tests.support.commands import bayplan

from bayplan.faces.cli import main
from bayplan.faces.cli.demo.command import INTERRUPTED
from bayplan_devcluster.cluster import DevCluster

BAYPLAN = [sys.executable, "-m", "bayplan"]
URL = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    return str(path)


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    """A history, one without events, and one whose only file is damaged."""
    folder = tmp_path_factory.mktemp("histories")
    history = write_day(folder / "history", pods=3)
    for name in ("empty", "damaged"):
        shutil.copytree(history, folder / name)
        for file in (folder / name).glob("*.parquet"):
            file.unlink() if name == "empty" else file.write_bytes(file.read_bytes()[:100])
    return {name: str(folder / name) for name in ("history", "empty", "damaged")}


@contextmanager
def running(*arguments, stdin=os.devnull):
    """The process, and the URL that it has printed."""
    with (
        Path(stdin).open("rb") as standard_input,
        subprocess.Popen(
            [*BAYPLAN, *arguments], stdin=standard_input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        try:
            printed = ""
            while not (found := URL.search(printed)):
                line = process.stdout.readline()
                assert line, printed
                printed += line
            yield process, found[0]
        finally:
            process.kill()


async def look(url, path):
    """A page, with the cookie that the URL gives."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(url) as response:
            assert response.status == 200
        return await Visitor(session, url).page(path)


async def test_page_of_a_file_is_served_until_sigterm(file):
    with running("ui", "--from", file) as (process, url):
        assert "4 nodes" in (await look(url, "/")).text
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=15)[0]
    assert process.returncode == 0
    assert "Traceback" not in rest


async def test_page_of_standard_input_is_served_until_ctrl_c(file):
    with running("ui", "--from", "-", stdin=file) as (process, url):
        page = await look(url, "/")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=15)
    assert "4 nodes" in page.text
    assert "standard input" in page.text
    assert process.returncode == 0


async def test_page_of_a_cluster_is_served(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    async with DevCluster(2) as cluster:
        await cluster.nodes_ready()
        cluster.write_kubeconfig(kubeconfig)
        context = running("ui", "--kubeconfig", str(kubeconfig))
        _, url = await asyncio.to_thread(context.__enter__)  # the cluster is served by this thread
        try:
            page = await look(url, "/")
        finally:
            context.__exit__(None, None, None)
    assert "2 nodes" in page.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "none.yaml"], "none.yaml"),
        (["--from", "{file}", "--port", "{taken}"], "cannot listen on 127.0.0.1 port {taken}: Address already in use"),
        (["--from", "{file}", "--address", "192.0.2.1"], "cannot listen on 192.0.2.1 port 0"),
        (["--from", "{file}", "--address", "name.invalid"], "cannot listen on name.invalid port 0"),
        (["--from", "{file}", "--config", "none.yaml"], "none.yaml"),
        (["--from", "{file}", "--kubeconfig", "none"], "--from replaces the cluster"),
        (["--from", "{file}", "--at", "03:12"], "--at names a moment of a recording or a history"),
        (["--from", "{file}", "--set", "NodeResourcesFit"], "--set NodeResourcesFit: expected"),
        (["--from", "{file}", "--emulated-version", "1.2"], "--emulated-version"),
        (["--from", "{file}", "--shadow", "none.json"], "there is no file none.json: `bayplan shadow --state"),
        (["--from", "{file}", "--shadow", "{file}"], "is not a file of `bayplan shadow`"),
        (["--from", "{empty}"], "{empty} is an empty history"),
        (["--from", "{damaged}"], "is an empty history: it has no events: events-000001.parquet: it is truncated"),
        (["--from", "{history}", "--at", "soon"], "--at 'soon': expected a time"),
        (["--from", "{history}", "--at", "2020-01-01"], "doesn't reach so far: it goes from 2026-01-01 00:00:00"),
        (["--from", "{history}", "--at", "2031-01-01"], "doesn't reach so far: it goes from 2026-01-01 00:00:00"),
        (["--from", "{recording}", "--at", "2031-01-01"], "the recording has no decision after 2031-01-01"),
    ],
)
def test_bad_input_is_one_message(file, histories, arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {"file": file, "taken": taken.getsockname()[1], "recording": RECORDING, **histories}
        result = bayplan("ui", *(each.format(**given) for each in arguments), status=2)
    assert message.format(**given) in result.stderr
    assert isinstance(result.exception, SystemExit)
    assert len(result.stderr.splitlines()) == 1 or "Usage:" in result.stderr


def test_unreachable_cluster_is_one_message(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    result = bayplan("ui", "--kubeconfig", kubeconfig, status=2)
    assert "cannot read the nodes of http://127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("command", ["ui", "demo"])
def test_missing_extra_is_one_message(command, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    arguments = ["ui", "--from", file] if command == "ui" else ["demo", "--ui"]
    result = bayplan(*arguments, status=2)
    assert f"{command}: the page needs jinja2: pip install 'bayplan[ui]'" in result.stderr


async def test_demo_serves_its_page():
    with running("demo", "--ui", "--clock-rate", "60") as (process, url):
        async with asyncio.timeout(60):
            while "/pods/default/nowhere" not in (await look(url, "/")).links:
                assert process.poll() is None
        page = await look(url, "/")
        reserved = await look(url, "/pods/default/nowhere?node=node-a1")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=15)
    assert "12 nodes" in page.text
    assert "/nodes/node-c4" in page.links
    assert "node is reserved for the control plane" in reserved.text
    assert process.returncode == INTERRUPTED


async def test_page_of_a_recording_shows_the_cluster_at_a_moment():
    with running("ui", "--from", str(RECORDING)) as (process, url):
        text = (await look(url, "/pods/default/urgent")).text
        assert "urgent" in text
        assert "live, read-only" not in text
        assert "after step 13 of 13" in text
        process.send_signal(signal.SIGTERM)  # a replay waits in a thread
        rest = process.communicate(timeout=15)[0]
    assert process.returncode == 0
    assert "Traceback" not in rest
    at = "2000-01-01T00:00:00Z"  # before the first decision: the urgent pod has not arrived
    with running("ui", "--from", str(RECORDING), "--at", at) as (_, url):
        assert "urgent" not in (await look(url, "/queue")).text


async def test_page_goes_through_a_history(histories):
    options = ("--at", "00:02", "--set", "NodeResourcesFit.weight=5")
    with running("ui", "--from", histories["history"], *options) as (_, url):
        page = await look(url, "/history")
        assert "2026-01-01 00:01:40" in page.text
        assert "difference" in page.ids


def test_other_commands_ask_about_a_moment_of_a_history(histories):
    def explained(at):
        return CliRunner().invoke(main, ["explain", "default/web-1", "--from", histories["history"], "--at", at])

    assert "there is no pod default/web-1" in explained("00:01").stderr
    assert "pod default/web-1: on node node-" in explained("00:02").stdout
