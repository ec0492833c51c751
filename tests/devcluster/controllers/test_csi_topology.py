from __future__ import annotations

import pytest
from lightkube.models.core_v1 import Node, PersistentVolumeClaim
from lightkube.models.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tests.support.storage_documents import DRIVER, ZONE, allowed, claim, storage_class

from bayplan.api.objects import convert
from bayplan.devcluster.controllers.csi_topology import (
    CannotProvision,
    allowed_places,
    has_room,
    place_for_node,
    places_for_anybody,
)

RACK = "example.com/rack"


def node(name, **labels):
    return convert(
        Node, {"metadata": {"name": name, "labels": {f"topology.kubernetes.io/{k}": labels[k] for k in labels}}}
    )


def csi(name, *keys, driver=DRIVER):
    drivers = [{"name": driver, "nodeID": name, "topologyKeys": list(keys)}]
    return convert(CSINode, {"metadata": {"name": name}, "spec": {"drivers": drivers}})


def of(**fields):
    return convert(StorageClass, storage_class("made", **fields))


def room(capacity, zone, *, largest=None, storage_class_name="made"):
    document = {
        "metadata": {"name": "r"},
        "storageClassName": storage_class_name,
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": capacity,
    }
    return convert(CSIStorageCapacity, {**document, **({"maximumVolumeSize": largest} if largest else {})})


@pytest.mark.parametrize(
    ("fields", "csi_node", "expected"),
    [
        pytest.param({}, None, {}, id="a driver that is everywhere"),
        pytest.param({}, csi("a", ZONE), {ZONE: "z1"}, id="the driver's keys"),
        pytest.param({}, csi("a", ZONE, driver="other"), {}, id="another driver's keys"),
        pytest.param(allowed(ZONE, "z1", "z2"), None, {ZONE: "z1"}, id="the class's keys"),
        pytest.param(allowed(ZONE, "z1"), csi("a", ZONE), {ZONE: "z1"}, id="both"),
        pytest.param(allowed(ZONE, "z2"), None, "is not in allowed topologies", id="not allowed there"),
        pytest.param(allowed(RACK, "r1"), None, f'node "a" lacks the topology labels {RACK}', id="without the label"),
    ],
)
def test_topology_for_a_selected_node(fields, csi_node, expected):
    where = node("a", zone="z1", region="r")
    if isinstance(expected, str):
        with pytest.raises(CannotProvision, match=expected):
            place_for_node(DRIVER, of(**fields), where, csi_node)
    else:
        assert place_for_node(DRIVER, of(**fields), where, csi_node) == expected


@pytest.mark.parametrize(
    ("fields", "csi_nodes", "expected"),
    [
        pytest.param({}, [], [{}], id="a driver that is everywhere"),
        pytest.param({}, [csi("a", ZONE)], [{ZONE: "z1"}, {ZONE: "z2"}], id="the zones of nodes"),
        pytest.param(allowed(ZONE, "z2", "z9"), [csi("a", ZONE)], [{ZONE: "z2"}, {ZONE: "z9"}], id="the allowed ones"),
        pytest.param({}, [csi("a", RACK)], "no node has the topology labels", id="no node has the label"),
    ],
)
def test_topologies_for_an_unused_claim(fields, csi_nodes, expected):
    nodes = [node("a", zone="z1"), node("b", zone="z2"), node("c", zone="z2"), node("d")]
    if isinstance(expected, str):
        with pytest.raises(CannotProvision, match=expected):
            places_for_anybody(DRIVER, of(**fields), "c", nodes, csi_nodes)
    else:
        assert sorted(places_for_anybody(DRIVER, of(**fields), "c", nodes, csi_nodes), key=str) == expected


def test_claims_of_a_stateful_set_get_topologies_in_turn():
    zones = [f"z{number}" for number in range(3)]
    first = [
        places_for_anybody(DRIVER, of(**allowed(ZONE, *zones)), f"data-web-{number}", (), ())[0][ZONE]
        for number in range(4)
    ]
    assert sorted(first[:3]) == zones
    assert first[3] == first[0]


def test_allowed_topologies_are_the_combinations_of_a_term():
    term = {"matchLabelExpressions": [{"key": ZONE, "values": ["1", "2"]}, {"key": RACK, "values": ["r"]}]}
    found = allowed_places(of(allowedTopologies=[term, {}]))
    assert found == [{ZONE: "1", RACK: "r"}, {ZONE: "2", RACK: "r"}]


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        pytest.param([], True, id="no capacity objects"),
        pytest.param([room("1Gi", "z1", storage_class_name="other")], True, id="capacity of another class"),
        pytest.param([room("1Gi", "z1")], True, id="just enough"),
        pytest.param([room("1Mi", "z1")], False, id="too little"),
        pytest.param([room("9Gi", "z2")], False, id="elsewhere"),
        pytest.param([room("9Gi", "z1", largest="1Mi")], False, id="enough, but not in one piece"),
    ],
)
def test_capacity_of_a_topology(capacities, expected):
    wanted = convert(PersistentVolumeClaim, claim("c", "made", "1Gi"))
    assert has_room(capacities, of(), wanted, {ZONE: "z1"}) is expected
