"""The blocks of docs/mcp.md and of the README run, in a fresh folder."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.support.assistants import called
from tests.support.served_questions import small_cluster

from bayplan.answers.insight.question_types import QUESTIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the cluster, and a PATH with bayplan."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    Path("cluster.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))


def configured(text):
    return json.loads(text)["mcpServers"]["bayplan"]


async def test_configuration_starts_the_server(here):
    server = configured(blocks(PAGE, "json")[0])
    async with Client(StdioServerParameters(**server)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(QUESTIONS)


def test_configuration_in_the_readme_is_that_of_the_page_in_five_lines():
    (text,) = blocks(README, "json")
    assert text.count("\n") == 5
    page = configured(blocks(PAGE, "json")[0])
    assert configured(text) == {**page, "args": page["args"][:1]}


def test_program_prints_what_the_page_shows(here, capsys):
    (code,) = blocks(PAGE, "python")
    exec(code, {})
    said, feasible = capsys.readouterr().out.splitlines()
    assert blocks(PAGE, "text") == [f"{said}\n"]
    assert feasible == "False"


def test_page_names_every_tool():
    assert [name for name in QUESTIONS if f"`{name}`" not in PAGE] == []


def test_server_over_http_is_reached_with_the_configuration(here):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    (command,) = blocks(PAGE, "sh")
    arguments = shlex.split(command.replace("8123", port))
    server = configured(blocks(PAGE, "json")[1].replace("8123", port))

    async def ask(token):
        headers = {name: value.replace("TOKEN", token) for name, value in server["headers"].items()}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(server["url"], http_client=http)) as client,
        ):
            return await called(client, "explain", pod="default/big-0")

    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == f"url: {server['url']}\n"
            token = Path("token").read_text(encoding="ascii").strip()
            assert asyncio.run(ask(token))[1]["outcome"] == "pending"
        finally:
            process.terminate()
