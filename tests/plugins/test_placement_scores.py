"""Scores of placements. Cases of podgroup_pods_count_test.go, and of TestScorePlacement_Resources in fit_test.go."""

import numpy as np
from tests.support.tables import cases

from bayplan.core.framework.gangs import Gang, Placement
from bayplan.core.plugins.arguments import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.core.plugins.pod_group_pods_count import PodGroupPodsCount
from bayplan.testing.builders import make_cluster, make_node, make_pod

GPU = "nvidia.com/gpu"


def node(name):
    return make_node(name, cpu="5", memory="5000", resources={GPU: "5"})


def pod(name, cpu, memory, gpu="0", on=""):
    return make_pod(name, cpu=cpu, memory=memory, resources={GPU: gpu}, node=on)


FOO, BAR = pod("foo", "1", "0"), pod("bar", "2", "2000")
RESOURCES = {
    "all requested resources": ([("cpu", 1), ("memory", 1)], "ab", [FOO, BAR], [], 25),
    "weighted": ([("cpu", 4), ("memory", 1)], "ab", [FOO, BAR], [], 28),
    "other nodes are ignored": ([("cpu", 1), ("memory", 1)], "abc", [FOO, BAR], [], 25),
    "includes existing pods": ([("cpu", 1), ("memory", 1)], "ab", [FOO, BAR], [pod("baz", "1", "0", on="a")], 30),
    "requested extended resources": (
        [("cpu", 1), ("memory", 1), (GPU, 1)],
        "ab",
        [FOO, pod("bar", "1", "2000", "1")],
        [pod("baz", "1", "0", on="a")],
        20,
    ),
    "extended resources that are not requested": (
        [("cpu", 1), ("memory", 1), (GPU, 1)],
        "ab",
        [FOO, pod("bar", "1", "2000")],
        [pod("baz", "1", "0", "1", on="a")],
        25,
    ),
}


@cases("resources, nodes, placed, there, score", RESOURCES)
def test_placement_with_high_utilization_scores_high(resources, nodes, placed, there, score):
    state = make_cluster(*map(node, nodes), *there).state
    specs = [ResourceSpec(name=name, weight=weight) for name, weight in resources]
    fit = NodeResourcesFit(
        NodeResourcesFitArgs(scoringStrategy=ScoringStrategy(type="LeastAllocated", resources=specs))
    )
    placement = Placement("r1", state.nodes.at(np.array([0, 1])))
    assert fit.score_placement(Gang("red", tuple(placed), 2), placement, placed) == score


COUNTS = {
    "the most pods score 100": ([1, 2, 4], [25, 50, 100]),
    "rounded down": ([1, 3], [33, 100]),
    "all equal": ([2, 2], [100, 100]),
}


@cases("counts, scores", COUNTS)
def test_more_pods_score_higher(counts, scores):
    normalized = PodGroupPodsCount().normalize_placement_scores(Gang("red", (), 1), np.array(counts))
    assert normalized.tolist() == scores


def test_pods_on_nodes_are_counted():
    placement = Placement("r1", make_cluster(node("a")).state.nodes)
    assert PodGroupPodsCount().score_placement(Gang("red", (), 1, placed=3), placement, [FOO, BAR]) == 5
