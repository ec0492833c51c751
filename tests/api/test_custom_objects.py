"""Custom resources: references to their kinds, and whole documents with typed metadata."""

import pytest

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import custom_kind
from bayplan.core.api.objects import UndecodableObject, convert, decode, encode

POD_GROUPS = custom_kind("podgroups.v1alpha1.scheduling.x-k8s.io")
DOCUMENT = b'{"kind":"PodGroup","metadata":{"name":"red","managedFields":[{}]},"spec":{"minMember":3},"extra":[1]}'


def test_reference_determines_the_path_of_a_kind():
    assert POD_GROUPS.api_version == "scheduling.x-k8s.io/v1alpha1"
    assert POD_GROUPS.path("default", "red", "status") == (
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups/red/status"
    )
    assert custom_kind("racks.v1.example.com", namespaced=False).path("default", "r") == "/apis/example.com/v1/racks/r"


@pytest.mark.parametrize("reference", ["", "PodGroup", "podgroups.v1", "podgroups.example.com", "a b.v1.c"])
def test_malformed_reference_is_rejected(reference):
    with pytest.raises(ValueError, match=r"expected .* plural\.version\.group"):
        custom_kind(reference)


def test_document_is_kept_without_managed_fields():
    group = decode(POD_GROUPS.type, DOCUMENT)
    assert isinstance(group, CustomObject)
    assert (group["spec"]["minMember"], group["extra"], group.metadata.name) == (3, [1], "red")
    assert decode(POD_GROUPS.type, encode(group)) == group


def test_conversion_does_not_modify_the_document():
    document = {"metadata": {"name": "red", "managedFields": [{}]}}
    assert convert(POD_GROUPS.type, document) == {"metadata": {"name": "red"}}
    assert document["metadata"]["managedFields"] == [{}]


@pytest.mark.parametrize("raw", [b"[]", b"{", b"3", b'"x"', b""])
def test_non_object_is_rejected(raw):
    with pytest.raises(UndecodableObject):
        decode(POD_GROUPS.type, raw)
