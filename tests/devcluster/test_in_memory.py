"""The client and the embedded API server without a network between them."""

import asyncio

import pytest
from tests.support.tables import cases
from tests.support.waiting import turns, until

from bayplan.client import ApiError, Client, PatchType, TransportError
from bayplan.core.api.kinds import LEASE, NODE, POD
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load, make_client, stored
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.apiserver import ApiServer, Fault
from bayplan_devcluster.in_memory import InMemoryClient, InMemoryTransport


def pod(name, **fields):
    return as_sent(make_pod(name, **fields))[1]


@pytest.fixture
def client():
    return make_client(make_node("a", labels={"tier": "x"}), make_node("b"))


async def names(client, kind, **options):
    return [obj.metadata.name for obj in (await client.list(kind, **options)).items]


# Verbs


async def test_create_returns_the_object_with_defaults(client):
    created = await client.create(POD, pod("p"))
    assert created.metadata.uid
    assert (created.status.phase, created.spec.schedulerName) == ("Pending", "default-scheduler")
    assert created == await client.get(POD, "p")
    generated = await client.create(LEASE, {"metadata": {"generateName": "l-"}})
    assert generated.metadata.name.startswith("l-")
    assert generated.metadata.namespace == "default"
    await client.create(POD, pod("dry"), dry_run=True)
    assert await names(client, POD) == ["p"]


@cases(
    "selection, expected",
    {
        "all": ({}, ["a", "b"]),
        "labels": ({"label_selector": "tier in (x, y)"}, ["a"]),
        "no label": ({"label_selector": "!tier"}, ["b"]),
        "fields": ({"field_selector": "metadata.name!=a"}, ["b"]),
        "pages": ({"limit": 1}, ["a", "b"]),
    },
)
async def test_list_selects(client, selection, expected):
    assert await names(client, NODE, **selection) == expected


async def test_list_selects_unscheduled_pods_and_namespaces(client):
    load(client.server, make_pod("one"), make_pod("two"))
    await client.bind("default", "one", "a")
    assert await names(client, POD, field_selector="spec.nodeName=") == ["two"]
    assert await names(client, POD, namespace="elsewhere") == []


async def test_bind_assigns_the_node_once(client):
    created = await client.create(POD, pod("p") | {"metadata": {"name": "p", "annotations": {"x": "1"}}})
    await client.bind("default", "p", "a", uid=created.metadata.uid, annotations={"y": "2"})
    bound = await client.get(POD, "p")
    assert (bound.spec.nodeName, bound.metadata.annotations) == ("a", {"x": "1", "y": "2"})
    assert [(condition.type, condition.status) for condition in bound.status.conditions] == [("PodScheduled", "True")]
    with pytest.raises(ApiError, match=r'409 Conflict: .*pod p is already assigned to node "a"'):
        await client.bind("default", "p", "b")
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.bind("default", "q", "b")
    load(client.server, make_pod("r"))
    with pytest.raises(ApiError, match=r"409 Conflict: .*Precondition failed: UID"):
        await client.bind("default", "r", "b", uid="gone")


async def test_writes_check_names_and_versions(client):
    await client.create(POD, pod("p"))
    with pytest.raises(ApiError, match="409 AlreadyExists"):
        await client.create(POD, pod("p"))
    stale = await client.get(POD, "p")
    await client.patch(POD, "p", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}})
    current = await client.get(POD, "p")
    assert (current.metadata.labels, current.status.phase) == ({"a": "b"}, "Pending")
    with pytest.raises(ApiError, match="409 Conflict"):
        await client.update(POD, stale)
    current.status.phase = "Running"
    current.spec.nodeName = "a"
    updated = await client.update(POD, current, subresource="status")
    assert (updated.spec.nodeName, updated.status.phase) == (None, "Running")
    await client.delete(POD, "p", uid=updated.metadata.uid)
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.delete(POD, "p")


def condition(kind, status):
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


@cases(
    "patch_type, expected",
    {
        "strategic: by type": (PatchType.STRATEGIC, {"A": "False", "B": "True"}),
        "merge: all together": (PatchType.MERGE, {"A": "False"}),
    },
)
async def test_patch_merges_conditions(client, patch_type, expected):
    await client.create(POD, pod("p"))
    for patch in (condition("A", "True"), condition("B", "True"), condition("A", "False")):
        patched = await client.patch(POD, "p", patch, type=patch_type, subresource="status")
    assert {condition.type: condition.status for condition in patched.status.conditions} == expected


async def test_other_patches_and_eviction(client):
    patch = [{"op": "add", "path": "/metadata/labels/new", "value": "1"}]
    patched = await client.patch(NODE, "a", patch, type=PatchType.JSON)
    assert patched.metadata.labels["new"] == "1"
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}
    assert (await client.patch(NODE, "c", applied, type=PatchType.APPLY, field_manager="me")).metadata.name == "c"
    same = await client.patch(NODE, "a", {"metadata": {"labels": {"new": "1"}}})
    assert same.metadata.resourceVersion == patched.metadata.resourceVersion
    await client.create(POD, pod("p"))
    await client.evict("default", "p")
    assert await names(client, POD) == []


async def test_unknown_resource_is_not_found(client):
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.request("GET", "/apis/example.com/v1/things")


async def test_name_is_escaped_in_the_path(client):
    with pytest.raises(ApiError, match='404 NotFound: nodes "ä" not found'):
        await client.get(NODE, "ä")


# Watches


