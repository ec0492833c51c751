"""Fields that lightkube leaves untyped: values that Go clients reject are rejected when they are decoded."""

import msgspec
import pytest
from lightkube.models.core_v1 import Pod
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.objects import UndecodableObject, decode

CONTAINER = {"name": "c"}
SELECTOR = {"matchLabels": {"a": "b"}}
TERM = {"topologyKey": "zone", "labelSelector": SELECTOR}


def pod(**spec):
    return {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [CONTAINER], **spec}}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param({"metadata": {"labels": {"a": {}}}, "spec": {}}, "metadata.labels", id="label"),
        pytest.param({"metadata": {"labels": {"a": 7}}, "spec": {}}, "metadata.labels", id="number as label"),
        pytest.param({"metadata": {"annotations": {"a": []}}, "spec": {}}, "metadata.annotations", id="annotation"),
        pytest.param(pod(nodeSelector={"a": {}}), "spec.nodeSelector", id="node selector"),
        pytest.param(pod(overhead={"cpu": {}}), "spec.overhead", id="overhead"),
        pytest.param(pod(priority=2**31), "spec.priority", id="priority"),
        pytest.param(pod(containers=[{"name": "c", "resources": {"requests": {"cpu": {}}}}]), "requests", id="request"),
        pytest.param(
            pod(containers=[{"name": "c", "ports": [{"containerPort": 1, "hostPort": 2**40}]}]), "hostPort", id="port"
        ),
        pytest.param(
            pod(
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
                     "labelSelector": {"matchLabels": {"a": {}}}}
                ]
            ),
            "matchLabels",
            id="match label",
        ),
    ],
)  # fmt: skip
def test_value_of_another_type_is_refused(document, path):
    with pytest.raises(UndecodableObject, match="Expected") as refused:
        decode(Pod, msgspec.json.encode(document))
    assert path in refused.value.path


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"7", b"<html>", b"", b"{", b"\xff\xfe"])
def test_body_that_is_no_object_is_refused(body):
    with pytest.raises(UndecodableObject):
        decode(Pod, body)


def test_declarations_of_the_models_are_left_as_they_were():
    """The embedded API server reads them as text."""
    assert ObjectMeta.__annotations__["labels"] == "Optional[dict]"
