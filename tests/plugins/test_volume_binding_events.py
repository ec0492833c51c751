"""VolumeBinding: queueing hints and scores."""

from __future__ import annotations

import pytest
from volumes import claim, csi_capacity, csi_driver, csi_node, storage_class, using, volume

from bayplan.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan.api.objects import convert
from bayplan.framework.events import Hint
from bayplan.plugins.arguments import UtilizationShapePoint, VolumeBindingArgs
from bayplan.plugins.volume_binding.hints import (
    after_capacity_change,
    after_claim_change,
    after_class_change,
    after_csi_node_change,
    after_driver_update,
    volume_events,
)
from bayplan.plugins.volume_binding.plugin import VolumeBinding
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing import ask_scores
from bayplan.testing.builders import make_cluster, make_node

TERMS = [{"matchLabelExpressions": [{"key": "k", "values": ["1"]}]}]


def hint(after, kind, pod, old, new):
    old, new = (each if each is None else convert(kind.type, each) for each in (old, new))
    return after(pod, old, new)


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, storage_class(), Hint.QUEUE, id="new"),
        pytest.param(storage_class(), storage_class(allowedTopologies=TERMS), Hint.QUEUE, id="other topologies"),
        pytest.param(storage_class(allowedTopologies=[]), storage_class(), Hint.SKIP, id="the same topologies"),
    ],
)
def test_hint_after_storage_class_change(old, new, expected):
    assert hint(after_class_change, STORAGE_CLASS, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("pod", "new", "expected"),
    [
        pytest.param(using("c"), claim("c"), Hint.QUEUE, id="the pod's claim"),
        pytest.param(using(ephemeral=["e"]), claim("p-e"), Hint.QUEUE, id="claim of its ephemeral volume"),
        pytest.param(using("c"), claim("d"), Hint.SKIP, id="another claim"),
        pytest.param(using("c"), claim("c", namespace="b"), Hint.SKIP, id="of another namespace"),
    ],
)
def test_hint_after_claim_change(pod, new, expected):
    assert hint(after_claim_change, PERSISTENT_VOLUME_CLAIM, pod, None, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, csi_node("a"), Hint.QUEUE, id="new"),
        pytest.param(csi_node("a"), csi_node("a", "kubernetes.io/cinder"), Hint.QUEUE, id="plugin was migrated"),
        pytest.param(csi_node("a", x=1), csi_node("a", x=2), Hint.SKIP, id="limit changed"),
    ],
)
def test_hint_after_csi_node_change(old, new, expected):
    assert hint(after_csi_node_change, CSI_NODE, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("driver", "before", "after", "expected"),
    [
        pytest.param("x", True, False, Hint.QUEUE, id="no longer publishes capacity"),
        pytest.param("x", False, True, Hint.SKIP, id="starts publishing capacity"),
        pytest.param("x", True, True, Hint.SKIP, id="still publishes capacity"),
        pytest.param("y", True, False, Hint.SKIP, id="driver of no volume in the pod"),
    ],
)
def test_hint_after_driver_change(driver, before, after, expected):
    pod = using(volumes=[{"name": "v", "csi": {"driver": "x"}}])
    old, new = (csi_driver(driver, publishes_capacity=publishes) for publishes in (before, after))
    assert hint(after_driver_update, CSI_DRIVER, pod, old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, csi_capacity("r", "1Gi"), Hint.QUEUE, id="new"),
        pytest.param(csi_capacity("r", "1Gi"), csi_capacity("r", "2Gi"), Hint.QUEUE, id="more"),
        pytest.param(csi_capacity("r", "2Gi"), csi_capacity("r", "1Gi"), Hint.SKIP, id="less"),
        pytest.param(
            csi_capacity("r", "1Gi", largest="1Gi"),
            csi_capacity("r", "9Gi", largest="1Gi"),
            Hint.SKIP,
            id="same maximum volume size",
        ),
        pytest.param(csi_capacity("r", None), csi_capacity("r", "1Gi"), Hint.QUEUE, id="capacity was added"),
        pytest.param(csi_capacity("r", "1Gi"), csi_capacity("r", None), Hint.SKIP, id="capacity was removed"),
    ],
)
def test_hint_after_capacity_change(old, new, expected):
    assert hint(after_capacity_change, CSI_STORAGE_CAPACITY, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
def test_events_match_upstream():
    assert [each.event.resource for each in volume_events()] == [
        "StorageClass",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "Node",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
    ]


FULLER = [(0, 0), (100, 10)]
EMPTIER = [(0, 10), (100, 0)]
NODES = [make_node("a"), make_node("b"), make_node("c")]
MADE = storage_class("made", provisioner="disk.example.com")


def scores(points, *objects, pod):
    state = make_cluster(*NODES, *objects).state
    args = VolumeBindingArgs(shape=[UtilizationShapePoint(*point) for point in points])
    return ask_scores(VolumeBinding(OfflineHandle(state), args), pod, state)


@pytest.mark.feature("VolumeBinding: scoring")
@pytest.mark.parametrize(
    ("points", "expected"),
    [
        pytest.param(FULLER, {"a": 100, "b": 50, "c": 33}, id="prefer high utilization"),
        pytest.param(EMPTIER, {"a": 0, "b": 50, "c": 67}, id="prefer low utilization"),
    ],
)
def test_score_of_existing_volumes(points, expected):
    volumes = [
        volume(f"v-{node}", size=size, nodes=[node]) for node, size in zip("abc", ("1Gi", "2Gi", "3Gi"), strict=True)
    ]
    assert scores(points, claim("c"), storage_class(), *volumes, pod=using("c")) == expected


@pytest.mark.feature("VolumeBinding: scoring")
def test_classes_have_equal_weight():
    volumes = [volume("v", size="1Gi", nodes=["a"]), volume("w", "fast", size="4Gi", nodes=["a"])]
    objects = [claim("c"), claim("d", "fast"), storage_class(), storage_class("fast")]
    state = scores(FULLER, *objects, *volumes, pod=using("c", "d"))
    assert state["a"] == 63  # 100 and 25, rounded half up


@pytest.mark.feature("VolumeBinding: scoring")
def test_provisioned_volumes_share_the_capacity():
    capacities = [csi_capacity("r-a", "4Gi", "a"), csi_capacity("r-b", "2Gi", "b"), csi_capacity("r-c", "1Gi", "c")]
    objects = [claim("c", "made"), claim("d", "made"), MADE, csi_driver("disk.example.com"), *capacities]
    assert scores(FULLER, *objects, pod=using("c", "d")) == {"a": 50, "b": 100, "c": 100}


@pytest.mark.feature("VolumeBinding: scoring")
def test_no_score_without_a_shape():
    assert scores([], claim("c"), storage_class(), volume("v"), pod=using("c")) is None
