import asyncio
import random

import pytest
from tests.support.proxy import FaultProxy
from tests.support.waiting import until

from bayplan.client import ApiError, Backoff, HttpClient, Pace, Reflector, TransportError
from bayplan.core.api.kinds import NODE, POD
from bayplan_devcluster.apiserver.server import ApiServer

POD_P = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
BINDING = "/binding$"


@pytest.fixture
async def proxy():
    async with ApiServer() as server, FaultProxy(server.url) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy):
    async with HttpClient(proxy.url, retries=0, request_timeout=5) as client:
        await client.create(NODE, {"metadata": {"name": "node"}})
        await client.create(POD, POD_P)
        yield client


async def node_of(client: HttpClient) -> str | None:
    return (await client.get(POD, "p")).spec.nodeName


async def test_without_faults_it_only_forwards_and_counts(proxy, client):
    await client.bind("default", "p", "node")
    assert await node_of(client) == "node"
    with pytest.raises(ApiError) as caught:
        await client.get(POD, "missing")
    assert (caught.value.status, caught.value.details["name"]) == (404, "missing")
    assert (proxy.count("POST", BINDING), proxy.count("GET", "/pods/"), proxy.count("", "")) == (1, 2, 5)


async def test_fault_with_times_affects_that_many_responses(proxy, client):
    fault = proxy.inject("POST", BINDING, times=3, status=500, retry_after=7)
    for _ in range(3):
        with pytest.raises(ApiError, match="500 InternalError: injected") as caught:
            await client.bind("default", "p", "node")
        assert caught.value.retry_after == 7
    assert await node_of(client) is None
    await client.bind("default", "p", "node")
    assert fault.hits == 3


async def test_request_is_forwarded_but_its_response_is_dropped(proxy, client):
    proxy.inject("POST", BINDING, drop_response=True)
    with pytest.raises(TransportError) as caught:
        await client.bind("default", "p", "node")
    assert caught.value.sent
    assert await node_of(client) == "node"


async def test_requests_hang_or_are_delayed(proxy, client):
    proxy.inject("GET", "/pods/p", hang=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.get(POD, "p"), 0.05)
    proxy.inject("GET", "/pods/p", delay=0.05)
    began = asyncio.get_running_loop().time()
    await client.get(POD, "p")
    assert asyncio.get_running_loop().time() - began >= 0.05


async def test_response_is_truncated(proxy, client):
    proxy.inject("GET", "/pods/p", truncate_after=10)
    with pytest.raises(TransportError):
        await client.get(POD, "p")
    await client.get(POD, "p")


async def test_an_outage(proxy, client):
    watch = client.watch(POD)
    await anext(watch)
    await proxy.down()
    with pytest.raises(TransportError):
        await anext(watch)
    with pytest.raises(TransportError, match="connection refused") as caught:
        await client.get(POD, "p")
    assert not caught.value.sent
    await proxy.up()
    await client.get(POD, "p")


async def test_cutting_watches_spares_other_requests(proxy, client):
    proxy.inject("GET", "/nodes/node", delay=0.1)
    watch = client.watch(POD)
    await anext(watch)
    slow = asyncio.create_task(client.get(NODE, "node"))
    await proxy.arrival("GET", "/nodes/node")
    assert proxy.cut() == 1
    with pytest.raises(TransportError):
        await anext(watch)
    assert (await slow).metadata.name == "node"
    proxy.inject("POST", BINDING, hang=True)
    slow = asyncio.create_task(client.bind("default", "p", "node"))
    await proxy.arrival("POST", BINDING)
    assert proxy.cut(watches_only=False) == 1
    with pytest.raises(TransportError):
        await slow


async def test_reflector_survives_watches_that_are_cut_repeatedly(proxy, client):
    done = asyncio.Event()

    class Names(set):
        def added(self, new):
            self.add(new.metadata.name)

        def updated(self, old, new): ...

        def deleted(self, old):
            self.remove(old.metadata.name)
            if self == {"p29"}:
                done.set()

    names = Names()
    reflector = Reflector(client, POD, names, pace=Pace(backoff=Backoff(0.01, 0.02), rng=random.Random(1)))
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    for number in range(30):
        await client.create(POD, POD_P | {"metadata": {"name": f"p{number}"}})
        await client.delete(POD, f"p{number - 1}" if number else "p", grace_period_seconds=0)
        if number % 5 == 0:
            await until(lambda last=f"p{number}": last in names)
            proxy.cut()
    await asyncio.wait_for(done.wait(), 10)
    task.cancel()
    assert set(reflector.store) == {"default/p29"}
    assert proxy.count("GET", "watch=true") > 1
