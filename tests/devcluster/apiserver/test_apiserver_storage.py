"""Admission of claims and volumes."""

import aiohttp
from tests.support.storage_documents import claim, default_class, storage_class, volume
from tests.support.tables import cases

from bayplan.foundations.clock import ManualClock
from bayplan_devcluster.apiserver import ApiServer

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BETA = {"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}
BETA_CLASS = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}


@cases(
    "classes, new_claim, expected",
    {
        "no class": ([], claim("c"), None),
        "no default": ([storage_class("a")], claim("c"), None),
        "default class": ([storage_class("a"), default_class("b")], claim("c"), "b"),
        "default by the beta annotation": ([storage_class("a", metadata=BETA)], claim("c"), "a"),
        "first of several defaults by name": ([default_class("b"), default_class("a")], claim("c"), "a"),
        "claim names a class": ([default_class("a")], claim("c", "x"), "x"),
        "claim names no class": ([default_class("a")], claim("c", ""), ""),
        "claim has the beta annotation": ([default_class("a")], claim("c", metadata=BETA_CLASS), None),
    },
)
async def test_claim_gets_the_default_class(api, classes, new_claim, expected):
    for one in classes:
        await api.create(CLASSES, one)
    created = await api.create(CLAIMS, new_claim)
    assert created["spec"].get("storageClassName") == expected


async def test_newest_of_several_default_classes_is_used(make_requests):
    clock = ManualClock()
    async with ApiServer(clock=clock) as server, aiohttp.ClientSession(server.url) as session:
        api = make_requests(session)
        for name in ("a", "b"):
            await api.create(CLASSES, default_class(name))
            clock.advance(1)
        assert (await api.create(CLAIMS, claim("c")))["spec"]["storageClassName"] == "b"


@cases(
    "path, document, finalizer",
    {
        "claim": (CLAIMS, claim("one", "x"), "kubernetes.io/pvc-protection"),
        "volume": (VOLUMES, volume("one", "x"), "kubernetes.io/pv-protection"),
    },
)
async def test_protected_object_is_removed_without_its_finalizer(api, path, document, finalizer):
    assert (await api.create(path, document))["metadata"]["finalizers"] == [finalizer]
    assert (await api.delete(f"{path}/one"))["metadata"]["deletionTimestamp"]
    assert (await api.get(f"{path}/one"))["metadata"]["finalizers"] == [finalizer]
    await api.patch(f"{path}/one", {"metadata": {"finalizers": None}})
    await api.get(f"{path}/one", status=404)
