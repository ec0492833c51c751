from __future__ import annotations

import asyncio

import pytest

from bayplan.api.kinds import LEASE, NODE, POD
from bayplan.client import ApiError, InProcessClient, PatchType, TransportError

NODE_A = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"tier": "x"}}}


def pod(name, **metadata):
    return {"metadata": {"name": name, "namespace": "n", **metadata}, "spec": {"containers": []}}


@pytest.fixture
def client():
    return InProcessClient([NODE_A, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}])


async def names(client, kind, **options):
    return [obj.metadata.name for obj in (await client.list(kind, **options)).items]


async def test_objects_get_what_a_server_gives_them(client):
    created = await client.create(POD, pod("p"))
    assert (created.metadata.uid, created.metadata.resourceVersion) == ("00000000-0000-0000-0000-000000000003", "4")
    assert (created.status.phase, created.spec.schedulerName) == ("Pending", "default-scheduler")
    assert created == await client.get(POD, "p", "n")
    generated = await client.create(LEASE, {"metadata": {"generateName": "l-"}})
    assert (generated.metadata.name, generated.metadata.namespace) == ("l-00004", "default")
    await client.create(POD, pod("dry"), dry_run=True)
    assert await names(client, POD) == ["p"]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param({}, ["a", "b"], id="all"),
        pytest.param({"label_selector": "tier in (x, y)"}, ["a"], id="labels"),
        pytest.param({"label_selector": "!tier"}, ["b"], id="no label"),
        pytest.param({"field_selector": "metadata.name!=a"}, ["b"], id="fields"),
        pytest.param({"limit": 1}, ["a", "b"], id="pages"),
    ],
)
async def test_selections(client, selection, expected):
    assert await names(client, NODE, **selection) == expected


async def test_unscheduled_pods_by_field(client):
    await client.create(POD, pod("one"))
    await client.create(POD, pod("two"))
    await client.bind("n", "one", "a")
    assert await names(client, POD, field_selector="spec.nodeName=") == ["two"]
    assert await names(client, POD, namespace="elsewhere") == []


async def test_binding(client):
    created = await client.create(POD, pod("p", annotations={"x": "1"}))
    await client.bind("n", "p", "a", uid=created.metadata.uid, annotations={"y": "2"})
    bound = await client.get(POD, "p", "n")
    assert (bound.spec.nodeName, bound.metadata.annotations) == ("a", {"x": "1", "y": "2"})
    assert [(condition.type, condition.status) for condition in bound.status.conditions] == [("PodScheduled", "True")]
    with pytest.raises(ApiError, match='409 Conflict: pods "p" is already assigned to node "a"'):
        await client.bind("n", "p", "b")
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.bind("n", "q", "b")
    await client.create(POD, pod("r"))
    with pytest.raises(ApiError, match=r"409 Conflict: .* has another uid"):
        await client.bind("n", "r", "b", uid="gone")


async def test_writing(client):
    await client.create(POD, pod("p"))
    with pytest.raises(ApiError, match="409 AlreadyExists"):
        await client.create(POD, pod("p"))
    stale = await client.get(POD, "p", "n")
    await client.patch(POD, "p", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}}, "n")
    current = await client.get(POD, "p", "n")
    assert (current.metadata.labels, current.status.phase) == ({"a": "b"}, "Pending")
    with pytest.raises(ApiError, match="409 Conflict"):
        await client.update(POD, stale)
    current.status.phase = "Running"
    current.metadata.labels = {}
    updated = await client.update(POD, current, subresource="status")
    assert (updated.metadata.labels, updated.status.phase) == ({"a": "b"}, "Running")
    await client.delete(POD, "p", "n", uid=updated.metadata.uid)
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.delete(POD, "p", "n")


def condition(kind, status):
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


@pytest.mark.parametrize(
    ("patch_type", "expected"),
    [
        pytest.param(PatchType.STRATEGIC, [("A", "False"), ("B", "True")], id="strategic: by type"),
        pytest.param(PatchType.MERGE, [("A", "False")], id="merge: all together"),
    ],
)
async def test_conditions(client, patch_type, expected):
    await client.create(POD, pod("p"))
    for patch in (condition("A", "True"), condition("B", "True"), condition("A", "False")):
        patched = await client.patch(POD, "p", patch, "n", type=patch_type, subresource="status")
    assert [(condition.type, condition.status) for condition in patched.status.conditions] == expected


