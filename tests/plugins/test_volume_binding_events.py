"""VolumeBinding: queueing hints and scores."""

import pytest
from tests.support.tables import cases
from volumes import claim, csi_capacity, csi_driver, csi_node, storage_class, using, volume

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import CSI_DRIVER, CSI_NODE, CSI_STORAGE_CAPACITY, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.objects import convert
from bayplan.core.framework.events import Hint
from bayplan.core.plugins.arguments import UtilizationShapePoint, VolumeBindingArgs
from bayplan.core.plugins.volume_binding.hints import (
    after_capacity_change,
    after_claim_change,
    after_class_change,
    after_csi_node_change,
    after_driver_update,
    volume_events,
)
from bayplan.core.plugins.volume_binding.plugin import VolumeBinding
from bayplan.core.versions import DEFAULT_GATES
from bayplan.testing import ask_scores
from bayplan.testing.builders import make_cluster, make_node, make_pod

TERMS = [{"matchLabelExpressions": [{"key": "k", "values": ["1"]}]}]


def hint(after, kind, pod, old, new):
    old, new = (each if each is None else convert(kind.type, each) for each in (old, new))
    return after(pod, old, new)


@pytest.mark.feature("VolumeBinding: queueing hints")
@cases(
    "old, new, expected",
    {
        "new": (None, storage_class(), Hint.QUEUE),
        "other topologies": (storage_class(), storage_class(allowedTopologies=TERMS), Hint.QUEUE),
        "the same topologies": (storage_class(allowedTopologies=[]), storage_class(), Hint.SKIP),
    },
)
def test_hint_after_storage_class_change(old, new, expected):
    assert hint(after_class_change, STORAGE_CLASS, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@cases(
    "pod, new, expected",
    {
        "the pod's claim": (using("c"), claim("c"), Hint.QUEUE),
        "claim of its ephemeral volume": (using(ephemeral=["e"]), claim("p-e"), Hint.QUEUE),
        "another claim": (using("c"), claim("d"), Hint.SKIP),
        "of another namespace": (using("c"), claim("c", namespace="b"), Hint.SKIP),
    },
)
def test_hint_after_claim_change(pod, new, expected):
    assert hint(after_claim_change, PERSISTENT_VOLUME_CLAIM, pod, None, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@cases(
    "old, new, expected",
    {
        "new": (None, csi_node("a"), Hint.QUEUE),
        "plugin was migrated": (csi_node("a"), csi_node("a", "kubernetes.io/cinder"), Hint.QUEUE),
        "limit changed": (csi_node("a", x=1), csi_node("a", x=2), Hint.SKIP),
    },
)
def test_hint_after_csi_node_change(old, new, expected):
    assert hint(after_csi_node_change, CSI_NODE, using("c"), old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@cases(
    "driver, before, after, expected",
    {
        "no longer publishes capacity": ("x", True, False, Hint.QUEUE),
        "starts publishing capacity": ("x", False, True, Hint.SKIP),
        "still publishes capacity": ("x", True, True, Hint.SKIP),
        "driver of no volume in the pod": ("y", True, False, Hint.SKIP),
    },
)
def test_hint_after_driver_change(driver, before, after, expected):
    pod = using(volumes=[{"name": "v", "csi": {"driver": "x"}}])
    old, new = (csi_driver(driver, publishes_capacity=publishes) for publishes in (before, after))
    assert hint(after_driver_update, CSI_DRIVER, pod, old, new) is expected


@pytest.mark.feature("VolumeBinding: queueing hints")
@cases(
    "old, new, expected",
    {
        "new": (None, csi_capacity("r", "1Gi"), Hint.QUEUE),
        "more": (csi_capacity("r", "1Gi"), csi_capacity("r", "2Gi"), Hint.QUEUE),
        "less": (csi_capacity("r", "2Gi"), csi_capacity("r", "1Gi"), Hint.SKIP),
        "same maximum volume size": (
            csi_capacity("r", "1Gi", largest="1Gi"),
            csi_capacity("r", "9Gi", largest="1Gi"),
            Hint.SKIP,
        ),
        "capacity was added": (csi_capacity("r", None), csi_capacity("r", "1Gi"), Hint.QUEUE),
        "capacity was removed": (csi_capacity("r", "1Gi"), csi_capacity("r", None), Hint.SKIP),
    },
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


def scores(points, *objects, pod, on=True):
    state = make_cluster(*NODES, *objects).state
    args = VolumeBindingArgs(shape=[UtilizationShapePoint(*point) for point in points])
    gates = DEFAULT_GATES.but(*(["StorageCapacityScoring"] if on else []))
    return ask_scores(VolumeBinding(OfflineHandle(state), args, gates), pod, state)


@pytest.mark.feature("VolumeBinding: scoring")
@cases(
    "points, expected",
    {
        "prefer high utilization": (FULLER, {"a": 100, "b": 50, "c": 33}),
        "prefer low utilization": (EMPTIER, {"a": 0, "b": 50, "c": 67}),
    },
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
@pytest.mark.parametrize("points", [[], FULLER])
def test_no_score_without_the_gate(points):
    assert scores(points, claim("c"), storage_class(), volume("v"), pod=using("c"), on=False) is None


@pytest.mark.feature("VolumeBinding: scoring")
def test_the_default_shape_prefers_what_is_free():
    capacities = [csi_capacity("r-a", "4Gi", "a"), csi_capacity("r-b", "2Gi", "b"), csi_capacity("r-c", "1Gi", "c")]
    objects = [claim("c", "made"), MADE, csi_driver("disk.example.com"), *capacities]
    assert scores([], *objects, pod=using("c")) == {"a": 75, "b": 50, "c": 0}


@pytest.mark.feature("VolumeBinding: scoring")
@cases("size, expected", {"no overflow": ("64Pi", 50), "the percentage overflows, as in Go": ("100Pi", 100)})
def test_sizes_beyond_a_hundredth_of_64_bits(size, expected):
    there = volume("v", size=f"{int(size[:-2]) * 2}Pi", nodes=["a"])
    found = scores(EMPTIER, claim("c", size=size), storage_class(), there, pod=using("c"))
    assert found["a"] == expected


@pytest.mark.feature("VolumeBinding: scoring")
@cases(
    "pod, objects",
    {
        "no claims": (make_pod("p"), []),
        "a bound claim": (
            using("c"),
            [claim("c", volume="v"), volume("v", phase="Bound", for_claim="default/c"), storage_class()],
        ),
    },
)
def test_pods_without_new_volumes_score_nothing(pod, objects):
    assert scores(FULLER, *objects, pod=pod) == {"a": 0, "b": 0, "c": 0}
