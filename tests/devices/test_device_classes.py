from __future__ import annotations

import pytest
from lightkube.models.resource_v1 import DeviceClass

from bayplan.cluster.objects import ObjectStore
from bayplan.devices.classes import CLASS_PREFIX, ExtendedResources
from bayplan.testing.documents import convert

GPU = "example.com/gpu"


def device_class(name, resource=GPU, second=0):
    created = f"2026-01-01T00:00:{second:02d}Z"
    spec = {"extendedResourceName": resource} if resource else {}
    return convert(DeviceClass, {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


@pytest.mark.feature("DynamicResources: extended resources")
@pytest.mark.parametrize(
    ("news", "of_resource", "known_by_name"),
    [
        pytest.param([device_class("a", None)], None, ["a"], id="a class without a resource"),
        pytest.param([device_class("a"), device_class("b", second=1)], "b", ["a", "b"], id="a younger one comes"),
        pytest.param([device_class("b", second=1), device_class("a")], "b", ["b"], id="an older one comes"),
        pytest.param([device_class("a"), device_class("b")], "a", ["a"], id="as old, and later by name"),
        pytest.param([device_class("b"), device_class("a")], "a", ["a", "b"], id="as old, and earlier by name"),
        pytest.param([device_class("a"), device_class("a", "x.com/y")], None, ["a"], id="another resource"),
        pytest.param([device_class("a"), "a"], None, [], id="one goes"),
        pytest.param(
            [device_class("a"), device_class("b", second=1), "a"], None, ["b"], id="one goes, with the resource"
        ),
    ],
)
def test_which_class_stands_for_a_resource(news, of_resource, known_by_name):
    store = ObjectStore()
    found = store.view(ExtendedResources)
    for each in news:
        if isinstance(each, str):
            store.remove(each)
        else:
            store.set(each.metadata.name, each)
    chosen = found.class_of(GPU)
    assert (chosen and chosen.metadata.name) == of_resource
    assert [name for name in ("a", "b") if found.class_of(f"{CLASS_PREFIX}{name}")] == known_by_name
