"""The client and the embedded API server over HTTP, with failures of the network."""

import asyncio
import random

import pytest
from tests.support.proxy import FaultProxy
from tests.support.waiting import PATIENCE

from bayplan.client import ApiError, Backoff, HttpClient, Pace, Reflector
from bayplan.core.api.kinds import NODE, POD
from bayplan_devcluster.apiserver import Address, ApiServer

POD_P = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
QUICK = Backoff(0.005, 0.02)


class Keys:
    """A handler whose `become` waits until exactly these objects exist."""

    def __init__(self):
        self.keys = set()
        self._changed = asyncio.Condition()
        self._tasks = set()

    def added(self, new):
        self.keys.add(new.metadata.name)
        self._wake()

    def updated(self, old, new):
        self._wake()

    def deleted(self, old):
        self.keys.remove(old.metadata.name)
        self._wake()

    def undecodable(self, raw, error):
        raise AssertionError(error)

    async def become(self, *names):
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: self.keys == set(names))

    def _wake(self):
        async def wake():
            async with self._changed:
                self._changed.notify_all()

        task = asyncio.create_task(wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@pytest.fixture
async def reflected():
    """Starts reflectors of nodes, each with its own client, and stops them at the end."""
    tasks, clients = [], []

    def start(url):
        client = HttpClient(url, retries=0, request_timeout=5)
        keys = Keys()
        reflector = Reflector(client, NODE, keys, pace=Pace(page_size=2, backoff=QUICK, rng=random.Random(1)))
        tasks.append(asyncio.create_task(reflector.run()))
        clients.append(client)
        return keys, reflector

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.close()


def node(name):
    return {"metadata": {"name": name}}


async def test_reflector_lists_again_when_a_new_server_has_lower_versions(reflected):
    async with ApiServer() as first, HttpClient(first.url) as client:
        keys, reflector = reflected(first.url)
        for number in range(5):
            await client.create(NODE, node(f"old-{number}"))
        await keys.become(*(f"old-{number}" for number in range(5)))
        port = int(first.url.rpartition(":")[2])
    async with ApiServer(address=Address(port=port)) as second, HttpClient(second.url) as client:
        await client.create(NODE, node("new"))
        await keys.become("new")
        assert set(reflector.store) == {"new"}


async def test_reflector_survives_outages_and_broken_watches(reflected):
    async with ApiServer() as server, FaultProxy(server.url) as proxy, HttpClient(server.url) as client:
        await client.create(NODE, node("a"))
        keys, _ = reflected(proxy.url)
        await keys.become("a")
        await proxy.down()
        await client.create(NODE, node("b"))
        await client.delete(NODE, "a")
        await proxy.up()
        await keys.become("b")
        proxy.inject("GET", "watch=true", truncate_after=30, times=3)
        proxy.cut()
        await client.create(NODE, node("c"))
        await keys.become("b", "c")


@pytest.mark.parametrize("status", [410, 429, 500, 503])
async def test_reflector_retries_rejected_lists_and_watches(reflected, status):
    async with ApiServer() as server, FaultProxy(server.url) as proxy, HttpClient(server.url) as client:
        await client.create(NODE, node("a"))
        proxy.inject("GET", "watch=true", status=status, times=2)
        proxy.inject("GET", "limit", status=status, times=2)
        keys, _ = reflected(proxy.url)
        await keys.become("a")
        proxy.cut()
        await client.create(NODE, node("b"))
        await keys.become("a", "b")


async def test_reflector_lists_again_when_the_history_is_too_short(reflected):
    async with ApiServer(history=3) as server, FaultProxy(server.url) as proxy, HttpClient(server.url) as client:
        keys, _ = reflected(proxy.url)
        await client.create(NODE, node("a"))
        await keys.become("a")
        await proxy.down()
        for name in "bcdefgh":
            await client.create(NODE, node(name))
        await client.delete(NODE, "a")
        await proxy.up()
        await keys.become(*"bcdefgh")


async def test_client_retries_through_an_outage():
    async with ApiServer() as server, FaultProxy(server.url) as proxy:

        async def back_after_a_while(_):
            await proxy.up()

        async with HttpClient(server.url) as direct, HttpClient(proxy.url, sleep=back_after_a_while) as client:
            await direct.create(NODE, node("n"))
            created = await direct.create(POD, POD_P)
            await proxy.down()
            await client.bind("default", "p", "n", uid=created.metadata.uid)
            await proxy.down()
            assert (await client.get(POD, "p")).spec.nodeName == "n"
            with pytest.raises(ApiError, match="409"):
                await client.bind("default", "p", "n")
