from datetime import UTC, datetime

import msgspec
import pytest
from lightkube.models.coordination_v1 import Lease, LeaseSpec
from lightkube.models.core_v1 import ConfigMap, Container, Node, Pod, PodList, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.networking_v1 import IPBlock, NetworkPolicyIngressRule
from tests.support.tables import cases

from bayplan.core.api.objects import UndecodableObject, bare, convert, decode, encode
from bayplan.core.api.times import micro_time


def test_pod_round_trips_without_empty_fields():
    raw = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"c"}]}}'
    assert decode(Pod, raw) == Pod(metadata=ObjectMeta(name="web"), spec=PodSpec(containers=[Container(name="c")]))
    assert msgspec.json.decode(encode(decode(Pod, raw))) == msgspec.json.decode(raw)


@cases(
    "cls, document, look, expected",
    {
        "optional list": (
            Node,
            {"status": {"images": [{"names": None, "sizeBytes": 1}]}},
            lambda o: o.status.images[0].names,
            None,
        ),
        "required list": (Pod, {"spec": {"containers": None}}, lambda o: o.spec.containers, []),
        "missing required list": (Pod, {"spec": {}}, lambda o: o.spec.containers, []),
        "required string": (Pod, {"spec": {"containers": [{"name": None}]}}, lambda o: o.spec.containers[0].name, ""),
        "null element": (Pod, {"spec": {"containers": [None]}}, lambda o: o.spec.containers[0].name, ""),
        "optional map": (Pod, {"metadata": {"labels": None}}, lambda o: o.metadata.labels, None),
        "items of a list": (PodList, {"items": None}, lambda o: o.items, []),
        "with an unknown field": (ConfigMap, {"data": None, "x": 1}, lambda o: o.data, None),
    },
)
def test_null_decodes_as_empty(cls, document, look, expected):
    assert look(decode(cls, encode(document))) == expected
    assert look(convert(cls, document)) == expected


def test_repair_keeps_other_fields_and_does_not_modify_the_document():
    document = {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": None, "nodeName": "n", "priority": 7, "from-the-future": {}},
    }
    pod = convert(Pod, document)
    assert (pod.metadata.labels, pod.spec.nodeName, pod.spec.priority) == ({"a": "b"}, "n", 7)
    assert document["spec"]["containers"] is None


def test_fields_named_like_python_keywords():
    page = decode(PodList, b'{"items":[],"metadata":{"continue":"token","resourceVersion":"7"}}')
    assert page.metadata.continue_ == "token"
    assert msgspec.json.decode(encode(page))["metadata"] == {"continue": "token", "resourceVersion": "7"}
    assert decode(PodList, b'{"items":null,"metadata":{"continue":"token"}}').metadata.continue_ == "token"
    block = b'{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}'
    assert encode(decode(IPBlock, block)) == block
    rule = b'{"from":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}'
    assert encode(decode(NetworkPolicyIngressRule, rule)) == rule


def test_managed_fields_are_dropped():
    document = {"metadata": {"name": "p", "managedFields": [{"manager": "kubectl"}]}}
    assert decode(Pod, encode(document)).metadata.managedFields is None
    assert convert(Pod, document).metadata.managedFields is None
    document["spec"] = {"containers": None}
    assert decode(Pod, encode(document)).metadata.managedFields is None


def test_empty_struct_is_kept():
    document = {"spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}}
    assert msgspec.json.decode(encode(convert(Pod, document)))["spec"] == document["spec"]


def test_missing_kind_is_set():
    assert decode(Pod, b'{"metadata":{"name":"web"}}').kind == "Pod"


@cases(
    "raw, message",
    {
        "nested field of the wrong type": (
            b'{"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":"x"}]}]}}',
            "Pod shop/web: Expected `int`, got `str` at spec.containers[0].ports[0].containerPort",
        ),
        "shape": (b'{"metadata":{"name":"web"},"spec":3}', "Pod web: Expected `object | null`, got `int` at spec"),
        "time": (
            b'{"metadata":{"creationTimestamp":"yesterday"}}',
            "Pod: Invalid RFC3339 encoded datetime at metadata.creationTimestamp",
        ),
        "not an object": (b"[]", "Pod: Expected `object`, got `array`"),
        "truncated": (b'{"metadata":', "Pod: Input data was truncated"),
        "empty": (b"", "Pod: Input data was truncated"),
        "not UTF-8": (b'{"metadata":{"name":"\xff"}}', "Pod: "),
        "nested too deeply": (b'{"a":' * 100_000, "Pod: "),
    },
)
def test_decoding_error_names_the_object(raw, message):
    with pytest.raises(UndecodableObject) as caught:
        decode(Pod, raw)
    assert str(caught.value).startswith(message)


def test_parts_of_a_decoding_error():
    with pytest.raises(UndecodableObject) as caught:
        convert(Pod, {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": {}}})
    error = caught.value
    assert (error.kind, error.namespace, error.name, error.path) == ("Pod", "n", "p", "spec.containers")


@cases(
    "document, kept",
    {
        "type": ({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}, {"metadata": {"name": "p"}}),
        "managers": ({"metadata": {"managedFields": [{"manager": "m"}], "name": "p"}}, {"metadata": {"name": "p"}}),
        "other fields, known or unknown": ({"metadata": {"new": [1.50]}, "new": {"a": None}}, None),
        "fields of the same names elsewhere": ({"spec": {"kind": "k", "managedFields": 1}}, None),
        "empty": ({}, None),
    },
)
def test_bare(document, kept):
    assert msgspec.json.decode(bare(msgspec.json.encode(document))) == (document if kept is None else kept)


def test_micro_time_has_six_fractional_digits():
    for moment in (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, microsecond=100_000, tzinfo=UTC)):
        lease = Lease(spec=LeaseSpec(renewTime=micro_time(moment)))
        assert len(msgspec.json.decode(encode(lease))["spec"]["renewTime"]) == len("2026-01-01T00:00:00.000000Z")
