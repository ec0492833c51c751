"""The state of an extender that watches the cluster, also with late kinds and invalid objects."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from asking import cluster, node, pod, serving
from tests.support.tables import cases
from tests.support.waiting import until

from bayplan import Plugin
from bayplan.core.api.kinds import NODE, POD, SERVICE
from bayplan.core.cluster.state import ClusterState
from bayplan.running.extender.watched_cluster import WatchedCluster
from bayplan.testing.builders import make_service
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import Fault

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
        await client.delete(POD, "waiting", "default", grace_period_seconds=0)
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

    client = cluster("a")
    load(client.server, make_service("web", {}))
    async with serving(Serves, client=client) as extender:
        assert (await extender.filter("a"))["FailedNodes"] == {"a": "default/kubernetes, default/web"}


async def test_a_missing_kind_is_watched_once_it_exists(caplog):
    client = cluster("a")
    client.server.faults.add(Fault(verb="list", resource="services", answer=404, reason="NotFound", times=3))
    async with watched(client, SERVICE) as state:
        load(client.server, make_service("web", {}))
        await until(lambda: "default/web" in state.objects[SERVICE])
        await client.delete(SERVICE, "web", "default")
        await until(lambda: "default/web" not in state.objects[SERVICE])
    assert "the API server has no services (v1)" in caplog.text


@cases(
    "kind, broken, message",
    {
        "a node": (NODE, node("b", spec=3), "ignoring node b, which cannot be decoded"),
        "a node's quantities": (
            NODE,
            node("b", status={"allocatable": {"cpu": "x"}}),
            "ignoring an invalid version of node b",
        ),
        "a pod": (POD, pod(containers=3), "ignoring pod default/web, which cannot be decoded"),
        "a pod's requests": (POD, pod(cpu="x", on="a"), "ignoring pod default/web, which cannot be decoded"),
    },
)
async def test_invalid_objects_are_ignored(kind, broken, message, caplog):
    client = cluster("a")
    client.server.store.put(kind.resource, broken, {"spec.nodeName": ""})
    async with watched(client) as state:
        assert state.table.live_count == 1
        assert state.pod_count == 0
    assert message in caplog.text
