"""Mutated objects of every served kind: no request makes the server's own code fail.

An internal error is logged with a traceback, so these tests check the log. The only other 500 responses are those of
kube-apiserver, such as the one for a patch without merge keys.
"""

import asyncio
import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import FROM_KUBERNETES, KINDS, PATCHES, VALUES, known_fields, mutate, places, serving
from valid_objects import VALID_OBJECTS

from bayplan_devcluster.apiserver import HttpRequest

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@st.composite
def mutated(draw, kind):
    """A valid object of a kind with up to three mutations: a value replaced, removed, or added in a known field."""
    document = copy.deepcopy(VALID_OBJECTS[kind.kind])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(document))))
        if not path:
            continue
        action = draw(st.sampled_from(("replace", "remove", "add")))
        fields = known_fields(kind, path)
        field = draw(st.sampled_from(fields)) if action == "add" and fields else None
        value = None if action == "remove" else copy.deepcopy(draw(st.sampled_from(VALUES)))
        mutate(document, path, action, field, value)
    return document


async def send(server, method, path, body=None, content_type="application/json", **query):
    data = b"" if body is None else json.dumps(body).encode()
    accept = TABLE if method == "GET" else {}
    return await server.handle(HttpRequest(method, path, query, {"Content-Type": content_type, **accept}, data))


async def exercise(server, kind, document, valid, patch):
    """Creates, updates, patches, lists and deletes."""
    name = valid.get("metadata", {}).get("name", "a")
    named = {"metadata": {"name": name}}
    collection, single = kind.path("default"), kind.path("default", name)
    applied = {"apiVersion": kind.api_version, "kind": kind.kind, **document} if "apply" in patch else document
    query = {"fieldManager": "test"} if "apply" in patch else {}
    responses = [
        await send(server, "POST", collection, document),
        await send(server, "POST", collection, {**valid, **named}),
        await send(server, "PUT", single, document),
        await send(server, "PATCH", single, applied, patch, **query),
        await send(server, "PATCH", f"{single}/status", applied, patch, **query),
        await send(server, "GET", collection),
        await send(server, "DELETE", collection),
    ]
    return [json.loads(response.body) for response in responses if response.status == 500]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}/{kind.version}")
async def test_every_kind_has_a_valid_object(kind):
    server = serving(kind)
    response = await send(server, "POST", kind.path("default"), VALID_OBJECTS[kind.kind])

    assert response.status == 201, response.body


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_mutated_objects_cause_no_internal_error(caplog, data):
    kind = data.draw(st.sampled_from(KINDS), label="kind")
    document = data.draw(mutated(kind), label="document")
    patch = data.draw(st.sampled_from(PATCHES), label="patch")
    caplog.clear()
    server = serving(kind)
    errors = asyncio.run(exercise(server, kind, document, VALID_OBJECTS[kind.kind], patch))

    assert [record.message for record in caplog.records if record.exc_info] == []
    assert [error for error in errors if not any(known in error["message"] for known in FROM_KUBERNETES)] == []
