"""`bayplan serve` as a process, on a live cluster that it only reads, and with bad input."""

import asyncio
import json
import re
import signal
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager

import aiohttp
import pytest
from tests.support.asked_questions import ASKED
from tests.support.commands import bayplan
from tests.support.served_questions import Client, served, small_cluster
from tests.support.waiting import until

from bayplan.answers.snapshots.rights import FOLLOWED
from bayplan.core.api.kinds import LEASE
from bayplan.core.cluster.resizes import RESIZES_PREEMPT
from bayplan.core.versions import gates_of
from bayplan.faces.asking import asking
from bayplan.faces.asking.sources import ClusterSource, FileSource
from bayplan.faces.cli.insight.cluster_options import SourceOptions
from bayplan.faces.cli.insight.follow_options import Followed
from bayplan.insight import Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load, make_client

PRINTED = re.compile(r"url: (\S+)\ntoken: (.+)\n")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    return str(path)


@contextmanager
def running(*arguments):
    """The process, its URL, and what it says of the token."""
    command = [sys.executable, "-m", "bayplan", "serve", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            printed = ""
            while not (found := PRINTED.search(printed)):
                line = process.stdout.readline()
                assert line, printed
                printed += line
            yield process, *found.groups()
        finally:
            process.kill()


async def test_file_is_served_until_sigterm_with_a_token_that_only_the_user_can_read(file, tmp_path):
    token_file = tmp_path / "token"
    with running("--from", file, "--token-file", str(token_file)) as (process, url, token):
        assert token == f"in {token_file}"
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        async with aiohttp.ClientSession() as session:
            client = Client(session, url, token_file.read_text().strip())
            assert (await client.call("GET", "/v1/cluster"))["nodes"] == 3
            assert (await client.ask("explain", pod="big-0"))["outcome"] == "pending"
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=15)[0]
    assert process.returncode == 0
    assert rest == ""


GREEDY = """
from bayplan import filter_plugin

@filter_plugin
def greedy(pod, node):
    return len(bytearray(GIB * 2**30)) and None
"""


@pytest.mark.parametrize(("gib", "options"), [(8, ()), (2, ("--memory", "1024"))])
async def test_plugin_that_takes_all_memory_costs_its_pods(file, tmp_path, gib, options):
    """GiB of zeros are addresses only, so that the test takes no memory without the limit, either."""
    plugin, token_file = tmp_path / "greedy.py", tmp_path / "token"
    plugin.write_text(GREEDY.replace("GIB", str(gib)))
    given = ("--from", file, "--plugin", str(plugin), "--token-file", str(token_file), *options)
    with running(*given) as (_, url, _):
        async with aiohttp.ClientSession() as session:
            client = Client(session, url, token_file.read_text().strip())
            assert "MemoryError" in json.dumps(await client.ask("explain", pod="big-0"))
            assert (await client.call("GET", "/v1/cluster"))["nodes"] == 3


async def test_live_cluster_is_followed_and_only_read():
    """The API server counts the requests that could write; Secrets and ConfigMaps are not read either."""
    api = make_client(make_node("a"), make_pod("web"), make_pod("big", requests={"cpu": "900"}))
    async with served(ClusterSource(api, "the cluster")) as client:
        assert (await client.call("GET", "/v1/cluster"))["nodes"] == 1
        assert (await client.ask("explain", pod="big"))["outcome"] == "pending"
        for name, parameters in ASKED.values():
            async with client.send("POST", f"/v1/questions/{name}", parameters) as response:
                assert response.status in {200, 422}
        load(api.server, make_node("b"))

        async def nodes():
            return (await client.call("GET", "/v1/cluster"))["nodes"] == 2

        await until(nodes)
    sent = [request.info for request in api.transport.requests]
    assert {info.verb for info in sent} == {"list", "watch"}
    assert {info.resource for info in sent} == {kind.plural for kind in (*FOLLOWED, LEASE)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "none.yaml"], "none.yaml"),
        (["--from", "{file}", "--port", "{taken}"], "cannot listen on 127.0.0.1 port {taken}: Address already in use"),
        (["--from", "{file}", "--token-file", "{short}"], "{short}: expected a token of at least 16 characters"),
        (["--from", "{file}", "--token-file", "none/token"], "cannot write none/token: No such file or directory"),
        (["--from", "{file}", "--longest", "0"], "--longest"),
        (["--from", "{file}", "--config", "none.yaml"], "none.yaml"),
    ],
)
def test_bad_input_is_one_message(file, tmp_path, arguments, message):
    short = tmp_path / "short"
    short.write_text("token\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {"file": file, "taken": taken.getsockname()[1], "short": short}
        result = bayplan("serve", *(each.format(**given) for each in arguments), status=2)
    assert message.format(**given) in result.stderr
    assert isinstance(result.exception, SystemExit)


async def test_cluster_that_is_not_read_yet_is_503(monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE", 0.05)

    class Unread(FileSource):
        async def ready(self):
            await asyncio.Event().wait()

    async with served(Unread(Snapshot(), None)) as client:
        found = await client.ask("usage", status=503)
    assert found["error"] == "the cluster has not been read yet: large clusters take up to half a minute"


def test_servers_decide_as_the_version_of_what_they_follow():
    gates = gates_of("1.37").but(RESIZES_PREEMPT)
    found = Followed(SourceOptions(), None, (), seed=7, gates=gates).insight()
    assert (found.gates, found.seed) == (gates, 7)
