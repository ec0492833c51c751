"""Connections that are frozen while new ones work, as after a lost NAT entry: the scheduler opens new ones in time."""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import replace

import pytest
from running import FAST, running_scheduler
from tests.support.invariants import check_invariants
from workloads import NAME, pod, pods

from bayplan.client.http import KEEP_ALIVE, HttpTransport
from bayplan.client.list_watch import IDLE_SECONDS
from bayplan.service.scheduler import Settings

LIMIT = 30.0
"""Seconds after which pods are bound again, with the default limits."""


@pytest.mark.parametrize(
    ("settings", "options", "within"),
    [
        pytest.param(replace(FAST, watch_idle=1.5), {"idle_timeout": 0.5}, 4.0, id="scaled down"),
        pytest.param(Settings(), {}, LIMIT, id="default limits", marks=pytest.mark.soak),
    ],
)
async def test_pods_are_bound_again_after_connections_froze(cluster, proxy, settings, options, within):
    await cluster.add_nodes(2)
    async with running_scheduler(proxy.access, settings=settings, **options):
        await cluster.create(*pods("before", 5))
        await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))
        assert proxy.freeze() > 5
        began = time.monotonic()
        await cluster.create(pod("after"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/after"), within=within)
        assert time.monotonic() - began < within
    check_invariants(cluster.observer, NAME)


async def test_binding_on_a_frozen_connection_is_looked_up_on_a_new_one(cluster, proxy):
    await cluster.add_nodes(2)
    settings = replace(FAST, watch_idle=1.5)
    async with running_scheduler(proxy.access, settings=settings, idle_timeout=0.5):
        slow = proxy.inject("POST", "/binding$", delay=0.2)
        await cluster.create(pod("in-flight"))
        await cluster.observer.until(lambda: slow.hits)
        proxy.freeze()
        await cluster.observer.until(lambda: cluster.observer.node_of("default/in-flight"), within=5)
    check_invariants(cluster.observer, NAME)


async def test_silent_watch_of_an_unchanged_kind_is_ended_by_the_server(cluster, proxy):
    """The client has no reason to break it: the server ends it in time, after a bookmark."""
    await cluster.add_nodes(1)
    async with running_scheduler(proxy.access, settings=replace(FAST, watch_idle=4.0)):
        await asyncio.sleep(0.5)
        asked = [seen.path for seen in proxy.requests if seen.is_watch and "/storageclasses" in seen.path]
    assert asked
    assert all("timeoutSeconds=3&" in f"{path}&" for path in asked)


def test_default_limits_allow_for_pods_to_be_bound_within_30_seconds():
    defaults = {name: each.default for name, each in inspect.signature(HttpTransport).parameters.items()}
    assert IDLE_SECONDS + 5 < LIMIT
    assert defaults["idle_timeout"] + 5 < LIMIT
    assert defaults["request_timeout"] <= LIMIT
    assert defaults["idle_timeout"] > KEEP_ALIVE, "a request after a timeout must not take another frozen connection"
