"""PodState: upstream's table, changes of the cluster, and the contract."""

from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.core.api.kinds import POD
from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.pod_state import PodState


def scores(cluster):
    return cluster.decide(make_pod("new")).scores.plugins["PodState"].tolist()


def add(cluster, pod):
    cluster.state.objects[POD].set(pod.key, pod)
    cluster.state.set_pod(pod)


@cases("case", vectors("pod_state", "TestPodState"))
def test_upstreams_cases(case):
    nodes = [make_node(f"n{number}") for number in range(len(case["nodes"]))]
    cluster = make_cluster(*nodes, plugins=[PodState])
    for node, (terminating, nominated, others) in zip(nodes, case["nodes"], strict=True):
        name = node.metadata.name
        for each in range(terminating):
            add(cluster, make_pod(f"{name}-t{each}", node=name, terminating=True))
        for each in range(nominated):
            cluster.state.nominations.add(make_pod(f"{name}-c{each}"), name)
        for each in range(others):
            add(cluster, make_pod(f"{name}-o{each}", node=name))
    assert scores(cluster) == case["scores"]


def test_nodes_that_are_all_alike_get_no_score():
    assert scores(make_cluster(make_node("a"), make_node("b"), plugins=[PodState])) == [0, 0]


def test_a_pod_that_is_gone_counts_no_more():
    leaving = make_pod("p", node="a", terminating=True)
    cluster = make_cluster(make_node("a"), make_node("b"), leaving, plugins=[PodState])
    assert scores(cluster) == [100, 0]
    cluster.state.objects[POD].remove(leaving.key)
    assert scores(cluster) == [0, 0]


def test_the_contract_holds():
    objects = [make_node("a"), make_node("b"), make_pod("t", node="a", terminating=True)]
    check_contract(PodState, objects=objects, pods=[make_pod("p", status={"nominatedNodeName": "b"})])
