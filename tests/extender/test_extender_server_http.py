"""The HTTP server: paths, methods, bodies, health checks, TLS and shutdown."""

import asyncio
import json
import logging
import ssl

import aiohttp
import pytest
from asking import cluster, no_c, node, pod, serving
from tests.support.certificates import Authority
from tests.support.tables import cases
from tests.support.waiting import until

from bayplan import SKIP, Plugin, filter_plugin
from bayplan.running.extender import server
from bayplan.running.extender.paths import DEFAULT_PATHS

pytestmark = pytest.mark.feature("Serving as an extender: HTTP")

QUESTION = json.dumps({"Pod": pod(), "Nodes": {"items": [node("a")]}}).encode()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
@pytest.mark.parametrize("path", ["/filter", "/prioritize", "/priority", "/preempt", "/bind"])
async def test_methods_other_than_post(method, path):
    async with serving(no_c) as extender:
        status, text, headers = await extender.send(method, path)
    assert (status, headers["Allow"]) == (405, "POST")
    assert text == ("" if method == "HEAD" else f"{path} requires POST, not {method}\n")


async def test_an_unknown_path():
    async with serving(no_c) as extender:
        status, text, _ = await extender.send("POST", "/filters", b"{}")
    assert status == 404
    assert text == (
        "/filters does not exist; use POST with /bind, /filter, /predicates, /preempt, /priorities, /prioritize, "
        "/priority, or GET with /healthz, /livez, /readyz\n"
    )


async def test_configured_paths():
    paths = {**DEFAULT_PATHS, "filter": "/scheduler/predicates/always_true", "bind": "/priority"}
    async with serving(no_c, paths=paths) as extender:
        assert (await extender.send("POST", "/scheduler/predicates/always_true", QUESTION))[0] == 200
        assert (await extender.send("POST", "/filter", QUESTION))[0] == 404
        status, text, _ = await extender.send("POST", "/priority", b"{}")
        assert (status, "Error" in json.loads(text)) == (200, True)  # a configured path overrides an alias


@cases(
    "body, error",
    {
        "empty": (b"", "not JSON: Input data was truncated"),
        "truncated": (b"{", "not JSON: Input data was truncated"),
        "not JSON": (b"<xml/>", "not JSON: "),
        "not text": (b"\xff\xfe", "not JSON: "),
        "nested too deeply": (b'{"Pod": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        "a list": (b"[]", "body: Expected `object`, got `array`"),
        "a string": (b'"text"', "body: Expected `object`, got `str`"),
    },
)
async def test_invalid_bodies_are_rejected(body, error):
    async with serving(no_c, client=cluster("a")) as extender:
        for verb in ("filter", "bind"):
            status, text, headers = await extender.send("POST", f"/{verb}", body)
            assert (status, headers["Content-Type"]) == (200, "application/json")
            assert json.loads(text)["Error"].startswith(error)
        for verb in ("prioritize", "preempt"):
            status, text, headers = await extender.send("POST", f"/{verb}", body)
            assert (status, headers["Content-Type"]) == (400, "text/plain; charset=utf-8")
            assert text.startswith(error)


async def test_null_is_an_empty_request():
    async with serving(no_c, client=cluster("a")) as extender:
        status, text, _ = await extender.send("POST", "/filter", b"null")
        assert (status, json.loads(text)["Error"]) == (200, "the request has no Pod")


async def test_field_names_are_case_insensitive_as_in_go():
    question = json.dumps({"pod": pod(), "NODES": {"ITEMS": [node("a")]}, "More": 1}).encode()
    async with serving(no_c) as extender:
        _, text, _ = await extender.send("POST", "/filter", question)
    assert [each["metadata"]["name"] for each in json.loads(text)["Nodes"]["items"]] == ["a"]


async def test_a_too_large_body_is_rejected(monkeypatch):
    monkeypatch.setattr(server, "BODY_LIMIT", 1000)
    async with serving(no_c) as extender:
        status, text, _ = await extender.send("POST", "/filter", b" " * 1001)
        assert (status, text) == (413, "the body has more than 1000 bytes\n")


async def test_a_large_body_is_accepted():
    annotations = {"padding": "x" * 10_000}
    nodes = [node(f"n{number}") for number in range(500)]
    for each in nodes:
        each["metadata"]["annotations"] = annotations
    async with serving(no_c) as extender:
        assert (await extender.filter_whole(*nodes))["Nodes"]["items"] == nodes


async def talk(extender, *pieces):
    """Send parts over a socket, each after the response to the previous one. Returns the last response, or ""."""
    address = extender.running.server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(*address)
    answer = b""
    for piece in pieces:
        writer.write(piece)
        answer = await reader.read(1 << 16)
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def test_expect_100_continue():
    head = (
        f"POST /filter HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {len(QUESTION)}\r\n\r\n"
    )
    async with serving(no_c) as extender:
        answer = await talk(extender, head.encode(), QUESTION)
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert '"Error":""' in answer


async def test_a_chunked_body():
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(QUESTION), QUESTION)
    async with serving(no_c) as extender:
        head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert '"Error":""' in await talk(extender, head + body)


