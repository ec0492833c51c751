"""Scores of extended resources that are backed by devices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import cases

from bayplan.core.framework.interface import CycleState
from bayplan.core.plugins.arguments import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from bayplan.core.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.core.plugins.node_resources.devices import DeviceCounts
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.documents import known, put
from devices import DRIVER, Devices, allocated, claim, device, device_class, request, resource_slice

GPU = "example.com/gpu"
MODEL = f"device.attributes['{DRIVER}'].model == 'a'"
NODE = make_node("n1", labels={"zone": "a"})


def gpu_class(expression=f"device.driver == '{DRIVER}'"):
    return device_class(expression=expression, extendedResourceName=GPU)


def four(**spec):
    return resource_slice("s", "a", "b", "c", "d", **{"node": "n1", **spec})


def taken(*devices):
    return claim("c", request(), status=allocated(*devices))


def in_zone(*zones):
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}
    return {"nodeSelectorTerms": [term]}


def fit(objects, pod):
    """The MostAllocated score of n1, which is the same in both forms."""
    resources = [ResourceSpec(GPU), ResourceSpec("example.com/other")]
    args = NodeResourcesFitArgs(scoringStrategy=ScoringStrategy(type="MostAllocated", resources=resources))
    cluster = Devices(objects if any(not isinstance(each, dict) for each in objects) else [NODE, *objects])
    plugin, nodes = NodeResourcesFit(args, cluster.handle), cluster.state.nodes
    position = nodes.position("n1")
    score = int(plugin.score_nodes(CycleState(), pod, nodes)[position])
    assert plugin.score(CycleState(), pod, nodes.info(position)) == score
    return score


@pytest.mark.feature("NodeResourcesFit: devices")
@cases(
    "objects, score",
    {
        "none allocated": ([gpu_class(), four()], 25),
        "class without selectors": ([gpu_class(""), four()], 25),
        "two allocated": ([gpu_class(), four(), taken("a", "b")], 75),
        "one shared": (
            [gpu_class(), four(), taken({"device": "a", "shareID": "x", "consumedCapacity": {"m": "1"}})],
            50,
        ),
        "admin access": ([gpu_class(), four(), taken({"device": "a", "adminAccess": True})], 25),
        "of an incomplete pool": ([gpu_class(), four(count=3)], 25),
        "of an outdated pool": (
            [gpu_class(), four(), resource_slice("t", "a", "b", "c", "d", node="n1", generation=2)],
            12,
        ),
        "of all nodes": ([gpu_class(), four(node=None, allNodes=True)], 25),
        "of this zone": ([gpu_class(), four(node=None, nodeSelector=in_zone("a"))], 25),
        "of another zone": ([gpu_class(), four(node=None, nodeSelector=in_zone("b"))], 0),
        "of another node": ([make_node("n2"), NODE, gpu_class(), four(node="n2")], 0),
        "one place per device": (
            [
                gpu_class(),
                resource_slice(
                    "s",
                    device("a", nodeName="n1"),
                    device("b", nodeName="n2"),
                    device("c", allNodes=True),
                    device("d", nodeSelector=in_zone("a")),
                    device("e", nodeSelector=in_zone("b")),
                    perDeviceNodeSelection=True,
                ),
            ],
            33,
        ),
        "of this model": (
            [gpu_class(MODEL), resource_slice("s", device("a", a_model="a"), device("b", a_model="b"), node="n1")],
            100,
        ),
        "none if a selector fails": (
            [gpu_class(MODEL), resource_slice("s", device("a", a_model="a"), "b", node="n1")],
            0,
        ),
        "expressions do not see sharing": ([gpu_class("device.allowMultipleAllocations"), four()], 0),
        "the node's own resource takes precedence": ([make_node("n1", resources={GPU: "2"}), gpu_class(), four()], 50),
        "not backed by a class": ([device_class(), four()], 0),
    },
)
def test_devices_are_counted_if_the_node_lacks_the_resource(objects, score):
    assert fit(objects, make_pod("p", resources={GPU: "1"})) == score


@pytest.mark.feature("NodeResourcesFit: devices")
def test_device_counts_follow_slices_and_claims():
    cluster = Devices([NODE, gpu_class(), four()])
    resources = NodeResourcesFitArgs(
        scoringStrategy=ScoringStrategy(type="MostAllocated", resources=[ResourceSpec(GPU)])
    )
    plugin, pod = NodeResourcesFit(resources, cluster.handle), make_pod("p", resources={GPU: "1"})

    def score():
        return plugin.score_nodes(CycleState(), pod, cluster.state.nodes).tolist()

    assert score() == [25]
    put(cluster.state, *known(taken("a")))
    assert score() == [50]
    put(cluster.state, *known(resource_slice("s", "a", "b", node="n1")))
    assert score() == [100]
    assert plugin.rests_on(pod, cluster.state.nodes) is None
    assert plugin.rests_on(make_pod("q", cpu="1"), cluster.state.nodes) == ()


@pytest.mark.feature("NodeResourcesBalancedAllocation: devices")
def test_devices_are_balanced_with_other_resources():
    node = make_node("n1", cpu="4", memory="4Gi")
    cluster = Devices([node, gpu_class(), four(), taken("a", "b")])
    args = NodeResourcesBalancedAllocationArgs(resources=[ResourceSpec("cpu"), ResourceSpec(GPU)])
    plugin, nodes = NodeResourcesBalancedAllocation(args, cluster.handle), cluster.state.nodes
    pod = make_pod("p", cpu="4", resources={GPU: "2"})  # both shares go from 0 and 0.5 to 1
    assert plugin.score_nodes(CycleState(), pod, nodes).tolist() == [87]
    assert plugin.score(CycleState(), pod, nodes.info(0)) == 87
    assert plugin.rests_on(pod, nodes) is None


places = st.sampled_from([
    {"node": "n1"}, {"node": "n2"}, {"node": None, "allNodes": True}, {"node": None, "nodeSelector": in_zone("a")},
])  # fmt: skip
names = st.sets(st.sampled_from("abc"), min_size=1)
slices = st.one_of(
    st.builds(
        lambda name, pool, devices, place: resource_slice(name, *sorted(devices), pool=pool, **place),
        st.sampled_from("st"), st.sampled_from("pq"), names, places,
    ),
    st.builds(
        lambda node: resource_slice(
            "s", device("a", nodeName=node), device("b", allNodes=True), perDeviceNodeSelection=True
        ),
        st.sampled_from(["n1", "n2"]),
    ),
)  # fmt: skip
claims = st.builds(
    lambda name, pool, devices: claim(name, request(), status=allocated(*sorted(devices), pool=pool)),
    st.sampled_from("cd"), st.sampled_from("pq"), names,
)  # fmt: skip
some_nodes = st.builds(
    lambda name, zone: make_node(name, labels={"zone": zone}),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from("ab"),
)
changes = st.one_of(
    st.tuples(st.just("put"), st.one_of(slices, claims)),
    st.tuples(st.just("remove"), st.one_of(slices, claims)),
    st.tuples(st.just("node"), some_nodes),
    st.tuples(st.just("no node"), some_nodes),
)


@given(st.lists(changes, min_size=1, max_size=12))
def test_counts_kept_over_changes_are_those_of_a_new_start(sequence):
    cluster = Devices([NODE, make_node("n2"), gpu_class(), four()])
    kept = DeviceCounts(cluster.handle)
    for action, changed in sequence:
        if action == "node":
            cluster.state.set_node(changed)
        elif action == "no node":
            cluster.state.remove_node(changed.metadata.name)
        else:
            kind, key, each = known(changed)
            store = cluster.state.objects[kind]
            store.set(key, each) if action == "put" else store.remove(key)
        nodes, new = cluster.state.nodes, DeviceCounts(cluster.handle)
        total, taken = (column[nodes.live] for column in new.of_all(GPU, nodes))
        assert [column[nodes.live].tolist() for column in kept.of_all(GPU, nodes)] == [total.tolist(), taken.tolist()]
        live = [nodes.info(int(position)) for position in np.flatnonzero(nodes.live)]
        assert [new.of_one(GPU, node) for node in live] == list(zip(total.tolist(), taken.tolist(), strict=True))
