"""The result of each type of patch."""

import pytest
from tests.support.tables import cases

from bayplan.core.api.kinds import POD, SERVICE
from bayplan.core.api.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from bayplan.core.api.status import StatusError
from bayplan_devcluster.apiserver.applying import apply_configuration


@cases(
    "patch, result",
    {
        "remove": ({"a": None}, {"b": {"c": 1}}),
        "merge": ({"b": {"d": 2}}, {"a": [1], "b": {"c": 1, "d": 2}}),
        "replace a list": ({"a": [2]}, {"a": [2], "b": {"c": 1}}),
        "replace an object": ({"b": 3}, {"a": [1], "b": 3}),
        "nulls in a new object": ({"x": {"y": None, "z": 1}}, {"a": [1], "b": {"c": 1}, "x": {"z": 1}}),
    },
)
def test_merge_patch(patch, result):
    original = {"a": [1], "b": {"c": 1}}
    assert apply_merge_patch(original, patch) == result
    assert original == {"a": [1], "b": {"c": 1}}


def names(items):
    return [item["name"] for item in items]


SPEC = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}


@cases(
    "patch, expected",
    {
        "change one": ([{"name": "b", "image": "9"}], [("a", "1"), ("b", "9"), ("c", "3")]),
        "add one": ([{"name": "d", "image": "4"}], [("d", "4"), ("a", "1"), ("b", "2"), ("c", "3")]),
        "delete one": ([{"name": "b", "$patch": "delete"}], [("a", "1"), ("c", "3")]),
        "replace all": ([{"name": "z", "image": "0"}, {"$patch": "replace"}], [("z", "0")]),
        "nothing": ([], [("a", "1"), ("b", "2"), ("c", "3")]),
    },
)
def test_strategic_patch_merges_containers_by_name(patch, expected):
    patched = apply_strategic_patch(POD, {"spec": SPEC}, {"spec": {"containers": patch}})
    assert [(item["name"], item["image"]) for item in patched["spec"]["containers"]] == expected


@cases(
    "order, patch, expected",
    {
        "order alone": (["c", "b", "a"], [], "cba"),
        "order with a new one": (["c", "d", "a"], [{"name": "d"}], "bcda"),
        "order of some": (["b", "a"], [{"name": "a", "image": "5"}], "bac"),
    },
)
def test_strategic_patch_orders_elements(order, patch, expected):
    body = {"spec": {"$setElementOrder/containers": [{"name": name} for name in order], "containers": patch}}
    if not patch:
        del body["spec"]["containers"]
    patched = apply_strategic_patch(POD, {"spec": SPEC}, body)
    assert "".join(names(patched["spec"]["containers"])) == expected


@cases(
    "patch, expected",
    {
        "add to plain values": ({"finalizers": ["b"]}, {"finalizers": ["a", "b"]}),
        "delete from plain values": ({"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": []}),
        "null": ({"labels": {"x": None, "y": "2"}}, {"finalizers": ["a"], "labels": {"y": "2"}}),
        "replace a map": ({"labels": {"$patch": "replace", "z": "3"}}, {"finalizers": ["a"], "labels": {"z": "3"}}),
        "delete a map": ({"labels": {"$patch": "delete"}}, {"finalizers": ["a"], "labels": {}}),
    },
)
def test_strategic_directives_in_metadata(patch, expected):
    metadata = {"finalizers": ["a"], "labels": {"x": "1"}}
    patched = apply_strategic_patch(POD, {"metadata": metadata}, {"metadata": patch})["metadata"]
    assert {key: value for key, value in patched.items() if key in expected} == expected


def test_retain_keys_removes_other_keys():
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}
    volume = {"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}
    patched = apply_strategic_patch(POD, {"spec": spec}, {"spec": {"volumes": [volume]}})
    assert patched["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_lists_without_a_merge_key_are_replaced():
    spec = {"tolerations": [{"key": "a"}]}
    patched = apply_strategic_patch(POD, {"spec": spec}, {"spec": {"tolerations": [{"key": "b"}]}})
    assert patched["spec"]["tolerations"] == [{"key": "b"}]


def test_elements_without_their_merge_key_are_rejected():
    with pytest.raises(StatusError, match="does not contain declared merge key: port"):
        apply_strategic_patch(SERVICE, {"spec": {}}, {"spec": {"ports": [{"name": "x"}]}})


def test_json_patch():
    operations = [{"op": "add", "path": "/a/-", "value": 2}, {"op": "test", "path": "/a/1", "value": 2}]
    original = {"a": [1]}
    assert apply_json_patch(original, operations) == {"a": [1, 2]}
    assert original == {"a": [1]}


@cases(
    "operations, code",
    {
        "not a list": ({"op": "add"}, 400),
        "unknown operation": ([{"op": "fly", "path": "/a"}], 400),
        "missing path": ([{"op": "remove", "path": "/x/y"}], 422),
    },
)
def test_json_patch_that_does_not_apply_is_rejected(operations, code):
    with pytest.raises(StatusError) as caught:
        apply_json_patch({"a": [1]}, operations)
    assert caught.value.code == code


def test_applied_configurations_are_merged():
    applied = {"spec": {"containers": [{"name": "a", "image": "2"}]}}
    merged = apply_configuration(POD.model, {"spec": SPEC}, applied)
    assert names(merged["spec"]["containers"]) == ["a", "b", "c"]


def test_applied_lists_are_merged_by_all_their_keys():
    ports = [{"containerPort": 53, "protocol": "TCP", "name": "tcp"}, {"containerPort": 53, "protocol": "UDP"}]
    spec = {"containers": [{"name": "a", "ports": ports}]}
    change = [{"containerPort": 53, "name": "dns"}, {"containerPort": 53, "protocol": "UDP", "name": "dns-udp"}]
    merged = apply_configuration(POD.model, {"spec": spec}, {"spec": {"containers": [{"name": "a", "ports": change}]}})
    assert merged["spec"]["containers"][0]["ports"] == [
        {"containerPort": 53, "protocol": "TCP", "name": "dns"},
        {"containerPort": 53, "protocol": "UDP", "name": "dns-udp"},
    ]


def test_applied_atomic_values_are_replaced():
    spec = {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}]}
    merged = apply_configuration(POD.model, {"spec": spec}, {"spec": {"nodeSelector": {"b": "2"}, "tolerations": []}})
    assert merged["spec"] == {"nodeSelector": {"b": "2"}, "tolerations": []}