async def test_invalid_http_is_logged_without_a_traceback(caplog):
    async with serving(no_c) as extender:
        head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n"
        assert (await talk(extender, head)).startswith("HTTP/1.0 400 Bad Request\r\n")
        assert (await extender.send("GET", "/healthz"))[0] == 200
    assert "Invalid character in Content-Length" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_client_that_disconnects_is_logged_without_a_traceback(caplog):
    caplog.set_level(logging.INFO, "bayplan")
    async with serving(no_c) as extender:
        address = extender.running.server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        await writer.drain()
        assert (await extender.send("GET", "/healthz"))[0] == 200  # by now the partial request has arrived
        writer.close()
        await writer.wait_closed()
        await until(lambda: "the client has disconnected" in caplog.text)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(path):
    async with serving(no_c) as extender:
        assert (await extender.send("GET", path))[:2] == (200, "ok\n")
        status, _, headers = await extender.send("POST", path, b"")
        assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_a_bug_of_the_extender_is_an_error_response_and_is_logged(monkeypatch, caplog):
    async with serving(no_c) as extender:
        monkeypatch.setattr(extender.running.server._verbs, "_find", None)
        problem = "TypeError in the extender; see its log"
        assert (await extender.filter_whole(node("a")))["Error"] == problem
        assert await extender.fail("prioritize", Pod=pod(), Nodes={"items": []}) == (500, problem + "\n")
    assert "filter failed" in caplog.text
    assert "Traceback" in caplog.text


async def test_requests_are_logged(caplog):
    caplog.set_level(logging.INFO, "bayplan")

    @filter_plugin
    def breaks(_pod, _node):
        raise KeyError("gpu")

    async with serving(no_c) as extender:
        await extender.filter_whole(node("a"), node("c"))
        await extender.scores(node("a"))
        await extender.filter_whole(node("a"), Pod=None)
    async with serving(breaks) as extender:
        await extender.filter_whole(node("a"))
    messages = [record.getMessage() for record in caplog.records if record.name != "bayplan.foundations.failures"]
    lines = [line.partition(" ms")[0].rpartition(", ")[0] or line for line in messages]
    assert lines == [
        "filter: default/web: 1 of 2 nodes",
        "prioritize: default/web: 1 nodes, best score 0",
        "filter: Error: the request has no Pod",
        "filter: Error: running \"breaks\" filter plugin: KeyError: 'gpu'",
    ]
    assert "in breaks" in caplog.text  # the traceback


async def test_open_requests_are_finished_at_the_end():
    begun, let_go = asyncio.Event(), asyncio.Event()

    class Slow(Plugin):
        name = "Slow"

        async def bind(self, cycle, pod, node_name):
            begun.set()
            await let_go.wait()
            return SKIP

    async with serving(Slow, client=cluster("a", pods=(pod(),))) as extender:
        args = {"PodName": "web", "PodNamespace": "default", "Node": "a"}
        asking = asyncio.create_task(extender.ask("bind", **args))
        await begun.wait()
        stopping = asyncio.create_task(extender.running.server.stop())
        await asyncio.sleep(0)
        let_go.set()
        assert await asking == {"Error": ""}
        await stopping
        with pytest.raises(aiohttp.ClientConnectionError):
            await extender.send("GET", "/healthz")


# TLS


@pytest.fixture
def authority():
    return Authority()


def context(authority, tmp_path, name, pair, *, server_side):
    certificate, key = tmp_path / f"{name}.crt", tmp_path / f"{name}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(cadata=authority.certificate.decode())
    made.load_cert_chain(certificate, key)
    return made


async def test_verbs_require_a_client_certificate(authority, tmp_path):
    tls = context(authority, tmp_path, "server", authority.server("127.0.0.1"), server_side=True)
    tls.verify_mode = ssl.CERT_OPTIONAL
    known = context(authority, tmp_path, "client", authority.client("scheduler"), server_side=False)
    without_certificate = ssl.create_default_context(cadata=authority.certificate.decode())
    async with serving(no_c, tls=tls) as extender:
        assert extender.running.server.url.startswith("https://127.0.0.1:")
        assert (await extender.send("POST", "/filter", QUESTION, ssl=known))[0] == 200
    async with serving(no_c, tls=tls) as extender:
        status, text, _ = await extender.send("POST", "/filter", QUESTION, ssl=without_certificate)
        assert (status, text) == (401, "a client certificate from a CA of --client-ca-file is required\n")
        assert (await extender.send("GET", "/healthz", ssl=without_certificate))[0] == 200
