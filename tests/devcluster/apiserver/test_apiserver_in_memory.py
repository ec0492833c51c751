"""A server that does not listen: requests go through `ApiServer.handle`."""

import json

import pytest

from bayplan_devcluster.apiserver import ConnectionDropped, Fault, HttpRequest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"Content-Type": "application/json"}


async def create(server, obj):
    return await server.handle(HttpRequest("POST", CONFIG_MAPS, headers=JSON, body=json.dumps(obj).encode()))


async def test_request_in_memory_is_answered_with_the_object(in_memory, make_config_map):
    created = await create(in_memory, make_config_map())
    found = await in_memory.handle(HttpRequest("GET", f"{CONFIG_MAPS}/m"))

    assert (created.status, found.status) == (201, 200)
    assert json.loads(found.body)["data"] == {"a": "1"}
    assert found.body == created.body


async def test_error_in_memory_is_answered_with_a_status(in_memory):
    response = await in_memory.handle(HttpRequest("GET", f"{CONFIG_MAPS}/none"))

    assert response.status == 404
    assert json.loads(response.body)["reason"] == "NotFound"


async def test_watch_in_memory_streams_events(in_memory, make_config_map):
    query = {"watch": "1", "resourceVersion": str(in_memory.store.version)}
    response = await in_memory.handle(HttpRequest("GET", CONFIG_MAPS, query))
    await create(in_memory, make_config_map())

    event = json.loads(await anext(response.stream))
    await response.stream.aclose()

    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "m")


async def test_warnings_and_delays_in_memory_are_headers(in_memory, make_config_map):
    warned = await create(in_memory, {**make_config_map(), "unknown": 1})
    in_memory.faults.add(Fault(verb="get", answer=429, reason="TooManyRequests", retry_after=3))
    limited = await in_memory.handle(HttpRequest("GET", f"{CONFIG_MAPS}/m"))

    assert ("Warning", '299 - "unknown field \\"unknown\\""') in warned.headers()
    assert ("Retry-After", "3") in limited.headers()


async def test_dropped_connection_in_memory_raises_after_the_write(in_memory, make_config_map):
    in_memory.faults.add(Fault(verb="create", drop="after"))
    with pytest.raises(ConnectionDropped):
        await create(in_memory, make_config_map())

    assert (await in_memory.handle(HttpRequest("GET", f"{CONFIG_MAPS}/m"))).status == 200
