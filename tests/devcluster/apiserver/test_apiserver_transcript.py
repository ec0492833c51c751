"""Replays a recorded conversation with kube-apiserver 1.36.2: the embedded server gives the same responses."""

import json
import re
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from bayplan_devcluster.apiserver import Address, ApiServer

DATA = Path(__file__).parents[2] / "data" / "apiserver" / "transcript.jsonl"
EXCHANGES = [json.loads(line) for line in DATA.read_text().splitlines()]

KNOWN_DIFFERENCES = {"patch immutable node name": "the message shows the change in kube-apiserver's internal types"}
"""Exchanges with known differences, and the reason."""

PLACEHOLDER = re.compile(r"<(uid-\d+|rv|time|age|generated|continue)>")
SHAPES = {
    "rv": r"\d+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "age": r"<unknown>|\d+[smhd].*",
    "generated": r"[a-z0-9-]+-[a-z0-9]{5}",
    "continue": r".+",
}


class Placeholders:
    """The values of numbered placeholders so far."""

    def __init__(self):
        self.values = {}

    def differences(self, expected, actual, where="$"):
        """Returns the paths at which a response differs from the recorded one."""
        if isinstance(expected, str) and PLACEHOLDER.search(expected):
            return [] if self._text_matches(expected, actual) else [f"{where}: {actual!r} is not {expected!r}"]
        if isinstance(expected, dict) and isinstance(actual, dict):
            found = [f"{where}.{key}: missing" for key in expected.keys() - actual.keys()]
            found += [f"{where}.{key}: extra, {actual[key]!r}" for key in actual.keys() - expected.keys()]
            for key in expected.keys() & actual.keys():
                found += self.differences(expected[key], actual[key], f"{where}.{key}")
            return found
        if isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                return [f"{where}: {len(actual)} items instead of {len(expected)}: {actual!r}"]
            return [
                found
                for index, (left, right) in enumerate(zip(expected, actual, strict=True))
                for found in self.differences(left, right, f"{where}[{index}]")
            ]
        return (
            []
            if expected == actual and type(expected) is type(actual)
            else [f"{where}: {actual!r} is not {expected!r}"]
        )

    def _text_matches(self, expected, actual):
        pattern, names = "", []
        position = 0
        for match in PLACEHOLDER.finditer(expected):
            pattern += re.escape(expected[position : match.start()])
            name = match[1]
            shape = SHAPES.get(name, r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
            pattern += f"({self.values.get(name, shape)})" if name.startswith("uid-") else f"({shape})"
            names.append(name)
            position = match.end()
        pattern += re.escape(expected[position:])
        match = re.fullmatch(pattern, str(actual))
        if match is None:
            return False
        for name, value in zip(names, match.groups(), strict=True):
            if name.startswith("uid-"):
                self.values[name] = value
        return True


@pytest.fixture(scope="module")
def differences():
    """Returns the differences by exchange. Exchanges run in order, because each depends on those before it."""
    import asyncio

    async def converse():
        found, placeholders = {}, Placeholders()
        async with (
            ApiServer(tokens={"secret": "admin"}, address=Address(advertised="192.0.2.2:16443")) as server,
            aiohttp.ClientSession(server.url) as client,
        ):
            for exchange in EXCHANGES:
                found[exchange["name"]] = await ask(client, exchange, placeholders)
        return found

    return asyncio.run(converse())


async def ask(client, exchange, placeholders):
    request, expected = exchange["request"], exchange["response"]
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json", **request.get("headers", {})}
    body = request.get("body")
    data = body if isinstance(body, str | None) else json.dumps(body)
    url = URL(str(client._base_url).rstrip("/") + request["path"], encoded=True)
    async with client.request(request["method"], url, data=data, headers=headers) as response:
        text = await response.text()
        found = placeholders.differences(expected["status"], response.status, "status")
        found += placeholders.differences(expected["contentType"], response.content_type, "contentType")
        found += placeholders.differences(
            expected.get("warning", []), response.headers.getall("Warning", []), "warning"
        )
    if isinstance(expected["body"], str):
        return found + placeholders.differences(expected["body"], text)
    if isinstance(expected["body"], list):
        return found + placeholders.differences(expected["body"], [json.loads(line) for line in text.splitlines()])
    if response.content_type != "application/json":
        return [*found, f"$: {text!r} is no JSON"]
    return found + placeholders.differences(expected["body"], json.loads(text))


@pytest.mark.parametrize("name", [exchange["name"] for exchange in EXCHANGES])
def test_exchange(name, differences, request):
    if name in KNOWN_DIFFERENCES:
        request.applymarker(pytest.mark.xfail(reason=KNOWN_DIFFERENCES[name], strict=True))
    assert differences[name] == []


def test_expected_failures_exist_in_the_transcript():
    assert KNOWN_DIFFERENCES.keys() <= {exchange["name"] for exchange in EXCHANGES}
