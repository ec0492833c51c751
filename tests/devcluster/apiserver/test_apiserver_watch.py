"""Paged lists, and watches: their start, their events and their end."""

import asyncio
import json

import aiohttp
import pytest

from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.endpoints import watches

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


async def fill(api, make_config_map, count, **metadata):
    for number in range(count):
        await api.create(MAPS, make_config_map(f"m{number}", **metadata))


def seen(event):
    metadata = event["object"]["metadata"]
    return event["type"], metadata.get("name", "")


async def test_continue_token_returns_the_next_page(api, make_config_map):
    await fill(api, make_config_map, 5)
    names, token = [], ""
    for left in (3, 1, None):
        page = await api.get(f"{MAPS}?limit=2&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"].get("remainingItemCount") == left
        token = page["metadata"].get("continue", "")
    assert names == [f"m{number}" for number in range(5)]
    assert token == ""


async def test_page_of_a_selection_has_no_token_without_further_matches(api, make_config_map):
    await fill(api, make_config_map, 2, labels={"a": "b"})
    await api.create(MAPS, make_config_map("other"))
    page = await api.get(f"{MAPS}?limit=2&labelSelector=a%3Db")
    assert len(page["items"]) == 2
    assert "continue" not in page["metadata"]


async def test_continue_token_from_before_a_compaction_expires(api, server, make_config_map):
    await fill(api, make_config_map, 3)
    token = (await api.get(f"{MAPS}?limit=1"))["metadata"]["continue"]
    await api.delete(f"{MAPS}/m2")
    server.store.compact()
    assert (await api.get(f"{MAPS}?limit=1&continue={token}", status=410))["reason"] == "Expired"


async def test_watch_resumes_from_a_version(api, make_config_map):
    await fill(api, make_config_map, 2)
    version = (await api.get(MAPS))["metadata"]["resourceVersion"]
    await api.patch(f"{MAPS}/m0", {"data": {"b": "2"}})
    await api.delete(f"{MAPS}/m1")
    async with api.watch(f"{MAPS}?watch=1&resourceVersion={version}") as following:
        assert [seen(await following()), seen(await following())] == [("MODIFIED", "m0"), ("DELETED", "m1")]
        await api.create(MAPS, make_config_map("new"))
        assert seen(await following()) == ("ADDED", "new")


async def test_deletion_event_has_its_own_version(api, make_config_map):
    created = await api.create(MAPS, make_config_map())
    version = created["metadata"]["resourceVersion"]
    async with api.watch(f"{MAPS}?watch=1&resourceVersion={version}") as following:
        await api.delete(f"{MAPS}/m")
        event = await following()
    assert int(event["object"]["metadata"]["resourceVersion"]) == int(version) + 1


async def test_watch_from_a_compacted_version_gets_an_error(api, server, make_config_map):
    await fill(api, make_config_map, 2)
    server.store.compact()
    async with api.watch(f"{MAPS}?watch=1&resourceVersion=1") as following:
        event = await following()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await following() is None


async def test_history_is_bounded(make_config_map):
    async with ApiServer(history=4) as server, aiohttp.ClientSession(server.url) as session:
        for number in range(20):
            await session.post(MAPS, json=make_config_map(f"m{number}"))
        collection = server.store.collection("configmaps")
        assert len(collection.since(0)) <= 5
        assert collection.compacted > 0


async def test_watch_by_label_adds_new_matches_and_deletes_lost_ones(api, make_config_map):
    await api.create(MAPS, make_config_map("in", labels={"a": "b"}))
    await api.create(MAPS, make_config_map("out"))
    version = (await api.get(MAPS))["metadata"]["resourceVersion"]
    async with api.watch(f"{MAPS}?watch=1&labelSelector=a%3Db&resourceVersion={version}") as following:
        await api.patch(f"{MAPS}/out", {"metadata": {"labels": {"a": "b"}}})
        left = await api.patch(f"{MAPS}/in", {"metadata": {"labels": {"a": "c"}}})
        await api.patch(f"{MAPS}/in", {"data": {"unseen": "1"}})
        await api.patch(f"{MAPS}/out", {"data": {"b": "2"}})
        assert seen(await following()) == ("ADDED", "out")
        deleted = await following()
        assert seen(deleted) == ("DELETED", "in")
        assert deleted["object"]["metadata"]["labels"] == {"a": "b"}
        assert deleted["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        assert seen(await following()) == ("MODIFIED", "out")


async def test_watch_of_pending_pods_deletes_a_pod_when_it_is_bound(api, make_pod):
    async with api.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D") as following:
        await api.create(PODS, make_pod())
        assert seen(await following()) == ("ADDED", "p")
        await api.create(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
        assert seen(await following()) == ("DELETED", "p")


async def test_initial_events_end_with_a_bookmark(api, make_config_map):
    await fill(api, make_config_map, 1)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with api.watch(f"{MAPS}?{query}") as following:
        assert seen(await following()) == ("ADDED", "m0")
        bookmark = await following()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_watch_sends_bookmarks_on_request(api, server, monkeypatch):
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.05)
    version = server.store.version
    async with api.watch(f"{MAPS}?watch=1&resourceVersion={version}&allowWatchBookmarks=1") as following:
        await api.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        while (event := await following())["object"]["metadata"]["resourceVersion"] == str(version):
            pass
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == str(server.store.version)


async def test_watches_share_the_encoded_event(api, server, make_config_map):
    created = await api.create(MAPS, make_config_map())
    path = f"{MAPS}?watch=1&resourceVersion={created['metadata']['resourceVersion']}"
    async with api.watch(path) as one, api.watch(path) as other:
        await api.patch(f"{MAPS}/m", {"data": {"b": "2"}})
        assert await one() == await other()
    change = server.store.collection("configmaps").since(int(created["metadata"]["resourceVersion"]))[0]
    assert change.entry.raw[1:] in change.line


async def test_events_can_be_watched_in_both_versions(api):
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    body = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reason": "R",
        "action": "A",
        "type": "Normal",
        "note": "note",
        "reportingController": "c",
        "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    core = "/api/v1/namespaces/default/events?watch=1"
    async with api.watch(f"{events}?watch=1") as new, api.watch(core) as old:
        await api.create(events, body)
        assert (await new())["object"]["note"] == "note"
        assert (await old())["object"]["message"] == "note"
    found = await api.get("/api/v1/events?fieldSelector=involvedObject.name%3Dp,reportingComponent%3Dc")
    assert [item["metadata"]["name"] for item in found["items"]] == ["e"]


async def test_tables_can_be_watched(api, make_config_map):
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    await fill(api, make_config_map, 2)
    async with api.session.get(f"{MAPS}?watch=1&timeoutSeconds=1", headers=accept) as response:
        lines = [line async for line in response.content]
    tables = [json.loads(line)["object"] for line in lines]
    assert [len(table["columnDefinitions"]) for table in tables] == [3, 0]
    assert [table["rows"][0]["cells"][:2] for table in tables] == [["m0", 1], ["m1", 1]]


async def test_stop_ends_watches_at_once():
    server = ApiServer()
    await server.start()
    async with aiohttp.ClientSession(server.url) as session, session.get(f"{MAPS}?watch=1") as response:
        async with asyncio.timeout(3):
            await server.stop()
            with pytest.raises(aiohttp.ClientError):
                await response.read()
