"""Only requests with the token, to an address of the server, and from no other site are answered."""

import aiohttp
import pytest
from tests.support.served_questions import served_objects, small_cluster

TOKEN = "a-token-of-the-test"


async def statuses(*headers, path="/v1/cluster", method="GET"):
    found = []
    async with served_objects(*small_cluster(), token=TOKEN) as client:
        for each in headers:
            given = {key: value.replace("SELF", client.url) for key, value in each.items()}
            async with client.session.request(method, client.url + path, headers=given) as response:
                text = await response.text()
                assert response.content_type == "application/json"
                assert ("error" in await response.json()) is (response.status != 200)
                assert "Traceback" not in text
                assert "Access-Control-Allow-Origin" not in response.headers
                found.append(response.status)
    return found


WITH = {"Authorization": f"Bearer {TOKEN}"}

CASES = {
    "the token": (WITH, 200),
    "the scheme in other letters": ({"Authorization": f"bearer {TOKEN}"}, 200),
    "no token": ({}, 401),
    "another token": ({"Authorization": "Bearer a-token-of-another-test"}, 401),
    "a part of the token": ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    "another scheme": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "a token that is no ASCII": ({"Authorization": "Bearer \u00e9"}, 401),
    "the token as a cookie": ({"Cookie": f"bayplan={TOKEN}"}, 401),
    "localhost": ({**WITH, "Host": "localhost:1"}, 200),
    "IPv6 loopback": ({**WITH, "Host": "[::1]:80"}, 200),
    "a name that is rebound": ({**WITH, "Host": "attacker.example"}, 403),
    "an address of another machine": ({**WITH, "Host": "192.0.2.1"}, 403),
    "no host": ({**WITH, "Host": ""}, 403),
    "its own origin": ({**WITH, "Origin": "SELF"}, 200),
    "another origin": ({**WITH, "Origin": "http://attacker.example"}, 403),
    "an opaque origin": ({**WITH, "Origin": "null"}, 403),
    "an invalid origin": ({**WITH, "Origin": "http://[x"}, 403),
    "another site": ({**WITH, "Sec-Fetch-Site": "cross-site"}, 403),
    "another port": ({**WITH, "Sec-Fetch-Site": "same-site"}, 403),
    "a user's own request": ({**WITH, "Sec-Fetch-Site": "none"}, 200),
}


async def test_guard():
    found = await statuses(*(headers for headers, _ in CASES.values()))
    assert dict(zip(CASES, found, strict=True)) == {case: status for case, (_, status) in CASES.items()}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/openapi.json"), ("POST", "/v1/questions/usage"), ("GET", "/none"), ("OPTIONS", "/")]
)
async def test_every_path_is_guarded(method, path):
    assert await statuses({}, {"Authorization": "Bearer x"}, method=method, path=path) == [401, 401]


async def test_token_in_the_address_does_not_count():
    async with (
        served_objects(*small_cluster(), token=TOKEN) as client,
        aiohttp.ClientSession() as session,
        session.get(f"{client.url}/v1/cluster?token={TOKEN}") as response,
    ):
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
