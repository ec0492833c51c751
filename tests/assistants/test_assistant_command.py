"""`bayplan mcp` as a process: standard input and output, HTTP, and bad input."""

import json
import re
import signal
import socket
import stat
import subprocess
import sys

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.support.assistants import called
from tests.support.commands import bayplan
from tests.support.served_questions import small_cluster

PLUGIN = """
from bayplan import filter_plugin

print("a plugin prints")

@filter_plugin
def noisy(pod, node):
    print("a plugin prints", pod.name)
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    return str(path)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_client_starts_the_command_and_asks(file, mode):
    server = StdioServerParameters(command=sys.executable, args=["-m", "bayplan", "mcp", "--from", file])
    async with Client(server, mode=mode) as client:
        assert "explain" in {tool.name for tool in (await client.list_tools()).tools}
        said, answer = await called(client, "explain", pod="big-0")
    assert answer["outcome"] == "pending"
    assert "`bayplan explain default/big-0`" in said


def test_output_has_only_messages_and_the_command_ends_with_its_input(file, tmp_path):
    """What plugins print goes to stderr."""
    plugin = tmp_path / "noisy.py"
    plugin.write_text(PLUGIN)
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    call["params"] = {"name": "explain", "arguments": {"pod": "pinned-0"}}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    command = [sys.executable, "-m", "bayplan", "mcp", "--from", file, "--plugin", str(plugin)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            answers = []
            for message in (HELLO, ready, call):
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                if "id" in message:
                    answers.append(json.loads(process.stdout.readline()))
            rest, errors = process.communicate(timeout=15)
        finally:
            process.kill()
    assert [answer["id"] for answer in answers] == [1, 2]
    assert not answers[1]["result"]["isError"]
    assert rest == ""
    assert process.returncode == 0
    assert "a plugin prints" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_command_while_it_waits_for_input(file, number):
    command = [sys.executable, "-m", "bayplan", "mcp", "--from", file]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            process.stdin.write(json.dumps(HELLO) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            process.send_signal(number)
            process.wait(timeout=15)
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert process.returncode == -number


async def test_http_listens_until_sigterm_with_a_token_that_only_the_user_can_read(file, tmp_path):
    token_file = tmp_path / "token"
    command = [sys.executable, "-m", "bayplan", "mcp", "--http", "--from", file, "--token-file", str(token_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        try:
            url = re.fullmatch(r"url: (http://127\.0\.0\.1:\d+/mcp)\n", process.stdout.readline())[1]
            assert process.stdout.readline() == f"token: in {token_file}\n"
            assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
            headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                assert (await called(client, "explain", pod="big-0"))[1]["outcome"] == "pending"
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=15) == ("", "")
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "none.yaml"], "none.yaml"),
        (["--from", "-"], "--from -: the assistant uses standard input; use a file"),
        (["--from", "{file}", "--token-file", "token"], "--token-file is for --http"),
        (["--from", "{file}", "--history", "none"], "none"),
        (["--from", "{file}", "--recording", "none"], "none is no recording: "),
        (["--from", "{file}", "--recording", "{file}"], "{file} is no recording: "),
        (["--http", "--from", "{file}", "--port", "{taken}"], "cannot listen on 127.0.0.1 port {taken}"),
        (["--from", "{file}", "--longest", "0"], "--longest"),
    ],
)
def test_bad_input_is_one_message(file, arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = {"file": file, "taken": taken.getsockname()[1]}
        result = bayplan("mcp", *(each.format(**given) for each in arguments), status=2)
    assert message.format(**given) in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_missing_extra_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = bayplan("mcp", "--from", file, status=2)
    assert "assistants need mcp: pip install 'bayplan[mcp]'" in result.stderr
