"""VolumeBinding: which changes may help, and how well volumes use the room that there is."""

from __future__ import annotations

import pytest
from volumes import claim, csi_driver, csi_node, room, storage_class, using, volume

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
from bayplan.testing import ask_scores
from bayplan.testing.builders import make_cluster, make_node
from bayplan.testing.offline import OfflineHandle

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
def test_after_a_class_changed(old, new, expected):
    assert hint(after_class_change, STORAGE_CLASS, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("pod", "new", "expected"),
    [
        pytest.param(using("c"), claim("c"), Hint.QUEUE, id="the pod's"),
        pytest.param(using(ephemeral=["e"]), claim("p-e"), Hint.QUEUE, id="of its ephemeral volume"),
        pytest.param(using("c"), claim("d"), Hint.SKIP, id="another"),
        pytest.param(using("c"), claim("c", namespace="b"), Hint.SKIP, id="of another namespace"),
    ],
)
def test_after_a_claim_changed(pod, new, expected):
    assert hint(after_claim_change, PERSISTENT_VOLUME_CLAIM, pod, None, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, csi_node("a"), Hint.QUEUE, id="new"),
        pytest.param(csi_node("a"), csi_node("a", "kubernetes.io/cinder"), Hint.QUEUE, id="a driver took over"),
        pytest.param(csi_node("a", x=1), csi_node("a", x=2), Hint.SKIP, id="a limit"),
    ],
)
def test_after_a_csi_node_changed(old, new, expected):
    assert hint(after_csi_node_change, CSI_NODE, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("driver", "before", "after", "expected"),
    [
        pytest.param("x", True, False, Hint.QUEUE, id="tells no more"),
        pytest.param("x", False, True, Hint.SKIP, id="tells from now on"),
        pytest.param("x", True, True, Hint.SKIP, id="tells as before"),
        pytest.param("y", True, False, Hint.SKIP, id="a driver of no volume in the pod"),
    ],
)
def test_after_a_driver_changed(driver, before, after, expected):
    pod = using(volumes=[{"name": "v", "csi": {"driver": "x"}}])
    old, new = (csi_driver(driver, tells_capacity=tells) for tells in (before, after))
    assert hint(after_driver_update, CSI_DRIVER, pod, old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, room("r", "1Gi"), Hint.QUEUE, id="new"),
        pytest.param(room("r", "1Gi"), room("r", "2Gi"), Hint.QUEUE, id="more"),
        pytest.param(room("r", "2Gi"), room("r", "1Gi"), Hint.SKIP, id="less"),
        pytest.param(room("r", "1Gi", largest="1Gi"), room("r", "9Gi", largest="1Gi"), Hint.SKIP, id="no larger ones"),
        pytest.param(room("r", None), room("r", "1Gi"), Hint.QUEUE, id="said for the first time"),
        pytest.param(room("r", "1Gi"), room("r", None), Hint.SKIP, id="said no more"),
    ],
)
def test_after_capacity_changed(old, new, expected):
    assert hint(after_capacity_change, CSI_STORAGE_CAPACITY, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
def test_the_events_are_those_of_upstream():
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
        pytest.param(FULLER, {"a": 100, "b": 50, "c": 33}, id="the fuller the better"),
        pytest.param(EMPTIER, {"a": 0, "b": 50, "c": 67}, id="the emptier the better"),
    ],
)
def test_volumes_that_are_there(points, expected):
    volumes = [
        volume(f"v-{node}", size=size, nodes=[node]) for node, size in zip("abc", ("1Gi", "2Gi", "3Gi"), strict=True)
    ]
    assert scores(points, claim("c"), storage_class(), *volumes, pod=using("c")) == expected


@pytest.mark.feature("VolumeBinding: scoring")
def test_classes_weigh_the_same():
    volumes = [volume("v", size="1Gi", nodes=["a"]), volume("w", "fast", size="4Gi", nodes=["a"])]
    objects = [claim("c"), claim("d", "fast"), storage_class(), storage_class("fast")]
    state = scores(FULLER, *objects, *volumes, pod=using("c", "d"))
    assert state["a"] == 63  # 100 and 25, rounded half up


@pytest.mark.feature("VolumeBinding: scoring")
def test_volumes_that_would_be_made_share_the_room():
    rooms = [room("r-a", "4Gi", "a"), room("r-b", "2Gi", "b"), room("r-c", "1Gi", "c")]
    objects = [claim("c", "made"), claim("d", "made"), MADE, csi_driver("disk.example.com"), *rooms]
    assert scores(FULLER, *objects, pod=using("c", "d")) == {"a": 50, "b": 100, "c": 100}


@pytest.mark.feature("VolumeBinding: scoring")
def test_without_a_shape_nothing_is_scored():
    assert scores([], claim("c"), storage_class(), volume("v"), pod=using("c")) is None
