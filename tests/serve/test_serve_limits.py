"""Limits of size and time, many clients, and clients that don't read."""

import asyncio
import gzip
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.served_questions import new_pod, node, served_objects, small_cluster
from tests.support.tables import cases
from tests.support.waiting import until, without_end

from bayplan.faces.asking.replies import LINES, SLOW
from bayplan.faces.serve.app import BODY_LIMIT
from bayplan.faces.serve.server import LIMITS
from bayplan.insight import Insight

LARGE = 50 * 10**6


@asynccontextmanager
async def raw(client, head):
    """The streams of a connection that has sent the head of a request to ask `fit`."""
    host, port = client.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**16)
    lines = ["POST /v1/questions/fit HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {client.token}", *head]
    writer.write("\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode())
    await writer.drain()
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_large_body_is_refused_before_it_is_sent():
    async with served_objects(*small_cluster()) as client:
        async with raw(client, [f"Content-Length: {LARGE}"]) as (reader, _), asyncio.timeout(5):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 413 " in head.splitlines()[0]
            assert b"application/json" in head
            assert json.loads(await reader.readline()) == {"error": f"the body has more than {BODY_LIMIT} bytes"}
        await client.ask("usage")


async def test_client_that_sends_all_of_a_large_body_first_gets_its_reply():
    """urllib and most other clients read nothing before that."""

    def send(url, token):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/v1/questions/fit", b" " * LARGE, headers)
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=20)
        with raised.value:
            return raised.value.code, json.load(raised.value)

    async with served_objects(*small_cluster()) as client:
        found = await asyncio.to_thread(send, client.url, client.token)
    assert found == (413, {"error": f"the body has more than {BODY_LIMIT} bytes"})


async def test_large_body_in_pieces_is_read_up_to_the_limit():
    async with served_objects(*small_cluster()) as client:
        async with raw(client, ["Transfer-Encoding: chunked"]) as (reader, writer), asyncio.timeout(30):
            piece, sent = b"100000\r\n" + b" " * 2**20 + b"\r\n", 0
            try:
                while sent < LARGE:
                    writer.write(piece)
                    await writer.drain()
                    sent += 2**20
            except ConnectionError:
                pass  # the server has ended the connection: what it replied may be lost, as in every HTTP server
            else:
                assert b" 413 " in await reader.readline()
            assert sent < LARGE
        await client.ask("usage")


async def test_compressed_body_is_inflated_up_to_the_limit():
    async with served_objects(*small_cluster()) as client:
        for size, status in ((10, 422), (LARGE, 413)):
            data = gzip.compress(b'{"objects":[{}' + b" " * size + b"]}", 1)
            headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
            headers["Authorization"] = f"Bearer {client.token}"
            async with client.session.post(client.url + "/v1/questions/fit", data=data, headers=headers) as response:
                assert response.status == status, await response.text()


async def test_question_ends_at_the_limit_of_time(monkeypatch):
    def explain_all(self, *_, progress, **__):
        without_end(progress, "explaining")

    monkeypatch.setattr(Insight, "explain_all", explain_all)
    async with served_objects(*small_cluster(), longest=0.1) as client:
        found = await client.ask("explain-pending", status=504)
        assert found["error"].startswith("the question took longer than 0.1 s")
        async with client.send("POST", "/v1/questions/explain-pending", {}, Accept=LINES) as response:
            last = [json.loads(line) async for line in response.content][-1]
        assert last["status"] == 504
        await client.ask("usage")


async def test_question_ends_when_its_client_is_gone(monkeypatch):
    begun, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def explain_all(self, *_, progress, **__):
        loop.call_soon_threadsafe(begun.set)
        try:
            without_end(progress, "explaining")
        finally:
            loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(Insight, "explain_all", explain_all)
    async with served_objects(*small_cluster()) as client:
        for accept in ("application/json", LINES):
            begun.clear()
            ended.clear()
            asked = asyncio.create_task(
                client.send("POST", "/v1/questions/explain-pending", {}, Accept=accept).__aenter__()
            )
            async with asyncio.timeout(10):
                await begun.wait()
            # A reply of lines has begun by now, or does soon; one of JSON waits for its answer.
            await asyncio.wait({asked}, timeout=0.3)
            if asked.done():
                asked.result().close()
            asked.cancel()
            async with asyncio.timeout(10):
                await ended.wait()


def profile(name):
    resources = [{"name": "cpu", "weight": 1}]
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    return {"schedulerName": name, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


def configuration(profiles):
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**head, "profiles": [profile(f"scheduler-{number}") for number in range(profiles)]}


@cases(
    "question, body",
    {
        "50,000 pods": ("fit", lambda: {"objects": [new_pod(f"p-{number}", "1m") for number in range(50_000)]}),
        "20,000 nodes": ("diff", lambda: {"before": [node(f"n-{number}") for number in range(20_000)]}),
        "a configuration of 0.6 MB": ("diff", lambda: {"configuration": configuration(3500)}),
    },
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may end in hypothesis' GC callback
async def test_large_question_ends_at_the_limit_or_when_its_client_is_gone(question, body):
    """CPU is measured, so that a busy machine changes little. 6 s are for the client, and for what can't be ended.

    A fast machine may answer within the limit.
    """
    longest, beyond = 0.5, 6.0
    asked = body()
    async with served_objects(*small_cluster(), longest=longest) as client:
        began = time.process_time()
        found = await client.ask(question, status=(200, 504), **asked)
        assert found.get("error", "the question took longer than 0.5 s").startswith(
            "the question took longer than 0.5 s"
        )
        assert time.process_time() - began < longest + beyond

    async with served_objects(*small_cluster(), longest=600) as client:
        leaving = asyncio.create_task(client.ask(question, **asked))
        await until(lambda: any(thread.name == "ending" for thread in threading.enumerate()))
        leaving.cancel()
        began = time.process_time()
        await client.ask("usage")  # by the same thread, once it is done with the other question
        assert time.process_time() - began < beyond


async def test_many_clients_at_once_get_the_same_answer():
    async with served_objects(*small_cluster()) as client:
        want = await client.ask("explain-pending")
        lone = await client.ask("explain", pod="big-0")

        async def ask(number):
            if number % 2:
                return await client.ask("explain", pod="big-0", nearest=10) == lone
            return await client.ask("explain-pending") == want

        assert all(await asyncio.gather(*map(ask, range(200))))


async def test_client_that_does_not_read_is_dropped_and_others_are_answered(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "bayplan.faces.asking")

    def explain_all(self, *_, progress, **__):
        without_end(progress, "x" * 2**20, step=0.01)

    monkeypatch.setattr(Insight, "explain_all", explain_all)
    monkeypatch.setattr("bayplan.faces.asking.replies.PAUSE", 0.001)
    async with served_objects(*small_cluster(), limits=replace(LIMITS, response=0.3), longest=20) as client:
        host, port = client.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        lines = ["POST /v1/questions/explain-pending HTTP/1.1", f"Host: {host}", f"Accept: {LINES}"]
        lines += [f"Authorization: Bearer {client.token}", "Content-Length: 2", "", "{}"]
        writer.write("\r\n".join(lines).encode())
        await until(lambda: SLOW in caplog.text)
        writer.transport.abort()
        await client.ask("usage")
    assert "Traceback" not in caplog.text
