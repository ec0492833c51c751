"""Admission of claims and volumes."""

import aiohttp
import pytest
from tests.support.storage_documents import claim, default_class, storage_class, volume

from bayplan.clock import ManualClock
from bayplan.devcluster.apiserver import ApiServer

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BETA = {"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}
BETA_CLASS = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}


@pytest.mark.parametrize(
    ("classes", "new_claim", "expected"),
    [
        pytest.param([], claim("c"), None, id="no class"),
        pytest.param([storage_class("a")], claim("c"), None, id="no default"),
        pytest.param([storage_class("a"), default_class("b")], claim("c"), "b", id="default class"),
        pytest.param([storage_class("a", metadata=BETA)], claim("c"), "a", id="default by the beta annotation"),
        pytest.param([default_class("b"), default_class("a")], claim("c"), "a", id="first of several defaults by name"),
        pytest.param([default_class("a")], claim("c", "x"), "x", id="claim names a class"),
        pytest.param([default_class("a")], claim("c", ""), "", id="claim names no class"),
        pytest.param([default_class("a")], claim("c", metadata=BETA_CLASS), None, id="claim has the beta annotation"),
    ],
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


@pytest.mark.parametrize(
    ("path", "document", "finalizer"),
    [
        pytest.param(CLAIMS, claim("one", "x"), "kubernetes.io/pvc-protection", id="claim"),
        pytest.param(VOLUMES, volume("one", "x"), "kubernetes.io/pv-protection", id="volume"),
    ],
)
async def test_protected_object_is_removed_without_its_finalizer(api, path, document, finalizer):
    assert (await api.create(path, document))["metadata"]["finalizers"] == [finalizer]
    assert (await api.delete(f"{path}/one"))["metadata"]["deletionTimestamp"]
    assert (await api.get(f"{path}/one"))["metadata"]["finalizers"] == [finalizer]
    await api.patch(f"{path}/one", {"metadata": {"finalizers": None}})
    await api.get(f"{path}/one", status=404)
