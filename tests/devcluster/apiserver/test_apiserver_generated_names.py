"""Names that the server generates: those that are taken are not used. Mirrors createWithGenerateNameRetry."""

import random

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
EVENT = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reason": "r",
    "action": "a",
    "type": "Normal",
    "reportingController": "c",
    "reportingInstance": "i",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
}


class Suffixes(random.Random):
    """Generates names with these suffixes."""

    def __init__(self, *suffixes):
        super().__init__(0)
        self.remaining = list(suffixes)

    def choices(self, *arguments, **options):
        return self.remaining.pop(0)


@pytest.mark.parametrize(
    ("suffixes", "name"),
    [
        pytest.param(["44444"], "m-44444", id="first"),
        pytest.param(["taken", "44444", "55555"], "m-44444", id="second"),
        pytest.param([*["taken"] * 7, "44444"], "m-44444", id="eighth"),
    ],
)
async def test_taken_names_are_not_used(client, in_memory, suffixes, name):
    await client.create(MAPS, {"metadata": {"name": "m-taken"}})
    in_memory.storage.random = Suffixes(*suffixes)
    created = await client.create(MAPS, {"metadata": {"generateName": "m-"}})
    assert created["metadata"]["name"] == name


async def test_names_are_taken_by_kind_and_namespace(client, in_memory):
    await client.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await client.create(MAPS.replace("default", "other"), {"metadata": {"name": "m-taken"}})
    await client.create(LEASES, {"metadata": {"name": "m-taken"}, "spec": {}})
    in_memory.storage.random = Suffixes("taken")
    assert (await client.create(MAPS, {"metadata": {"generateName": "m-"}}))["metadata"]["name"] == "m-taken"


@pytest.mark.parametrize(
    ("path", "spec", "qualified", "details"),
    [
        pytest.param(MAPS, {}, "configmaps", {"kind": "configmaps"}, id="core"),
        pytest.param(
            LEASES,
            {"spec": {}},
            "leases.coordination.k8s.io",
            {"group": "coordination.k8s.io", "kind": "leases"},
            id="group",
        ),
        pytest.param(EVENTS, EVENT, "events", {"kind": "events"}, id="stored in another group"),
    ],
)
@pytest.mark.parametrize("finalizers", [[], ["a/b"]], ids=["taken", "taken by an object that is being deleted"])
async def test_eighth_taken_name_is_a_conflict(client, in_memory, path, spec, qualified, details, finalizers):
    await client.create(path, {"metadata": {"name": "m-taken", "finalizers": finalizers}, **spec})
    if finalizers:
        await client.delete(f"{path}/m-taken")
    in_memory.storage.random = Suffixes(*["taken"] * 8, "44444")
    answer = await client.create(path, {"metadata": {"generateName": "m-"}, **spec}, status=409)
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'{"object is being deleted: " if finalizers else ""}{qualified} "m-taken" already exists, '
        "the server was not able to generate a unique name for the object",
        "reason": "AlreadyExists",
        "details": {"name": "m-taken", **details, "retryAfterSeconds": 1},
        "code": 409,
    }
    assert in_memory.storage.random.remaining == ["44444"]


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        pytest.param({}, "already exists", id="none"),
        pytest.param({"generateName": "m-"}, "not able to generate a unique name for the object", id="unused"),
    ],
)
async def test_given_name_is_not_replaced(client, prefix, end):
    await client.create(MAPS, {"metadata": {"name": "m"}})
    answer = await client.create(MAPS, {"metadata": {"name": "m", **prefix}}, status=409)
    assert answer["message"].startswith('configmaps "m" already exists')
    assert answer["message"].endswith(end)
