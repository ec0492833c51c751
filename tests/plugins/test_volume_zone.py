from __future__ import annotations

import pytest
from volumes import claim, feasible, filtered_by, plugin_of, storage_class, using, volume

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.api.objects import convert
from bayplan.framework.events import Hint
from bayplan.framework.hints import after_claim_change
from bayplan.framework.status import Code
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
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param({}, "a b old bare", id="no labels"),
        pytest.param({ZONE: "z-a"}, "a bare", id="zone; beta labels of nodes are ignored"),
        pytest.param({ZONE: "z-a__z-b"}, "a b bare", id="several zones"),
        pytest.param({ZONE: " z-a __ z-b"}, "a b bare", id="several zones with blanks"),
        pytest.param({ZONE: "z-a____z-b"}, "a b old bare", id="empty zone name: the label is ignored"),
        pytest.param({ZONE: ""}, "a b old bare", id="empty label: it is ignored"),
        pytest.param({ZONE: "z-c"}, "bare", id="a zone without nodes"),
        pytest.param({BETA_ZONE: "z-a"}, "a old bare", id="beta label matches both labels of nodes"),
        pytest.param({REGION: "r"}, "a b bare", id="a region"),
        pytest.param({BETA_REGION: "r", BETA_ZONE: "z-b"}, "b bare", id="region and zone, both beta"),
        pytest.param({REGION: "r", ZONE: "z-b"}, "b bare", id="region and zone"),
        pytest.param({REGION: "s", ZONE: "z-b"}, "bare", id="the zone, but another region"),
    ],
)
def test_filter(labels, names):
    cluster = make_cluster(*NODES, claim("c", volume="v"), volume("v", labels=labels))
    statuses = filtered_by(cluster, "VolumeZone", using("c"))
    assert feasible(statuses) == set(names.split())
    rejections = [status for status in statuses.values() if status.code is not Code.SUCCESS]
    assert {status.code for status in rejections} <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    assert {status.reasons for status in rejections} <= {("node(s) had no available volume zone",)}


@pytest.mark.feature("VolumeZone: claims that are not bound, missing or unreadable")
@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param([claim("c", volume="v")], 'persistentvolume "v" not found', id="no volume"),
        pytest.param(
            [claim("c", storage_class=None)], "PersistentVolumeClaim had no pv name and storageClass name", id="neither"
        ),
        pytest.param([claim("c")], 'storageclass.storage.k8s.io "late" not found', id="no class"),
        pytest.param(
            [claim("c"), storage_class(mode=None)], 'VolumeBindingMode not set for StorageClass "late"', id="no mode"
        ),
        pytest.param([claim("c"), storage_class(mode="Immediate")], "PersistentVolume had no name", id="unbound"),
        pytest.param([claim("c"), storage_class()], "", id="WaitForFirstConsumer"),
    ],
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
    ("mode", "hint"),
    [("WaitForFirstConsumer", Hint.QUEUE), ("Immediate", Hint.SKIP), (None, Hint.SKIP)],
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
@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, {}, Hint.QUEUE, id="new"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, Hint.QUEUE, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b__a"}, Hint.SKIP, id="the same zones"),
        pytest.param({ZONE: "a", "x": "1"}, {ZONE: "a", "x": "2"}, Hint.SKIP, id="another label"),
    ],
)
def test_hint_after_volume_change(before, after, hint):
    old, new = (
        labels if labels is None else convert(PERSISTENT_VOLUME.type, volume("v", labels=labels))
        for labels in (before, after)
    )
    assert plugin_of(make_cluster(make_node("a")), "VolumeZone").after_volume_change(using("c"), old, new) is hint
