"""Questions about new nodes, where nodes have topologies: a new node has that of an empty one."""

import pytest
from tests.bayplan_plugins.numa_clusters import KIND, topology
from tests.bayplan_plugins.test_node_resource_topology import configured

from bayplan.answers.insight.questions.node_groups import NewNode, maker, new_nodes, node_groups
from bayplan.insight import Changes, Insight, Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import document_of
from bayplan_plugins.node_resource_topology.fingerprints import fingerprint
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch
from bayplan_plugins.node_resource_topology.topologies import read

TOLD = "nodeTopologyPodsFingerprint"
CACHED = {"cacheResyncPeriodSeconds": 5}


def full(cpu):
    """A zone of 4 CPUs of which some are left."""
    return {"available": {"cpu": cpu, "memory": "8Gi"}, "allocatable": {"cpu": "4"}}


def document(obj):
    kind, found = document_of(obj)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **found}


def guaranteed(name, cpu, **fields):
    return document(make_pod(name, resources={"cpu": cpu, "memory": "1Gi"}, **fields))


def agent():
    """A pod of a DaemonSet, which another scheduler placed."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    spec = {"nodeName": "a", "schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": "agent-x", "namespace": "default", "uid": "2", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def cluster(tmp_path, *pods, **args):
    """A node with two zones of 4 CPUs, of which 1 is left each. Its topology counts the pods there."""
    running = agent()
    told = {TOLD: fingerprint([("default", "agent-x")])}
    node = document(make_node("a", cpu="8", memory="16Gi", labels={"pool": "numa"}))
    objects = [node, running, topology("a", [full("1"), full("1")], attributes=told), *pods]
    return Insight(Snapshot.of(objects), configured(tmp_path, **args))


def answer(insight, name):
    return [each.change.text for each in insight.explain(f"default/{name}").help]


@pytest.mark.parametrize("args", [{}, CACHED], ids=str)
def test_a_new_node_helps_a_pod_only_if_a_zone_of_an_empty_one_has_room(tmp_path, args):
    insight = cluster(tmp_path, guaranteed("fits", "3"), guaranteed("never", "6"), **args)
    assert "add a node like a" in answer(insight, "fits")
    assert not any("add a node" in text for text in answer(insight, "never"))


@pytest.mark.parametrize(("args", "placed"), [({}, 6), (CACHED, 3)], ids=str)
def test_added_nodes_have_room_in_their_zones(tmp_path, args, placed):
    """With the cache, what is placed counts in each zone of its node, so that one pod of 3 CPUs fits there."""
    pods = [guaranteed(f"p{number}", "3") for number in range(7)]
    found = cluster(tmp_path, *pods, **args).what_if(Changes(add_nodes=["3xlike:a"]))
    after = [each["after"] for each in found.to_dict()["pods"] if each["pod"].startswith("default/p")]
    assert after.count("placed") == placed


def test_the_topology_of_a_new_node_counts_the_pods_there(tmp_path):
    world = cluster(tmp_path, **CACHED).world
    world.reset()
    made = [NewNode("later", "", tuple(maker(world, 0)("later"))), next(new_nodes(world, node_groups(world)[0]))]
    for new in made:
        new.add_to(world)
        topology = read(world.state.objects[KIND][f"default/{new.name}"])
        assert [zone.available["cpu"] for zone in topology.zones] == [4000, 4000]
        assert topology.fingerprint == fingerprint([("default", f"agent-x-{new.name}")])


def test_a_plugin_that_fails_costs_its_objects_only(tmp_path, monkeypatch):
    def fails(self, node):
        raise ValueError("no such node")

    monkeypatch.setattr(NodeResourceTopologyMatch, "objects_like", fails)
    insight = cluster(tmp_path, guaranteed("p", "3"))
    assert answer(insight, "p") == ["add a node like a"]
    assert insight.world.failures.counts["plugin NodeResourceTopologyMatch in NodeObjects", "ValueError"]
