import pytest
from lightkube.models.core_v1 import Node, PersistentVolumeClaim
from lightkube.models.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tests.support.storage_documents import DRIVER, ZONE, allowed, claim, storage_class
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan_devcluster.controllers.csi_topology import (
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


@cases(
    "fields, csi_node, expected",
    {
        "a driver that is everywhere": ({}, None, {}),
        "the driver's keys": ({}, csi("a", ZONE), {ZONE: "z1"}),
        "another driver's keys": ({}, csi("a", ZONE, driver="other"), {}),
        "the class's keys": (allowed(ZONE, "z1", "z2"), None, {ZONE: "z1"}),
        "both": (allowed(ZONE, "z1"), csi("a", ZONE), {ZONE: "z1"}),
        "not allowed there": (allowed(ZONE, "z2"), None, "is not in allowed topologies"),
        "without the label": (allowed(RACK, "r1"), None, f'node "a" lacks the topology labels {RACK}'),
    },
)
def test_topology_for_a_selected_node(fields, csi_node, expected):
    where = node("a", zone="z1", region="r")
    if isinstance(expected, str):
        with pytest.raises(CannotProvision, match=expected):
            place_for_node(DRIVER, of(**fields), where, csi_node)
    else:
        assert place_for_node(DRIVER, of(**fields), where, csi_node) == expected


@cases(
    "fields, csi_nodes, expected",
    {
        "a driver that is everywhere": ({}, [], [{}]),
        "the zones of nodes": ({}, [csi("a", ZONE)], [{ZONE: "z1"}, {ZONE: "z2"}]),
        "the allowed ones": (allowed(ZONE, "z2", "z9"), [csi("a", ZONE)], [{ZONE: "z2"}, {ZONE: "z9"}]),
        "no node has the label": ({}, [csi("a", RACK)], "no node has the topology labels"),
    },
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


@cases(
    "capacities, expected",
    {
        "no capacity objects": ([], True),
        "capacity of another class": ([room("1Gi", "z1", storage_class_name="other")], True),
        "just enough": ([room("1Gi", "z1")], True),
        "too little": ([room("1Mi", "z1")], False),
        "elsewhere": ([room("9Gi", "z2")], False),
        "enough, but not in one piece": ([room("9Gi", "z1", largest="1Mi")], False),
    },
)
def test_capacity_of_a_topology(capacities, expected):
    wanted = convert(PersistentVolumeClaim, claim("c", "made", "1Gi"))
    assert has_room(capacities, of(), wanted, {ZONE: "z1"}) is expected
