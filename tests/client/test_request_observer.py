"""The notifications of a request observer."""

import random
from contextlib import suppress

import pytest

from bayplan.client import ApiError, HttpClient, TransportError
from bayplan.core.api.kinds import POD

POD_P = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}}


class Observer:
    def __init__(self) -> None:
        self.ended = []
        self.waits = []

    def requested(self, method, host, code, seconds, sent, received):
        assert 0 <= seconds < 5
        self.ended.append((method, code, sent, received > 0))
        self.host = host

    def waited(self, method, host, seconds):
        self.waits.append((method, seconds >= 0))


@pytest.fixture
def observer():
    return Observer()


@pytest.fixture
async def client(server, sleeps, observer):
    async with HttpClient(server.url, sleep=sleeps, rng=random.Random(1), observer=observer) as client:
        yield client


async def test_observer_gets_sizes_of_requests(client, server, observer) -> None:
    server.respond(POD_P)
    await client.get(POD, "p", "n")
    await client.create(POD, POD_P)
    assert observer.ended == [("GET", "200", 0, True), ("POST", "200", len(server.requests[1][3]), True)]
    assert observer.host == server.url.removeprefix("http://")


async def test_observer_gets_retries(client, server, observer) -> None:
    server.respond({"kind": "Status", "code": 429}, status=429, headers={"Retry-After": "1"})
    server.respond({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
    with pytest.raises(ApiError):
        await client.get(POD, "p", "n")
    assert [code for _, code, _, _ in observer.ended] == ["429", "404"]


async def test_observer_gets_streams_at_their_end(client, server, observer) -> None:
    server.stream(b"{}\n", then="cut")
    with suppress(TransportError):
        async for _ in client.stream("/api/v1/pods"):
            assert observer.ended == []
    assert observer.ended == [("GET", "200", 0, False)]


async def test_observer_gets_requests_without_a_response(unused_tcp_port_factory, sleeps, observer) -> None:
    async with HttpClient(
        f"http://127.0.0.1:{unused_tcp_port_factory()}", retries=1, sleep=sleeps, observer=observer
    ) as client:
        with pytest.raises(TransportError):
            await client.get(POD, "p", "n")
    assert [code for _, code, _, _ in observer.ended] == ["<error>", "<error>"]


async def test_observer_gets_waits_for_the_rate_limit(server, sleeps, observer) -> None:
    server.respond(POD_P)
    async with HttpClient(server.url, qps=1000, burst=1, sleep=sleeps, observer=observer) as client:
        await client.get(POD, "p", "n")
        await client.get(POD, "p", "n")
    assert observer.waits == [("GET", True), ("GET", True)]
