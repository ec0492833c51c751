"""`bayplan mcp --http`: the SDK's client over HTTP, the guard, and limits."""

import asyncio
import io
import json
from contextlib import asynccontextmanager

import aiohttp
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support.assistants import called
from tests.support.served_questions import small_cluster
from tests.support.waiting import without_end

from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.served_questions import ServedQuestions
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.assistants.http import serving
from bayplan.faces.assistants.server import AssistantServer
from bayplan.insight import Insight, Snapshot

TOKEN = "a-token-of-the-test"
WITH = {"Authorization": f"Bearer {TOKEN}"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@asynccontextmanager
async def served(longest=30.0):
    """The URL of a server about the small cluster."""
    asking = Asking(FileSource(Snapshot.of(small_cluster(), source="file c")), Insight(Snapshot()), longest)
    server = AssistantServer(ServedQuestions(asking), "file c")
    async with serving(server, asking, token=TOKEN) as (url, token):
        assert token == TOKEN
        yield url


@asynccontextmanager
async def connected(url, **options):
    async with (
        httpx2.AsyncClient(headers=WITH) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_client_lists_tools_and_asks(mode, monkeypatch):
    monkeypatch.setattr("bayplan.faces.asking.replies.PAUSE", 0.001)
    told = []

    async def tell(_done, _total, text):
        told.append(text)

    async with served() as url, connected(url, mode=mode) as client:
        assert len((await client.list_tools()).tools) > 10
        assert (await called(client, "explain", pod="big-0"))[1]["outcome"] == "pending"
        result = await client.call_tool("explain-pending", {"output": "json"}, progress_callback=tell)
        assert json.loads(result.content[1].text)["pending"] == 2
        assert "no answer" in (await client.call_tool("explain", {"pod": "none"})).content[0].text
    assert all("pod" in text or "change" in text for text in told)


async def test_many_clients_at_once():
    async with served() as url, connected(url) as one, connected(url) as other:
        clients = [one, other] * 10
        found = await asyncio.gather(*(called(client, "explain", pod="big-0") for client in clients))
    assert len({json.dumps(answer) for answer in found}) == 1


CASES = {
    "the token": (WITH, 200),
    "no token": ({}, 401),
    "another token": ({"Authorization": "Bearer a-token-of-another-test"}, 401),
    "a name that is rebound": ({**WITH, "Host": "attacker.example"}, 403),
    "another origin": ({**WITH, "Origin": "http://attacker.example"}, 403),
    "an opaque origin": ({**WITH, "Origin": "null"}, 403),
    "another site": ({**WITH, "Sec-Fetch-Site": "cross-site"}, 403),
}


async def test_guard_is_that_of_serve():
    found = {}
    async with served() as url, aiohttp.ClientSession() as session:
        for case, (headers, _) in CASES.items():
            async with session.post(url, json=LIST, headers={**ACCEPT, **headers}) as response:
                found[case] = response.status
                assert "Access-Control-Allow-Origin" not in response.headers
                assert ("explain-pending" in await response.text()) is (response.status == 200)
    assert found == {case: status for case, (_, status) in CASES.items()}


async def test_other_paths_methods_and_bodies_are_refused():
    async with served() as url, aiohttp.ClientSession(headers={**WITH, **ACCEPT}) as session:
        for method, address, body, status in (
            ("GET", url, None, 405),
            ("DELETE", url, None, 405),
            ("POST", f"{url}/none", b"{}", 404),
            ("POST", url, b"{", 400),
            ("POST", url, io.BytesIO(b" " * 17 * 2**20), 413),
        ):
            headers = {"Content-Type": "application/json"}
            async with session.request(method, address, data=body, headers=headers) as response:
                assert response.status == status, (method, address)
                assert "Traceback" not in await response.text()
        async with session.post(url, json=LIST) as response:
            assert response.status == 200
            assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_question_ends_when_its_client_is_gone(monkeypatch, mode):
    begun, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def explain_all(self, *_, progress, **__):
        loop.call_soon_threadsafe(begun.set)
        try:
            without_end(progress, "explaining")
        finally:
            loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(Insight, "explain_all", explain_all)
    version = {"MCP-Protocol-Version": "2025-06-18"} if mode == "legacy" else {}
    call = {**LIST, "method": "tools/call", "params": {"name": "explain-pending", "arguments": {}}}
    async with served() as url, aiohttp.ClientSession(headers={**WITH, **ACCEPT, **version}) as session:
        asked = asyncio.create_task(session.post(url, json=call).__aenter__())
        async with asyncio.timeout(10):
            await begun.wait()
            asked.cancel()
            if asked.done() and not asked.cancelled():
                asked.result().close()
            await session.close()
            await ended.wait()
