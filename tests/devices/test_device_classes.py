import pytest
from lightkube.models.resource_v1 import DeviceClass
from tests.support.tables import cases

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.devices.classes import CLASS_PREFIX, ExtendedResources
from bayplan.testing.documents import convert

GPU = "example.com/gpu"


def device_class(name, resource=GPU, second=0, created=None):
    created = created or f"2026-01-01T00:00:{second:02d}Z"
    spec = {"extendedResourceName": resource} if resource else {}
    return convert(DeviceClass, {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


@pytest.mark.feature("DynamicResources: extended resources")
@cases(
    "changes, of_resource, found_by_name",
    {
        "a class without a resource": ([device_class("a", None)], None, ["a"]),
        "a younger class is added": ([device_class("a"), device_class("b", second=1)], "b", ["a", "b"]),
        "an older class is added": ([device_class("b", second=1), device_class("a")], "b", ["b"]),
        "same age, later name": ([device_class("a"), device_class("b")], "a", ["a"]),
        "the earliest time, without a zone": (
            [device_class("a"), device_class("b", created="0001-01-01T00:00:00")],
            "a",
            ["a"],
        ),
        "same age, earlier name": ([device_class("b"), device_class("a")], "a", ["a", "b"]),
        "the class changes its resource": ([device_class("a"), device_class("a", "x.com/y")], None, ["a"]),
        "the class is deleted": ([device_class("a"), "a"], None, []),
        "an older class is deleted and removes the resource": (
            [device_class("a"), device_class("b", second=1), "a"],
            None,
            ["b"],
        ),
    },
)
def test_class_of_an_extended_resource(changes, of_resource, found_by_name):
    store = ObjectStore()
    found = store.view(ExtendedResources)
    for each in changes:
        if isinstance(each, str):
            store.remove(each)
        else:
            store.set(each.metadata.name, each)
    chosen = found.class_of(GPU)
    assert (chosen and chosen.metadata.name) == of_resource
    assert [name for name in ("a", "b") if found.class_of(f"{CLASS_PREFIX}{name}")] == found_by_name
