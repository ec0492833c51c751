"""PodDecoder returns what PodInfo.from_raw returns, and reads equal specs once."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.objects import UndecodableObject, encode
from bayplan.core.cluster.pod_decoder import LARGEST, PodDecoder
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.testing import strategies

BASE = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
READ = set(PodInfo.__slots__) - {"_object", "_raw", "_tolerations", "_unassigned", "cache", "spec_cache"}


def assert_same(pod, raw):
    expected = PodInfo.from_raw(raw)
    assert {name: getattr(pod, name) for name in READ} == {name: getattr(expected, name) for name in READ}
    assert (pod.object, pod.raw, pod.tolerations) == (expected.object, expected.raw, expected.tolerations)
    assert pod.cache == {}


def version_of(document, node, phase, conditions):
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}] * conditions}
    spec = {**document["spec"], **({"nodeName": node} if node else {})}
    return encode({**document, "spec": spec, "status": status})


@given(
    pods=st.lists(strategies.pods(), min_size=1, max_size=3),
    versions=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["", "n1", "n2"]),
            st.sampled_from(["Pending", "Running"]),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_a_version_of_a_pod_is_read_as_without_earlier_ones(pods, versions):
    decoder = PodDecoder(capacity=2)
    documents = [unassigned(pod) for pod in pods]
    for index, *rest in versions:
        raw = version_of(documents[index % len(documents)], *rest)
        assert_same(decoder.decode(raw), raw)


def unassigned(pod):
    document = msgspec.json.decode(pod.raw)
    document["spec"].pop("nodeName", None)
    return document


def test_pods_with_equal_specs_share_what_is_read_of_them():
    decoder = PodDecoder()
    first = decoder.decode(encode(BASE))
    bound = decoder.decode(version_of(BASE, "n1", "Pending", 1))
    other = decoder.decode(encode({**BASE, "metadata": {"name": "other", "labels": {"a": "b"}}}))
    assert first.requested is bound.requested is other.requested
    assert other.spec is first.spec
    assert (bound.node_name, bound.spec.nodeName, first.spec.nodeName) == ("n1", "n1", None)
    assert (other.name, other.labels, first.labels) == ("other", {"a": "b"}, {})


def test_large_specs_and_metadata_are_not_kept():
    decoder = PodDecoder()
    large = {**BASE, "spec": {"containers": [{"name": "c", "image": "x" * LARGEST}]}}
    first, second = (decoder.decode(encode(large)) for _ in range(2))
    assert first.spec is not second.spec
    annotated = {**BASE, "metadata": {**BASE["metadata"], "annotations": {"a": "x" * LARGEST}}}
    assert decoder.decode(encode(annotated)).spec is decoder.decode(encode(annotated)).spec
    assert all(known.metadata == ObjectMeta() and not known.raw for known in decoder._known.values())


def test_requests_in_the_status_are_read():
    decoder = PodDecoder()
    decoder.decode(encode(BASE))
    resources = {"requests": {"cpu": "2"}}
    status = {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": True, "restartCount": 0}]}
    status["containerStatuses"][0] |= {"resources": resources, "allocatedResources": resources["requests"]}
    pod = decoder.decode(encode({**BASE, "status": status}))
    assert pod.requested == {"cpu": 2000}


def test_a_field_that_is_called_like_that_of_the_node_is_not_taken_for_it():
    decoder = PodDecoder()
    elsewhere = {"containers": [{"name": "c", "other": {"a": 1, "nodeName": "n1"}}]}
    plain = {"containers": [{"name": "c", "other": {"a": 1}}]}
    for spec in (plain, elsewhere, {**elsewhere, "nodeName": "n1"}, {**plain, "nodeName": "n1"}):
        raw = encode({**BASE, "spec": spec})
        assert_same(decoder.decode(raw), raw)


def test_managed_fields_are_dropped():
    decoder = PodDecoder()
    raw = encode({**BASE, "metadata": {**BASE["metadata"], "managedFields": [{"manager": "kubelet"}]}})
    for _ in range(2):
        assert decoder.decode(raw).metadata.managedFields is None


@pytest.mark.parametrize("raw", [b"[]", b'{"metadata":{"name":3},"spec":{"containers":[]}}', b"{"])
def test_what_cannot_be_decoded_is_an_error(raw):
    with pytest.raises(UndecodableObject):
        PodDecoder().decode(raw)
