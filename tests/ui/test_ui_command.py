"""`bayplan ui` and `bayplan demo --ui` as processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
from served_page import Visitor, small_cluster

from bayplan.cli import main
from bayplan.cli.demo.command import INTERRUPTED
from bayplan.devcluster.cluster import DevCluster

BAYPLAN = [sys.executable, "-m", "bayplan"]
URL = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    return str(path)


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
    ],
)
def test_bad_input_is_one_message(file, arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {"file": file, "taken": taken.getsockname()[1]}
        result = CliRunner().invoke(main, ["ui", *(each.format(**given) for each in arguments)])
    assert result.exit_code == 2
    assert message.format(**given) in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_unreachable_cluster_is_one_message(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    result = CliRunner().invoke(main, ["ui", "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 2
    assert "cannot read the nodes of http://127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("command", ["ui", "demo"])
def test_missing_extra_is_one_message(command, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    arguments = ["ui", "--from", file] if command == "ui" else ["demo", "--ui"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
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
    recording = str(Path(__file__).parents[1] / "data" / "recordings" / "version-1.tar")
    with running("ui", "--from", recording) as (_, url):
        text = (await look(url, "/pods/default/urgent")).text
        assert "urgent" in text
        assert "live, read-only" not in text
    at = "2000-01-01T00:00:00Z"  # before the first decision: the urgent pod has not arrived
    with running("ui", "--from", recording, "--at", at) as (_, url):
        assert "urgent" not in (await look(url, "/queue")).text