async def test_watch_shows_what_enters_and_leaves_its_scope(client):
    seen = []

    async def watch():
        async for event in client.watch(NODE, label_selector="tier=x", timeout_seconds=1):
            seen.append((event.type, event.key))
            if event.type == "DELETED":
                return

    task = asyncio.create_task(watch())
    await until(lambda: seen)
    await client.patch(NODE, "b", {"metadata": {"labels": {"tier": "x"}}})
    await client.patch(NODE, "b", {"metadata": {"labels": {"more": "1"}}})
    load(client.server, make_node("unseen"))
    await client.patch(NODE, "b", {"metadata": {"labels": {"tier": None}}})
    await asyncio.wait_for(task, 5)
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


def test_watch_ends_on_virtual_time():
    async def story():
        loop = asyncio.get_running_loop()
        client = make_client(clock=loop)
        version = (await client.list(NODE)).resource_version
        events = [event async for event in client.watch(NODE, resource_version=version, timeout_seconds=3600)]
        return {event.type for event in events}, loop.time()

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        assert runner.run(story()) == ({"BOOKMARK"}, 3600)


async def test_compaction_expires_watches_and_pages(client):
    version = (await client.list(NODE)).resource_version
    load(client.server, make_node("c"))
    client.server.store.compact()
    with pytest.raises(ApiError, match="410 Expired"):
        [event async for event in client.watch(NODE, resource_version=version)]
    pages = client.pages(NODE, limit=1)
    await anext(pages)
    load(client.server, make_node("d"))
    client.server.store.compact()
    with pytest.raises(ApiError, match="410 Expired"):
        await anext(pages)


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("broken", [False, True])
async def test_end_streams_ends_or_breaks_watches(client, broken, waiting):
    watch = client.watch(NODE)
    await anext(watch)
    await anext(watch)
    rest = asyncio.create_task(anext(watch, "the end"))
    if waiting:
        await turns()
    client.transport.end_streams(broken=broken)
    client.transport.end_streams(broken=broken)
    if broken:
        with pytest.raises(TransportError, match="broke") as caught:
            await rest
        assert caught.value.sent
    else:
        assert await rest == "the end"


async def test_watch_that_is_closed_early_is_forgotten(client):
    watch = client.watch(NODE)
    await anext(watch)
    await watch.aclose()
    assert not client.transport._streams


# The transport


async def test_requests_are_recorded(client):
    await client.create(POD, pod("p"))
    await client.bind("default", "p", "a")
    await client.patch(POD, "p", {}, subresource="status")
    await names(client, NODE, label_selector="x")
    recorded = [(sent.info.verb, sent.info.resource, sent.info.subresource) for sent in client.transport.requests]
    assert recorded == [
        ("create", "pods", ""),
        ("create", "pods", "binding"),
        ("patch", "pods", "status"),
        ("list", "nodes", ""),
    ]
    assert client.transport.sent("create", "pods")[1].document["target"]["name"] == "a"
    assert client.transport.sent("list")[0].document is None
    assert client.transport.sent("list")[0].request.params["labelSelector"] == "x"


async def test_faults_of_one_client_leave_others_alone(client):
    other = InMemoryClient(client.server)
    client.transport.faults.add(Fault(verb="create", answer=500, times=2))
    for _ in range(2):
        with pytest.raises(ApiError, match="500"):
            await client.create(POD, pod("p"))
    await client.create(POD, pod("p"))
    client.transport.faults.add(Fault(subresource="binding", drop="after"))
    with pytest.raises(TransportError, match="the server closed the connection") as caught:
        await client.bind("default", "p", "a")
    assert caught.value.sent
    assert (await other.get(POD, "p")).spec.nodeName == "a"
    client.server.faults.add(Fault(verb="watch", drop="before"))
    for each in (client, other):
        with pytest.raises(TransportError):
            await anext(each.watch(NODE))


async def test_connection_is_refused_while_unreachable():
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    client = make_client(make_node("a"), sleep=sleep)
    client.transport.reachable = False
    with pytest.raises(TransportError, match="GET /api/v1/nodes/a: connection refused") as caught:
        await client.get(NODE, "a")
    assert not caught.value.sent
    assert len(slept) == 3
    client.transport.reachable = True
    assert (await client.get(NODE, "a")).metadata.name == "a"


async def test_client_retries_when_the_server_asks_for_it(client):
    client.server.faults.add(Fault(answer=429, reason="TooManyRequests", retry_after=0, times=1))
    assert (await client.get(NODE, "a")).metadata.name == "a"
    assert len(client.transport.requests) == 2


async def test_token_authenticates():
    server = ApiServer(address=None, tokens={"secret": "someone"})
    assert (await InMemoryClient(server, token="secret").list(NODE)).items == []
    client = Client(InMemoryTransport(server))
    with pytest.raises(ApiError, match=r"401 Unauthorized.*\(sent: no token; in memory\)"):
        await client.list(NODE)


async def test_hanging_request_fails_when_the_client_closes(client):
    client.transport.faults.add(Fault(hang=True))
    request = asyncio.create_task(client.delete(NODE, "a"))
    await turns()
    assert client.transport.requests
    assert not request.done()
    await client.close()
    with pytest.raises(TransportError):
        await request
    assert [node["metadata"]["name"] for node in stored(client.server, NODE)] == ["a", "b"]


async def test_closed_client_fails(client):
    watch = client.watch(NODE)
    await anext(watch)
    await anext(watch)
    await client.close()
    with pytest.raises(TransportError):
        await anext(watch)
    with pytest.raises(TransportError, match="the client is closed"):
        await client.delete(NODE, "a")
