"""Who gets in: the token, the cookie, the Host header, and methods."""

from __future__ import annotations

import aiohttp
import pytest
from served_page import served_objects
from starlette.responses import PlainTextResponse

from bayplan.ui.guard import Guard, is_loopback

TOKEN = "secret-token"
COOKIE = {"Cookie": f"bayplan={TOKEN}"}


async def ask(address="127.0.0.1", path="/", host="127.0.0.1:80", method="GET", query="", headers=None):
    """The status and the headers of a guarded application's answer."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request"}

    given = {"host": host, **(headers or {})}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "server": ("127.0.0.1", 80),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }
    await Guard(PlainTextResponse("in"), TOKEN, address)(scope, receive, send)
    found = {}
    for name, value in sent[0]["headers"]:
        found[name.decode()] = value.decode()
    return sent[0]["status"], found


async def test_token_becomes_a_cookie_and_leaves_the_address():
    status, headers = await ask(path="/pods/a/b", query=f"node=x&token={TOKEN}")
    assert (status, headers["location"]) == (303, "/pods/a/b?node=x")
    assert headers["set-cookie"] == f"bayplan={TOKEN}; HttpOnly; Path=/; SameSite=lax"
    assert (await ask(headers=COOKIE))[0] == 200


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("token=", {}),
        ("token=wrong", {}),
        ("token=wrong", COOKIE),
        ("token=%C3%A9", {}),
        ("", {"Cookie": "bayplan=wrong"}),
        ("", {"Cookie": f"other={TOKEN}"}),
    ],
)
async def test_without_the_token_nothing_is_shown(query, headers):
    status, answer = await ask(query=query, headers=headers)
    assert status == 403
    assert "set-cookie" not in answer


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8080", 200),
        ("127.0.0.1", "localhost:1", 200),
        ("127.0.0.1", "LOCALHOST", 200),
        ("::1", "[::1]:8080", 200),
        ("127.0.0.1", "attacker.example:80", 403),
        ("127.0.0.1", "127.0.0.1.attacker.example", 403),
        ("127.0.0.1", "192.0.2.7", 403),
        ("127.0.0.1", "", 403),
        ("0.0.0.0", "192.0.2.7:80", 200),
        ("0.0.0.0", "attacker.example", 403),
        ("box.example", "box.example:80", 200),
        ("box.example", "attacker.example", 403),
    ],
)
async def test_host_header_is_an_address_of_the_server(address, host, status):
    assert (await ask(address, host=host, headers=COOKIE))[0] == status


async def test_token_with_a_foreign_host_sets_no_cookie():
    status, headers = await ask(host="attacker.example", query=f"token={TOKEN}")
    assert status == 403
    assert "set-cookie" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"])
async def test_only_reading_is_allowed(method):
    assert (await ask(method=method, headers=COOKIE))[0] == 405


@pytest.mark.parametrize("path", ["//attacker.example", "/\\attacker.example", "///attacker.example/x"])
async def test_redirect_stays_on_the_server(path):
    status, headers = await ask(path=path, query=f"token={TOKEN}")
    assert status == 303
    assert headers["location"][1] not in "/\\"


async def test_every_answer_forbids_scripts_and_frames_of_others():
    for _, headers in (await ask(headers=COOKIE), await ask()):
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("box", False)],
)
def test_loopback_addresses(address, local):
    assert is_loopback(address) is local


async def test_static_files_need_the_token_too():
    async with served_objects() as visitor:
        await visitor.get("/static/page.css")
        await visitor.get("/static/../app.py", status=404)
        async with aiohttp.ClientSession() as stranger, stranger.get(f"{visitor.base}/static/page.css") as response:
            assert response.status == 403