async def test_other_patches(client):
    patch = [{"op": "add", "path": "/metadata/labels/new", "value": "1"}]
    patched = await client.patch(NODE, "a", patch, type=PatchType.JSON)
    assert patched.metadata.labels == {"tier": "x", "new": "1"}
    applied = await client.patch(NODE, "c", {"metadata": {}}, type=PatchType.APPLY, field_manager="me")
    assert applied.metadata.name == "c"
    same = await client.patch(NODE, "a", {"metadata": {"labels": {"new": "1"}}})
    assert same.metadata.resourceVersion == patched.metadata.resourceVersion
    await client.create(POD, pod("p"))
    await client.evict("n", "p")
    assert await names(client, POD) == []


async def test_a_watch_sees_what_happens_in_its_scope(client):
    seen = []

    async def watch():
        async for event in client.watch(NODE, label_selector="tier=x", timeout_seconds=1):
            seen.append((event.type, event.key))
            if event.type == "DELETED":
                return

    task = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    await client.patch(NODE, "b", {"metadata": {"labels": {"tier": "x"}}})
    await client.patch(NODE, "b", {"metadata": {"labels": {"more": "1"}}})
    await client.create(NODE, {"metadata": {"name": "unseen"}})
    await client.patch(NODE, "b", {"metadata": {"labels": {"tier": None}}})
    await asyncio.wait_for(task, 5)
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_watches_end(client):
    version = (await client.list(NODE)).resource_version
    events = [event async for event in client.watch(NODE, resource_version=version, timeout_seconds=0)]
    assert [(event.type, event.resource_version) for event in events] == [("BOOKMARK", version)]
    await client.create(NODE, {"metadata": {"name": "c"}})
    client.compact()
    with pytest.raises(ApiError, match="410 Expired"):
        [event async for event in client.watch(NODE, resource_version=version)]
    pages = client.pages(NODE, limit=1)
    await anext(pages)
    client.compact()
    with pytest.raises(ApiError, match="410 Expired"):
        await anext(pages)


async def test_requests_are_remembered(client):
    await client.create(POD, pod("p"))
    await client.bind("n", "p", "a")
    await client.patch(POD, "p", {}, "n", subresource="status")
    await names(client, NODE, label_selector="x")
    assert [(request.verb, request.kind, request.namespace, request.name) for request in client.requests] == [
        ("create", POD, "n", None),
        ("bind", POD, "n", "p"),
        ("patch", POD, "n", "p"),
        ("list", NODE, None, None),
    ]
    assert client.requests[1].document["target"]["name"] == "a"
    assert client.requests[2].subresource == "status"
    assert client.requests[3].params["labelSelector"] == "x"


async def test_requests_can_be_made_to_fail(client):
    lost = TransportError("lost", sent=True)
    client.fail("create", POD, ApiError(500), times=2)
    client.fail("bind", None, lost, name="p", carried_out=True)
    for _ in range(2):
        with pytest.raises(ApiError, match="500"):
            await client.create(POD, pod("p"))
    await client.create(POD, pod("p"))
    with pytest.raises(TransportError):
        await client.bind("n", "p", "a")
    assert (await client.get(POD, "p", "n")).spec.nodeName == "a"
    client.fail("watch", NODE, lost)
    with pytest.raises(TransportError):
        await anext(client.watch(NODE))
    client.fail("", None, lost, times=9)
    client.recover()
    await names(client, NODE)


async def test_a_resource_that_there_is_not(client):
    with pytest.raises(ApiError, match="404 NotFound"):
        await client.request("GET", "/apis/example.com/v1/things")


async def test_a_closed_client(client):
    watch = client.watch(NODE)
    await anext(watch)
    await anext(watch)
    await client.close()
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    with pytest.raises(TransportError):
        await client.list(NODE)
