import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from bayplan.client import connect
from bayplan.core.api.kinds import NODE, POD, SERVICE_ACCOUNT
from bayplan.foundations.clock import ManualClock
from bayplan_devcluster.apiserver import ADMIN, Address, ApiServer, Tls
from bayplan_devcluster.cluster import DevCluster


@pytest.mark.parametrize("tls", [False, True])
async def test_cluster_serves_clients_of_its_kubeconfig_and_stops_cleanly(tmp_path: Path, tls: bool):
    before = asyncio.all_tasks()
    server = ApiServer(address=Address(tls=Tls.create()), tokens={"secret": ADMIN}) if tls else None
    async with DevCluster(2, server=server) as cluster:
        assert cluster.url.startswith("https:" if tls else "http:")
        await cluster.nodes_ready()
        path = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(path)
        assert path.stat().st_mode & 0o077 == 0
        async with connect(path) as client:
            assert len((await client.list(NODE)).items) == 2
    assert asyncio.all_tasks() == before


async def test_all_components_share_the_clock():
    clock = ManualClock()
    async with DevCluster(1, clock=clock) as cluster:
        await cluster.nodes_ready()
        node = await cluster.client.get(NODE, "node-0")
        assert node.metadata.creationTimestamp == clock.now()
        assert {one.lastHeartbeatTime for one in node.status.conditions} == {clock.now()}


async def test_every_namespace_has_a_service_account():
    async with DevCluster(0, clock=ManualClock()) as cluster:
        accounts = cluster.informers.of(SERVICE_ACCOUNT)
        complete = asyncio.Event()

        def look(*_: Any) -> None:
            if {"default/default", "kube-system/default"} <= accounts.objects.keys():
                complete.set()

        accounts.listen(look)
        await asyncio.wait_for(complete.wait(), 10)


async def test_pods_stay_unchanged_without_kubelets():
    async with DevCluster(3, clock=ManualClock(), kubelets=False) as cluster:
        await cluster.nodes_ready()
        assert (await cluster.client.list(NODE)).items == []
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await cluster.client.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "default")
        assert (await cluster.client.get(POD, "p", "default")).status.phase == "Pending"


async def test_port_in_use_leaves_nothing_behind():
    before = asyncio.all_tasks()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await DevCluster(0, server=ApiServer(address=Address(port=taken.getsockname()[1]))).__aenter__()
    assert asyncio.all_tasks() == before
