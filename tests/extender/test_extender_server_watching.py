"""The state of an extender that watches the cluster, also with late kinds and invalid objects."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from asking import cluster, node, pod, serving

from bayplan import Plugin
from bayplan.api.kinds import NODE, POD, SERVICE
from bayplan.client import ApiError
from bayplan.cluster.state import ClusterState
from bayplan.extender.watched_cluster import WatchedCluster

pytestmark = pytest.mark.feature("Serving as an extender: watching")


@asynccontextmanager
async def watched(client, *kinds):
    """The state of an extender that watches."""
    state = ClusterState()
    watching = WatchedCluster(client, state, kinds, look_for_kind=0)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watching.run())
        await watching.synced.wait()
        yield state
        running.cancel()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the state has no event
            await asyncio.sleep(0)


async def test_nodes_and_pods_are_added_updated_and_deleted():
    client = cluster("a", "b", pods=(pod("web", on="a"), pod("waiting")))
    async with watched(client) as state:
        assert state.table.live_count == 2
        assert {key: each.node_name for key, each in state.objects[POD].items()} == {
            "default/web": "a",
            "default/waiting": "",
        }
        assert set(state.objects[NODE]) == {"a", "b"}
        assert state.pod_count == 1
        await client.bind("default", "waiting", "b")
        await until(lambda: state.pod_count == 2)
        await client.patch(NODE, "b", {"spec": {"unschedulable": True}})
        await until(lambda: bool(state.nodes.unschedulable.any()))
        await client.patch(POD, "web", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await until(lambda: state.pod_count == 1)
        await client.delete(POD, "waiting", "default")
        await client.delete(NODE, "b")
        await until(lambda: state.table.live_count == 1 and state.pod_count == 0)
        assert "b" not in state.objects[NODE]
        assert "default/waiting" not in state.objects[POD]


async def test_kinds_that_plugins_use_are_watched():
    class Serves(Plugin):
        name = "Serves"

        def __init__(self, handle):
            self._services = handle.objects(SERVICE)

        def filter(self, cycle, pod, node):
            return ", ".join(self._services) or None

    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}}
    client = cluster("a")
    await client.create(SERVICE, service)
    async with serving(Serves, client=client) as extender:
        assert (await extender.filter("a"))["FailedNodes"] == {"a": "default/web"}


async def test_a_missing_kind_is_watched_once_it_exists(caplog):
    client = cluster("a")
    client.fail("list", SERVICE, ApiError(404, "NotFound"), times=3)
    async with watched(client, SERVICE) as state:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}}
        await client.create(SERVICE, service)
        await until(lambda: "default/web" in state.objects[SERVICE])
        await client.delete(SERVICE, "web", "default")
        await until(lambda: not state.objects[SERVICE])
    assert "the API server has no services (v1)" in caplog.text


@pytest.mark.parametrize(
    ("kind", "broken", "message"),
    [
        pytest.param(NODE, node("b", spec=3), "cannot decode node b, keeping its last version", id="a node"),
        pytest.param(
            NODE,
            node("b", status={"allocatable": {"cpu": "x"}}),
            "invalid node b, keeping its last version",
            id="a node's quantities",
        ),
        pytest.param(POD, pod(containers=3), "cannot decode pod default/web, keeping its last version", id="a pod"),
        pytest.param(
            POD, pod(cpu="x", on="a"), "cannot decode pod default/web, keeping its last version", id="a pod's requests"
        ),
    ],
)
async def test_invalid_objects_are_ignored(kind, broken, message, caplog):
    client = cluster("a")
    await client.request("POST", kind.path("default"), body=json.dumps(broken).encode())
    async with watched(client) as state:
        assert state.table.live_count == 1
        assert state.pod_count == 0
    assert message in caplog.text
