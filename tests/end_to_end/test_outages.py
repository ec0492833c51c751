"""Outages, overload and interrupted watches of the API server: no pod is lost, and none is bound twice."""

import asyncio
import time

import pytest
from clusters import ABRUPT
from running import FAST, running_scheduler
from tests.support.invariants import waiting_or_bound
from workloads import NAME, pod, pods

from bayplan.running.service.settings import Settings

pytestmark = [*ABRUPT, pytest.mark.usefixtures("invariants")]


def bound(cluster):
    return sum(bool(cluster.observer.node_of(key)) for key in cluster.observer.pods)


@pytest.mark.parametrize(
    ("outage", "settings"),
    [
        pytest.param(1.5, FAST, id="scaled down"),
        pytest.param(30.0, Settings(), id="full length", marks=pytest.mark.soak),
    ],
)
async def test_api_server_restarts_while_500_pods_are_scheduled(cluster, proxy, outage, settings):
    await cluster.add_nodes(10, cpu="6")
    await cluster.create_fast(pods("p", 500))
    slow = proxy.inject("POST", "/binding$", times=None, delay=0.3)
    async with running_scheduler(proxy.access, settings=settings):
        await cluster.observer.until(lambda: bound(cluster) >= 50)
        await cluster.stop_server()
        so_far = bound(cluster)
        proxy.faults.remove(slow)
        await asyncio.sleep(outage)
        await cluster.start_server()
        await cluster.observer.until(lambda: bound(cluster) == 500)
        assert so_far < 500
        await cluster.create(pod("too-big", "7"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))


@pytest.mark.parametrize(
    ("outage", "settings"),
    [
        pytest.param(1.5, FAST, id="scaled down"),
        pytest.param(30.0, Settings(), id="full length", marks=pytest.mark.soak),
    ],
)
async def test_cluster_changes_during_a_network_outage(cluster, proxy, outage, settings):
    await cluster.add_nodes(10, cpu="6")
    async with running_scheduler(proxy.access, settings=settings):
        await cluster.create_fast(pods("before", 100))
        await cluster.observer.until(lambda: bound(cluster) >= 20)
        await proxy.down()
        back_at = time.monotonic() + outage
        await cluster.create_fast(pods("meanwhile", 200))
        for key in list(cluster.observer.pods)[:20]:
            await cluster.delete(key.removeprefix("default/"))
        await cluster.add_node("new", cpu="6")
        await asyncio.sleep(max(0.0, back_at - time.monotonic()))
        await proxy.up()
        await cluster.create_fast(pods("after", 100))
        await cluster.observer.until(lambda: bound(cluster) == len(cluster.observer.pods) == 380)


@pytest.mark.parametrize(
    ("every", "waves"),
    [pytest.param(0.1, 4, id="scaled down"), pytest.param(1.0, 60, id="full length", marks=pytest.mark.soak)],
)
async def test_watches_are_interrupted_repeatedly(cluster, proxy, every, waves):
    await cluster.add_nodes(5)
    async with running_scheduler(proxy.access):
        proxy.cut_every(every)
        for wave in range(waves):
            await cluster.create_fast(pods(f"wave-{wave}", 25))
            await cluster.observer.until(lambda: bound(cluster) == len(cluster.observer.pods) == 25)
            await asyncio.sleep(every)
            for key in list(cluster.observer.pods):
                await cluster.delete(key.removeprefix("default/"))
            await cluster.observer.until(lambda: not cluster.observer.pods)
    assert proxy.count("GET", "watch=true") > 2 * waves


async def test_expired_watch_lists_again(cluster, proxy):
    await cluster.add_nodes(2, cpu="1")
    async with running_scheduler(proxy.access):
        await cluster.create(*pods("p", 10, "200m"))
        await cluster.observer.until(lambda: bound(cluster) == 10)
        gone = proxy.inject("GET", "watch=true", times=None, status=410)
        lists = proxy.count("GET", r"/pods\?.*limit")
        proxy.cut()
        await cluster.observer.until(lambda: gone.hits >= 2)
        await cluster.delete("p-0000")
        await cluster.create(pod("next", "200m"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/next"))
        assert proxy.count("GET", r"/pods\?.*limit") > lists
        proxy.faults.remove(gone)
        await cluster.create(pod("one-too-many", "200m"))
        await cluster.observer.until(lambda: waiting_or_bound(cluster.observer, NAME))


async def test_retry_after_of_an_overloaded_server_is_respected(cluster, proxy):
    await cluster.add_nodes(2)
    async with running_scheduler(proxy.access):
        watches = proxy.inject("GET", "/(pods|nodes)[?]", times=3, status=429, retry_after=1)
        writes = proxy.inject("POST", "/(binding|events)$", times=30, status=429, retry_after=1)
        proxy.cut()
        began = time.monotonic()
        await cluster.create_fast(pods("p", 20))
        await cluster.observer.until(lambda: bound(cluster) == 20)
        assert time.monotonic() - began >= 1
        await cluster.observer.until(
            lambda: len([event for event in cluster.observer.events if event["reason"] == "Scheduled"]) == 20
        )
    assert (watches.hits, writes.hits) == (3, 30)


async def test_truncated_replies_are_requested_again(cluster, proxy):
    await cluster.add_nodes(3)
    await cluster.create_fast(pods("early", 30))
    proxy.inject("GET", r"/(pods|nodes)\?limit", times=4, truncate_after=200)
    proxy.inject("GET", "watch=true", times=6, truncate_after=2000)
    async with running_scheduler(proxy.access):
        await cluster.create_fast(pods("late", 30))
        await cluster.observer.until(lambda: bound(cluster) == 60)
