"""Who gets in: the token, the cookie, the Host header, methods, and what other sites lead to."""

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from served_page import served_objects, small_cluster

from bayplan.faces.asking.guard import is_loopback
from bayplan.faces.ui.guard import CookieGuard

TOKEN = "secret-token"
COOKIE = {"Cookie": f"bayplan={TOKEN}"}
OWN = {"Origin": "http://127.0.0.1:80"}


def ask(address="127.0.0.1", path="/", host="127.0.0.1:80", method="GET", query="", headers=None):
    """The status and the headers of the refusal of a request; 200 if it is let in."""
    target = f"{path}?{query}" if query else path
    response = CookieGuard(TOKEN, address).refusal(
        make_mocked_request(method, target, headers={"Host": host, **(headers or {})})
    )
    if response is None:
        return 200, {}
    cookies = response.cookies.output(header="")
    return response.status, {**response.headers, **({"Set-Cookie": cookies.strip()} if cookies else {})}


def test_token_becomes_a_cookie_and_leaves_the_address():
    status, headers = ask(path="/pods/a/b", query=f"node=x&token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/pods/a/b?node=x")
    assert headers["Set-Cookie"] == f"bayplan={TOKEN}; HttpOnly; Path=/; SameSite=Strict"
    assert ask(headers=COOKIE)[0] == 200


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
def test_without_the_token_nothing_is_shown(query, headers):
    status, answer = ask(query=query, headers=headers)
    assert status == 403
    assert "Set-Cookie" not in answer


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
def test_host_header_is_an_address_of_the_server(address, host, status):
    assert (ask(address, host=host, headers=COOKIE))[0] == status


def test_token_with_a_foreign_host_sets_no_cookie():
    status, headers = ask(host="attacker.example", query=f"token={TOKEN}")
    assert status == 403
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_only_reading_and_forms_are_allowed(method):
    assert (ask(method=method, headers=COOKIE))[0] == 405


@pytest.mark.parametrize("path", ["//attacker.example", "/\\attacker.example", "///attacker.example/x"])
def test_redirect_stays_on_the_server(path):
    status, headers = ask(path=path, query=f"token={TOKEN}")
    assert status == 303
    assert headers["Location"][1:2] not in {"/", "\\"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:81"}, 403),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "http://127.0.0.1:80.attacker.example"}, 403),
        ({"Sec-Fetch-Site": "same-site", **OWN}, 403),
        ({"Sec-Fetch-Site": "cross-site", **OWN}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
    ],
)
def test_forms_are_those_of_the_page(headers, status):
    assert ask(method="POST", path="/what-if", headers={**COOKIE, **headers})[0] == status
    assert ask(method="POST", path="/what-if", headers=headers)[0] == 403  # without the cookie
    assert ask(method="POST", path="/what-if", query=f"token={TOKEN}", headers=headers)[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_link_of_another_site_asks_nothing_and_can_be_followed(site):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    for given in (headers, {**headers, **COOKIE}):
        response = CookieGuard(TOKEN, "127.0.0.1").refusal(
            make_mocked_request("GET", "/what-if?cordon=a&x=%22%3E", headers={"Host": "localhost", **given})
        )
        assert response.status == 403
        assert "<a href='/what-if?cordon=a&amp;x=%22%3E'>" in response.text
        assert not response.cookies
    assert ask(query=f"token={TOKEN}", headers=headers)[0] == 303  # the printed address in another program


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_bookmarks_and_links_of_the_page_are_answered(site):
    assert ask(path="/what-if", query="cordon=a", headers={**COOKIE, "Sec-Fetch-Site": site})[0] == 200


async def test_every_answer_forbids_scripts_and_frames_of_others():
    async with served_objects(*small_cluster()) as visitor, aiohttp.ClientSession() as stranger:
        for session in (visitor.session, stranger):
            async with session.get(visitor.base) as response:
                headers = response.headers
            assert "default-src 'self'" in headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cache-Control"] == "no-store"


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
