"""Fault injection."""

import asyncio
import time

import aiohttp
import pytest

from bayplan_devcluster.apiserver import Fault

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


async def bind(api, name):
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
    return (await api("POST", f"{PODS}/{name}/binding", body, **{"Content-Type": "application/json"}))[0]


async def test_fault_with_times_affects_that_many_requests(api, server, make_pod):
    await api.create(PODS, make_pod())
    fault = server.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=500, times=3))
    assert [await bind(api, "p") for _ in range(4)] == [500, 500, 500, 201]
    assert fault.hits == 3


async def test_watch_seconds_ends_watches_early(api, server):
    server.faults.watch_seconds = 0.05
    async with asyncio.timeout(5), api.watch(f"{MAPS}?watch=1") as following:
        assert await following() is None


async def test_fault_delays_a_request(api, server, make_config_map):
    await api.create(MAPS, make_config_map())
    server.faults.add(Fault(verb="delete", delay=0.1))
    before = time.monotonic()
    await api.delete(f"{MAPS}/m")
    assert time.monotonic() - before >= 0.1


async def test_hanging_request_is_dropped_when_faults_are_cleared(api, server, make_config_map):
    server.faults.add(Fault(resource="configmaps", when=lambda info: info.verb == "create", hang=True))
    hanging = asyncio.ensure_future(api.create(MAPS, make_config_map()))
    assert await api.get(MAPS) is not None
    assert not hanging.done()
    server.faults.clear()
    with pytest.raises(aiohttp.ClientError):
        await hanging
    await api.get(f"{MAPS}/m", status=404)


@pytest.mark.parametrize(("drop", "carried_out"), [("before", False), ("after", True)])
async def test_fault_drops_the_connection(api, server, make_config_map, drop, carried_out):
    server.faults.add(Fault(verb="create", name="", drop=drop, times=1))
    with pytest.raises(aiohttp.ClientError):
        await api.create(MAPS, make_config_map())
    await api.get(f"{MAPS}/m", status=200 if carried_out else 404)


async def test_fault_sets_the_retry_after_header(api, server):
    server.faults.add(Fault(answer=429, reason="TooManyRequests", retry_after=2))
    async with api.session.get(MAPS) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "2")
