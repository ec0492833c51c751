"""The verb bind."""

import asyncio

import pytest
from asking import cluster, no_c, pod, serving
from tests.support.tables import cases

from bayplan import SKIP, Plugin
from bayplan.core.api.kinds import CORE_EVENT, POD
from bayplan.testing.in_memory import load, stored
from bayplan_devcluster.apiserver import Fault

pytestmark = pytest.mark.feature("Serving as an extender: bind")

ARGS = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid-web", "Node": "a"}
BINDING = "binding default/web to a: "


class Labels(Plugin):
    """Records the node, and skips."""

    name = "Labels"
    seen: list[str]

    def __init__(self):
        type(self).seen = []

    async def bind(self, cycle, pod, node_name):
        self.seen.append(f"bind {pod.key} to {node_name}")
        await asyncio.sleep(0)
        return SKIP

    def post_bind(self, cycle, pod, node_name):
        self.seen.append(f"bound {pod.key} to {node_name}")


class Refuses(Plugin):
    name = "Refuses"

    def bind(self, cycle, pod, node_name):
        return "not this one"


class Breaks(Plugin):
    name = "Breaks"

    def bind(self, cycle, pod, node_name):
        raise ValueError("no such rack")

    def post_bind(self, cycle, pod, node_name):
        raise RuntimeError


@pytest.fixture
def client():
    return cluster("a", pods=(pod(),))


async def bound_to(client):
    return (await client.get(POD, "web", "default")).spec.nodeName


@cases("plugin", {"by the default binder": no_c, "by the next after one that skips": Labels})
async def test_a_pod_is_bound(client, plugin):
    async with serving(plugin, client=client) as extender:
        assert await extender.ask("bind", **ARGS) == {"Error": ""}
        assert await bound_to(client) == "a"
    if plugin is Labels:
        assert Labels.seen == ["bind default/web to a", "bound default/web to a"]


async def test_a_repeated_request_succeeds_again(client):
    async with serving(no_c, client=client) as extender:
        for _ in range(2):
            assert await extender.ask("bind", **ARGS) == {"Error": ""}
        answer = await extender.ask("bind", **ARGS | {"Node": "b"})
    why = 'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "a"'
    assert answer["Error"] == f'binding default/web to b: running Bind plugin "DefaultBinder": {why}'


async def test_an_unknown_pod_is_read():
    client = cluster("a")
    client.server.faults.add(Fault(verb="list", resource="pods", drop="before"))
    async with serving(no_c, client=client, synced=False) as extender:
        load(client.server, pod())
        assert await extender.ask("bind", **ARGS) == {"Error": ""}
        assert await bound_to(client) == "a"


async def test_after_a_lost_response_the_pod_is_read(client):
    client.server.faults.add(Fault(subresource="binding", drop="after", times=1))
    async with serving(no_c, client=client) as extender:
        assert await extender.ask("bind", **ARGS) == {"Error": ""}


@cases(
    "failure, error",
    {
        "forbidden": (
            {"answer": 403, "reason": "Forbidden", "message": "you may not"},
            'running Bind plugin "DefaultBinder": you may not',
        ),
        "no response": (
            {"drop": "before"},
            (
                'running Bind plugin "DefaultBinder": POST /api/v1/namespaces/default/pods/web/binding: '
                "the server closed the connection"
            ),
        ),
    },
)
async def test_errors_of_the_api_server(client, failure, error):
    client.server.faults.add(Fault(subresource="binding", **failure))
    async with serving(no_c, client=client) as extender:
        assert await extender.ask("bind", **ARGS) == {"Error": BINDING + error}
    assert await bound_to(client) is None


@cases(
    "plugin, args, error",
    {
        "no such pod": (no_c, {"PodName": "gone"}, 'pods "gone" not found'),
        "another pod": (no_c, {"PodUID": "other"}, "pod default/web has uid uid-web, not other"),
        "no node": (no_c, {"Node": ""}, "the request has no Node"),
        "no name": (no_c, {"PodName": ""}, "the request has no PodName"),
        "no namespace": (no_c, {"PodNamespace": None}, "the request has no PodNamespace"),
        "a path": (no_c, {"PodName": "../../nodes"}, "is not a valid name of an object"),
        "wrong type": (no_c, {"PodName": 1}, "PodName: Expected `str`, got `int`"),
        "a plugin that rejects": (Refuses, {}, "plugin Refuses: not this one"),
        "a plugin that fails": (Breaks, {}, 'running Bind plugin "Breaks": ValueError: no such rack'),
    },
)
async def test_errors_are_in_the_response(client, plugin, args, error):
    async with serving(plugin, client=client) as extender:
        answer = await extender.ask("bind", **ARGS | args)
    assert error in answer["Error"]
    assert await bound_to(client) is None


async def test_a_failed_post_bind_is_only_logged(client, caplog):
    class Afterwards(Plugin):
        name = "Afterwards"

        def bind(self, cycle, pod, node_name):
            return SKIP

        def post_bind(self, cycle, pod, node_name):
            raise RuntimeError("too late")

    async with serving(Afterwards, client=client) as extender:
        assert await extender.ask("bind", **ARGS) == {"Error": ""}
    assert (
        "plugin Afterwards failed in PostBind: RuntimeError: too late (pod default/web, which is bound)" in caplog.text
    )


async def test_events_are_written_before_the_extender_ends(client):
    class Tells(Plugin):
        name = "Tells"

        def __init__(self, handle):
            self._handle = handle

        def bind(self, cycle, pod, node_name):
            self._handle.record(pod, "Normal", "Placed", "Binding", f"has a place on {node_name}")
            return SKIP

    async with serving(Tells, client=client) as extender:
        assert await extender.ask("bind", **ARGS) == {"Error": ""}
    notes = [event["message"] for event in stored(client.server, CORE_EVENT)]
    assert notes == ["has a place on a"]


async def test_binding_requires_a_connection():
    async with serving(no_c) as extender:
        assert "start it with --kubeconfig FILE or --watch" in (await extender.ask("bind", **ARGS))["Error"]
