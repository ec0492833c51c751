from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.models.storage_v1 import StorageClass
from tests.support.storage_documents import claim, default_class, storage_class, volume

from bayplan.api.objects import convert
from bayplan.devcluster.controllers import volume_matching
from bayplan.devcluster.controllers.volume_matching import best_match, has_class, mismatch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def wanted(*arguments, **fields):
    found = convert(PersistentVolumeClaim, claim("c", *arguments, **fields))
    found.metadata.uid = "uid of c"
    return found


def there(*arguments, phase="Available", deleted=False, **fields):
    found = convert(PersistentVolume, {**volume(*arguments, **fields), "status": {"phase": phase}})
    found.metadata.deletionTimestamp = NOON if deleted else None
    return found


def set_aside(name="c", uid=None):
    return {"claimRef": {"namespace": "default", "name": name, **({"uid": uid} if uid else {})}}


@pytest.mark.parametrize(
    ("claimed", "volumes", "expected"),
    [
        pytest.param(wanted("x"), [], None, id="no volumes"),
        pytest.param(wanted("x", "1Gi"), [there("v", "x", "1Gi")], "v", id="exactly"),
        pytest.param(wanted("x", "2Gi"), [there("v", "x", "1Gi")], None, id="too small"),
        pytest.param(wanted("x"), [there("b", "x", "3Gi"), there("a", "x", "2Gi")], "a", id="the smallest"),
        pytest.param(wanted("x"), [there("b", "x"), there("a", "x")], "a", id="of equals the first by name"),
        pytest.param(wanted("x"), [there("v", "y")], None, id="of another class"),
        pytest.param(wanted(""), [there("v")], "v", id="no class"),
        pytest.param(wanted(), [there("v", "x")], None, id="a claim without a class gets no volume with a class"),
        pytest.param(wanted("x"), [there("v", "x", phase="Pending")], None, id="not available yet"),
        pytest.param(wanted("x"), [there("v", "x", phase="Released")], None, id="released"),
        pytest.param(wanted("x"), [there("v", "x", deleted=True)], None, id="terminating"),
        pytest.param(wanted("x", mode="ReadWriteMany"), [there("v", "x")], None, id="without the access mode"),
        pytest.param(
            wanted("x"),
            [there("a", "x", "1Gi", "ReadWriteOnce", "ReadOnlyMany"), there("b", "x", "5Gi")],
            "b",
            id="few access modes before a good size",
        ),
        pytest.param(wanted("x", volumeMode="Block"), [there("v", "x")], None, id="a file system for a block device"),
        pytest.param(wanted("x", volumeMode="Block"), [there("v", "x", volumeMode="Block")], "v", id="a block device"),
        pytest.param(
            wanted("x", volumeAttributesClassName="gold"), [there("v", "x")], None, id="another attributes class"
        ),
        pytest.param(
            wanted("x", selector={"matchLabels": {"disk": "fast"}}),
            [there("a", "x"), there("b", "x", metadata={"labels": {"disk": "fast"}})],
            "b",
            id="selected by labels",
        ),
        pytest.param(
            wanted("x"), [there("a", "x"), there("b", "x", "9Gi", **set_aside())], "b", id="set aside by name"
        ),
        pytest.param(
            wanted("x"), [there("v", "y", **set_aside(uid="uid of c"))], "v", id="set aside, whatever its class"
        ),
        pytest.param(wanted("x"), [there("v", "x", **set_aside(uid="another"))], None, id="set aside for a namesake"),
        pytest.param(wanted("x"), [there("v", "x", **set_aside("other"))], None, id="set aside for another"),
        pytest.param(wanted("x", "2Gi"), [there("v", "x", "1Gi", **set_aside())], None, id="set aside but too small"),
        pytest.param(
            wanted("x"),
            [there("a", "x", "1Gi", "ReadWriteOnce", "ReadOnlyMany", **set_aside()), there("b", "x")],
            "b",
            id="the order of access modes takes precedence over a reserved volume",
        ),
    ],
)
def test_volume_for_a_claim(claimed, volumes, expected):
    found = best_match(claimed, volumes, delayed=False)
    assert (found.metadata.name if found is not None else None) == expected


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param([there("v", "x")], None, id="the scheduler chooses among available ones"),
        pytest.param(
            [there("a", "x"), there("v", "x", **set_aside(uid="uid of c"))], "v", id="chosen by the scheduler"
        ),
    ],
)
def test_volume_for_a_delayed_claim(volumes, expected):
    found = best_match(wanted("x"), volumes, delayed=True)
    assert (found.metadata.name if found is not None else None) == expected


@pytest.mark.parametrize(
    ("have", "expected"),
    [
        pytest.param(there("v", "x", "1Gi"), None, id="fits"),
        pytest.param(there("v", "x", deleted=True), 'the volume is marked for deletion "v"', id="terminating"),
        pytest.param(there("v", "x", "1Mi"), "requested PV is too small", id="too small"),
        pytest.param(there("v", "y"), "storageClassName does not match", id="another class"),
        pytest.param(
            there("v", "x", volumeAttributesClassName="gold"),
            "volumeAttributesClassName does not match",
            id="attributes",
        ),
        pytest.param(there("v", "x", volumeMode="Block"), "incompatible volumeMode", id="volume mode"),
        pytest.param(there("v", "x", "1Gi", "ReadOnlyMany"), "incompatible accessMode", id="access mode"),
    ],
)
def test_reason_that_a_named_volume_does_not_match(have, expected):
    assert mismatch(have, wanted("x")) == expected


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        pytest.param(wanted(), False, id="says nothing"),
        pytest.param(wanted("x"), True, id="a class"),
        pytest.param(wanted(""), True, id="explicitly none"),
        pytest.param(
            wanted(metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}), True, id="as long ago"
        ),
    ],
)
def test_claim_names_its_class(claimed, expected):
    assert has_class(claimed) is expected


def made(document, minutes=0):
    found = convert(StorageClass, document)
    found.metadata.creationTimestamp = NOON + timedelta(minutes=minutes)
    return found


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([made(storage_class("a"))], None, id="no default"),
        pytest.param([made(storage_class("a")), made(default_class("b"))], "b", id="the default"),
        pytest.param([made(default_class("a"), 1), made(default_class("b"), 2)], "b", id="the newest"),
        pytest.param([made(default_class("b")), made(default_class("a"))], "a", id="of equals the first by name"),
    ],
)
def test_default_class(classes, expected):
    found = volume_matching.default_class(classes)
    assert (found.metadata.name if found is not None else None) == expected
