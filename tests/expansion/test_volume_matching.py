from datetime import UTC, datetime, timedelta

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.models.storage_v1 import StorageClass
from tests.support.storage_documents import claim, default_class, storage_class, volume
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan.core.expansion import volume_matching
from bayplan.core.expansion.volume_matching import best_match, has_class, mismatch

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


@cases(
    "claimed, volumes, expected",
    {
        "no volumes": (wanted("x"), [], None),
        "exactly": (wanted("x", "1Gi"), [there("v", "x", "1Gi")], "v"),
        "too small": (wanted("x", "2Gi"), [there("v", "x", "1Gi")], None),
        "the smallest": (wanted("x"), [there("b", "x", "3Gi"), there("a", "x", "2Gi")], "a"),
        "of equals the first by name": (wanted("x"), [there("b", "x"), there("a", "x")], "a"),
        "of another class": (wanted("x"), [there("v", "y")], None),
        "no class": (wanted(""), [there("v")], "v"),
        "a claim without a class gets no volume with a class": (wanted(), [there("v", "x")], None),
        "not available yet": (wanted("x"), [there("v", "x", phase="Pending")], None),
        "released": (wanted("x"), [there("v", "x", phase="Released")], None),
        "terminating": (wanted("x"), [there("v", "x", deleted=True)], None),
        "without the access mode": (wanted("x", mode="ReadWriteMany"), [there("v", "x")], None),
        "few access modes before a good size": (
            wanted("x"),
            [there("a", "x", "1Gi", "ReadWriteOnce", "ReadOnlyMany"), there("b", "x", "5Gi")],
            "b",
        ),
        "a file system for a block device": (wanted("x", volumeMode="Block"), [there("v", "x")], None),
        "a block device": (wanted("x", volumeMode="Block"), [there("v", "x", volumeMode="Block")], "v"),
        "another attributes class": (wanted("x", volumeAttributesClassName="gold"), [there("v", "x")], None),
        "selected by labels": (
            wanted("x", selector={"matchLabels": {"disk": "fast"}}),
            [there("a", "x"), there("b", "x", metadata={"labels": {"disk": "fast"}})],
            "b",
        ),
        "set aside by name": (wanted("x"), [there("a", "x"), there("b", "x", "9Gi", **set_aside())], "b"),
        "set aside, whatever its class": (wanted("x"), [there("v", "y", **set_aside(uid="uid of c"))], "v"),
        "set aside for a namesake": (wanted("x"), [there("v", "x", **set_aside(uid="another"))], None),
        "set aside for another": (wanted("x"), [there("v", "x", **set_aside("other"))], None),
        "set aside but too small": (wanted("x", "2Gi"), [there("v", "x", "1Gi", **set_aside())], None),
        "the order of access modes takes precedence over a reserved volume": (
            wanted("x"),
            [there("a", "x", "1Gi", "ReadWriteOnce", "ReadOnlyMany", **set_aside()), there("b", "x")],
            "b",
        ),
    },
)
def test_volume_for_a_claim(claimed, volumes, expected):
    found = best_match(claimed, volumes, delayed=False)
    assert (found.metadata.name if found is not None else None) == expected


@cases(
    "volumes, expected",
    {
        "the scheduler chooses among available ones": ([there("v", "x")], None),
        "chosen by the scheduler": ([there("a", "x"), there("v", "x", **set_aside(uid="uid of c"))], "v"),
    },
)
def test_volume_for_a_delayed_claim(volumes, expected):
    found = best_match(wanted("x"), volumes, delayed=True)
    assert (found.metadata.name if found is not None else None) == expected


@cases(
    "have, expected",
    {
        "fits": (there("v", "x", "1Gi"), None),
        "terminating": (there("v", "x", deleted=True), 'the volume is marked for deletion "v"'),
        "too small": (there("v", "x", "1Mi"), "requested PV is too small"),
        "another class": (there("v", "y"), "storageClassName does not match"),
        "attributes": (there("v", "x", volumeAttributesClassName="gold"), "volumeAttributesClassName does not match"),
        "volume mode": (there("v", "x", volumeMode="Block"), "incompatible volumeMode"),
        "access mode": (there("v", "x", "1Gi", "ReadOnlyMany"), "incompatible accessMode"),
    },
)
def test_reason_that_a_named_volume_does_not_match(have, expected):
    assert mismatch(have, wanted("x")) == expected


@cases(
    "claimed, expected",
    {
        "says nothing": (wanted(), False),
        "a class": (wanted("x"), True),
        "explicitly none": (wanted(""), True),
        "as long ago": (wanted(metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}), True),
    },
)
def test_claim_names_its_class(claimed, expected):
    assert has_class(claimed) is expected


def made(document, minutes=0):
    found = convert(StorageClass, document)
    found.metadata.creationTimestamp = NOON + timedelta(minutes=minutes)
    return found


@cases(
    "classes, expected",
    {
        "no default": ([made(storage_class("a"))], None),
        "the default": ([made(storage_class("a")), made(default_class("b"))], "b"),
        "the newest": ([made(default_class("a"), 1), made(default_class("b"), 2)], "b"),
        "of equals the first by name": ([made(default_class("b")), made(default_class("a"))], "a"),
    },
)
def test_default_class(classes, expected):
    found = volume_matching.default_class(classes)
    assert (found.metadata.name if found is not None else None) == expected
