import pytest
from tests.support.tables import cases
from volumes import claim, feasible, filtered_by, plugin_of, storage_class, using, volume

from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.objects import convert
from bayplan.core.framework.events import Hint
from bayplan.core.framework.hints import after_claim_change
from bayplan.core.framework.status import Code
from bayplan.testing.builders import make_cluster, make_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
NODES = [
    make_node("a", labels={ZONE: "z-a", REGION: "r"}),
    make_node("b", labels={ZONE: "z-b", REGION: "r"}),
    make_node("old", labels={BETA_ZONE: "z-a", BETA_REGION: "r"}),
    make_node("bare"),
]


@pytest.mark.feature("VolumeZone: labels of volumes")
@cases(
    "labels, names",
    {
        "no labels": ({}, "a b old bare"),
        "zone; beta labels of nodes are ignored": ({ZONE: "z-a"}, "a bare"),
        "several zones": ({ZONE: "z-a__z-b"}, "a b bare"),
        "several zones with blanks": ({ZONE: " z-a __ z-b"}, "a b bare"),
        "empty zone name: the label is ignored": ({ZONE: "z-a____z-b"}, "a b old bare"),
        "empty label: it is ignored": ({ZONE: ""}, "a b old bare"),
        "a zone without nodes": ({ZONE: "z-c"}, "bare"),
        "beta label matches both labels of nodes": ({BETA_ZONE: "z-a"}, "a old bare"),
        "a region": ({REGION: "r"}, "a b bare"),
        "region and zone, both beta": ({BETA_REGION: "r", BETA_ZONE: "z-b"}, "b bare"),
        "region and zone": ({REGION: "r", ZONE: "z-b"}, "b bare"),
        "the zone, but another region": ({REGION: "s", ZONE: "z-b"}, "bare"),
    },
)
def test_filter(labels, names):
    cluster = make_cluster(*NODES, claim("c", volume="v"), volume("v", labels=labels))
    statuses = filtered_by(cluster, "VolumeZone", using("c"))
    assert feasible(statuses) == set(names.split())
    rejections = [status for status in statuses.values() if status.code is not Code.SUCCESS]
    assert {status.code for status in rejections} <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    assert {status.reasons for status in rejections} <= {("node(s) had no available volume zone",)}


@pytest.mark.feature("VolumeZone: claims that are not bound, missing or unreadable")
@cases(
    "objects, reason",
    {
        "no claim": ([], 'persistentvolumeclaim "c" not found'),
        "no volume": ([claim("c", volume="v")], 'persistentvolume "v" not found'),
        "neither": ([claim("c", storage_class=None)], "PersistentVolumeClaim had no pv name and storageClass name"),
        "no class": ([claim("c")], 'storageclass.storage.k8s.io "late" not found'),
        "no mode": ([claim("c"), storage_class(mode=None)], 'VolumeBindingMode not set for StorageClass "late"'),
        "unbound": ([claim("c"), storage_class(mode="Immediate")], "PersistentVolume had no name"),
        "WaitForFirstConsumer": ([claim("c"), storage_class()], ""),
    },
)
def test_pre_filter_rejection(objects, reason):
    statuses = set(filtered_by(make_cluster(*NODES, *objects), "VolumeZone", using("c")).values())
    assert {status.reasons for status in statuses} == {(reason,) if reason else ()}
    assert {status.code for status in statuses} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE if reason else Code.SUCCESS}


@pytest.mark.feature("VolumeZone: claims that are not bound, missing or unreadable")
def test_claim_without_a_name():
    statuses = set(filtered_by(make_cluster(*NODES), "VolumeZone", using("")).values())
    assert {status.reasons for status in statuses} == {("PersistentVolumeClaim had no name",)}


@pytest.mark.feature("VolumeZone: queueing hints")
@pytest.mark.parametrize(
    ("mode", "hint"), [("WaitForFirstConsumer", Hint.QUEUE), ("Immediate", Hint.SKIP), (None, Hint.SKIP)]
)
def test_hint_after_class_creation(mode, hint):
    new = convert(STORAGE_CLASS.type, storage_class(mode=mode))
    assert plugin_of(make_cluster(make_node("a")), "VolumeZone").after_class_add(using("c"), None, new) is hint


@pytest.mark.feature("VolumeZone: queueing hints")
@pytest.mark.parametrize(
    ("name", "namespace", "hint"),
    [("c", "default", Hint.QUEUE), ("d", "default", Hint.SKIP), ("c", "other", Hint.SKIP)],
)
def test_hint_after_claim_change(name, namespace, hint):
    new = convert(PERSISTENT_VOLUME_CLAIM.type, claim(name, namespace=namespace))
    assert after_claim_change(using("c"), None, new) is hint


@pytest.mark.feature("VolumeZone: queueing hints")
@cases(
    "before, after, hint",
    {
        "new": (None, {}, Hint.QUEUE),
        "another zone": ({ZONE: "a"}, {ZONE: "b"}, Hint.QUEUE),
        "the same zones": ({ZONE: "a__b"}, {ZONE: "b__a"}, Hint.SKIP),
        "another label": ({ZONE: "a", "x": "1"}, {ZONE: "a", "x": "2"}, Hint.SKIP),
    },
)
def test_hint_after_volume_change(before, after, hint):
    old, new = (
        labels if labels is None else convert(PERSISTENT_VOLUME.type, volume("v", labels=labels))
        for labels in (before, after)
    )
    assert plugin_of(make_cluster(make_node("a")), "VolumeZone").after_volume_change(using("c"), old, new) is hint
