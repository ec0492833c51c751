"""Mutated objects of every served kind: whatever a request carries, the server's own code doesn't fail.

An internal error is logged with a traceback, so these tests check the log. The only other 500 responses are those of
kube-apiserver, such as the one for a patch without merge keys.
"""

import asyncio
import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from valid_objects import VALID_OBJECTS

from bayplan.devcluster.apiserver import ApiServer, HttpRequest
from bayplan.devcluster.apiserver.api_types import fields_of, table
from bayplan.devcluster.apiserver.kinds.catalog import catalog

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml")
TEXTS = (
    "", "a", "a/b", "-1", "0", "50%", "150%", "a b", "é", "10.0.0.1", "10.0.0.0/8", "::1", "*.a.b", "x" * 300, "In",
    "1Gi", "1e30", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "NodePort", "Recreate", "All", "@daily", "\0",
)  # fmt: skip
NUMBERS = (0, 1, -1, 5, 65536, 2**31 - 1, -(2**31), 2**63 - 1, 1.5)
VALUES = st.sampled_from((*TEXTS, *NUMBERS, None, True, False, [], {}, [None], [{}], {"a": None}, {"": ""}, ["a", "a"]))


KINDS = [resource.kind for resource in catalog(alpha=True) if not resource.read_only]
FROM_KUBERNETES = (
    "does not contain declared merge key",
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint",
    "failed to create typed patch object",
    "failed to convert the applied configuration",
)
"""The errors that kube-apiserver has 500 for, too."""


def places(value, path=()):
    """The paths of all values inside a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def type_at(kind, path):
    """The type of the value at a path, "" if it is unknown."""
    name = kind
    for key in path:
        if (isinstance(key, int) and name.startswith("[]")) or name.startswith("{}"):
            name = name[2:]
        elif name in table() and key in fields_of(name):
            name = fields_of(name)[key].type
        else:
            return ""
    return name


@st.composite
def mutated(draw, kind):
    """A valid object of a kind with up to three mutations: a value replaced, removed, or added in a known field."""
    document = copy.deepcopy(VALID_OBJECTS[kind.kind])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(document))))
        if not path:
            continue
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        name = type_at(kind.model, path)
        action = draw(st.sampled_from(("replace", "remove", "add")))
        known = sorted(fields_of(name)) if name in table() else []
        if action == "add" and known and isinstance(parent[path[-1]], dict):
            parent[path[-1]][draw(st.sampled_from(known))] = copy.deepcopy(draw(VALUES))
        elif action == "remove" and isinstance(parent, dict):
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(draw(VALUES))
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
async def test_there_is_a_valid_object_of_every_kind(kind):
    server = ApiServer(listen=False, alpha=True)
    response = await send(server, "POST", kind.path("default"), VALID_OBJECTS[kind.kind])

    assert response.status == 201, response.body


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_mutated_objects_cause_no_internal_error(caplog, data):
    kind = data.draw(st.sampled_from(KINDS), label="kind")
    document = data.draw(mutated(kind), label="document")
    patch = data.draw(st.sampled_from(PATCHES), label="patch")
    caplog.clear()
    server = ApiServer(listen=False, alpha=True)
    errors = asyncio.run(exercise(server, kind, document, VALID_OBJECTS[kind.kind], patch))

    assert [record.message for record in caplog.records if record.exc_info] == []
    assert [error for error in errors if not any(known in error["message"] for known in FROM_KUBERNETES)] == []
