"""Names that the server generates: those that are taken are not used. Mirrors createWithGenerateNameRetry."""

import random

from tests.support.tables import cases

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


@cases(
    "suffixes, name",
    {
        "first": (["44444"], "m-44444"),
        "second": (["taken", "44444", "55555"], "m-44444"),
        "eighth": ([*["taken"] * 7, "44444"], "m-44444"),
    },
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


@cases(
    "path, spec, qualified, details",
    {
        "core": (MAPS, {}, "configmaps", {"kind": "configmaps"}),
        "group": (
            LEASES,
            {"spec": {}},
            "leases.coordination.k8s.io",
            {"group": "coordination.k8s.io", "kind": "leases"},
        ),
        "stored in another group": (EVENTS, EVENT, "events", {"kind": "events"}),
    },
)
@cases("finalizers", {"taken": [], "taken by an object that is being deleted": ["a/b"]})
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


@cases(
    "prefix, end",
    {
        "none": ({}, "already exists"),
        "unused": ({"generateName": "m-"}, "not able to generate a unique name for the object"),
    },
)
async def test_given_name_is_not_replaced(client, prefix, end):
    await client.create(MAPS, {"metadata": {"name": "m"}})
    answer = await client.create(MAPS, {"metadata": {"name": "m", **prefix}}, status=409)
    assert answer["message"].startswith('configmaps "m" already exists')
    assert answer["message"].endswith(end)
