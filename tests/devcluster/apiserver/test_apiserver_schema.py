"""Normalization of bodies: types are checked, and empty fields are written as kube-apiserver writes them."""

import pytest

from bayplan.core.api.kinds import KINDS, NODE, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_SLICE, STATEFUL_SET
from bayplan_devcluster.apiserver.scalars import Mismatch, canonical
from bayplan_devcluster.apiserver.schema import normalize


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_normalization_of_an_empty_object_is_idempotent(kind):
    done, unknown = normalize(kind, {"kind": kind.kind, "apiVersion": kind.api_version})
    assert "metadata" in done
    assert unknown == []
    assert normalize(kind, done) == (done, [])


@pytest.mark.parametrize(
    ("kind", "body", "path", "expected"),
    [
        (POD, {"spec": {"nodeName": "", "hostNetwork": False}}, "spec", {"containers": None}),
        (POD, {"spec": {"tolerations": [], "priority": 0}}, "spec", {"containers": None, "priority": 0}),
        (POD, {"metadata": {"labels": {}, "annotations": {"a": None}}}, "metadata", {"annotations": {"a": ""}}),
        (NODE, {"spec": {"unschedulable": False}}, "spec", {}),
        (POD, {"spec": {"activeDeadlineSeconds": 1 << 40, "containers": [None]}}, "spec",
         {"activeDeadlineSeconds": 1 << 40, "containers": [{"name": "", "resources": {}}]}),
        (POD, {"spec": {"overhead": {"cpu": None}}}, "spec", {"overhead": {"cpu": "0"}, "containers": None}),
        (STATEFUL_SET, {"spec": {"ordinals": {}}}, "spec",
         {"selector": None, "template": {"metadata": {}, "spec": {"containers": None}}, "serviceName": "",
          "updateStrategy": {}, "ordinals": {"start": 0}}),
        (PERSISTENT_VOLUME_CLAIM, {"spec": {"storageClassName": ""}}, "spec",
         {"storageClassName": "", "resources": {}}),
        (POD, {"status": {"startTime": "2026-01-01T01:00:00+01:00"}}, "status", {"startTime": "2026-01-01T00:00:00Z"}),
        (RESOURCE_SLICE, {"spec": {"pool": {"name": "p"}, "devices": [{"name": "d", "capacity": {"m": {"value": 1}}}]}},
         "spec", {"driver": "", "pool": {"name": "p", "generation": 0, "resourceSliceCount": 0},
                  "devices": [{"name": "d", "capacity": {"m": {"value": "1"}}}]}),
    ],
)  # fmt: skip
def test_empty_values_are_written_as_go_does(kind, body, path, expected):
    assert normalize(kind, body)[0][path] == expected


def test_unknown_fields_are_reported_with_their_path():
    body = {"spec": {"containers": [{"name": "c", "colour": 1}], "taste": 2}, "smell": 3}
    assert normalize(POD, body)[1] == ["spec.containers[0].colour", "spec.taste", "smell"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], "cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        ({"containers": "c"}, "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Con"),
        ({"containers": [1]}, "cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Con"),
        ({"containers": [{"name": 1}]}, "Go struct field Container.spec.containers.name of type string"),
        ({"priority": 1.5}, "cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        ({"priority": 1 << 31}, "number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
        ({"restartPolicy": 1}, "Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
        ({"overhead": []}, "cannot unmarshal array into Go struct field PodSpec.spec.overhead of type v1.ResourceList"),
        ({"hostNetwork": "yes"}, "cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"overhead": {"cpu": "much"}}, "quantities must match the regular expression"),
        ({"overhead": {"cpu": True}}, "quantities must match the regular expression"),
    ],
)  # fmt: skip
def test_wrong_types_have_the_messages_of_go(spec, message):
    with pytest.raises(Mismatch) as caught:
        normalize(POD, {"spec": spec})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("0.5", "500m"), ("1000m", "1"), ("2000", "2k"), ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("0", "0"),
        ("1.5Gi", "1536Mi"), ("100", "100"), ("1e3", "1e3"), ("12e6", "12e6"), ("-1", "-1"), ("1n", "1n"),
        ("0Gi", "0"), ("512Ki", "512Ki"), ("+5", "5"), ("lots", None), ("", None), ("1 Gi", None),
    ],
)  # fmt: skip
def test_quantities_are_written_in_canonical_form(given, written):
    assert canonical(given) == written
