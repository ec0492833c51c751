"""Compares whole-table filters and scores with simple loops over nodes that compute with Go's integers."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.framework.interface import CycleState
from bayplan.core.plugins.arguments import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from bayplan.core.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit, scoring_request
from bayplan.testing.builders import make_cluster, make_node, make_pod

GPU = "example.com/gpu"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)

amount = st.one_of(st.integers(0, 20), st.integers(0, 2**50))


def amounts(least=0):
    """CPU in millicores, other resources in whole units; a resource may be missing."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(RESOURCES, amount.map(lambda n: max(n, least))))


def written(units):
    """Return the amounts as Kubernetes writes them."""
    return {name: f"{number}m" if name == "cpu" else str(number) for name, number in units.items()}


@st.composite
def clusters(draw):
    objects = []
    for number in range(draw(st.integers(1, 6))):
        has = written(draw(amounts()))
        node = make_node(f"n{number}", pods=draw(st.integers(0, 3)), cpu="0", memory="0", resources=has)
        objects.append(node)
        objects += [
            make_pod(f"p{number}-{index}", node=f"n{number}", resources=written(draw(amounts())))
            for index in range(draw(st.integers(0, 2)))
        ]
    return make_cluster(*objects)


weights = st.lists(
    st.tuples(st.sampled_from(RESOURCES), st.integers(1, 100)), min_size=1, unique_by=lambda each: each[0]
)
pods = amounts().map(lambda units: make_pod("waiting", resources=written(units)))


def nonzero(pod, name):
    return {"cpu": pod.nonzero_cpu, "memory": pod.nonzero_memory}.get(name, pod.requested.get(name, 0))


def requested(pod, name):
    return pod.requested.get(name, 0)


def considered(node, pod_asks, name, of):
    """The allocatable, allocated and requested amounts of a resource that counts on this node, else None."""
    allocatable = node.allocatable.get(name, 0)
    if allocatable == 0 or (name == GPU and not pod_asks.get(name, 0)):
        return None
    allocated = sum(of(pod, name) for pod in node.pods)
    return allocatable, allocated, allocated + pod_asks.get(name, 0)


@settings(max_examples=150)
@given(clusters(), pods)
def test_fit_filter(cluster, pod):
    plugin, cycle, nodes = NodeResourcesFit(), CycleState(), cluster.state.nodes
    plugin.pre_filter(cycle, pod, nodes)
    rejections = plugin.filter_nodes(cycle, pod, nodes)
    for position in range(len(nodes)):
        node = nodes.info(position)
        reasons, beyond = [], False
        if len(node.pods) + 1 > node.allowed_pods:
            reasons.append("Too many pods")
        for name, wanted in pod.requested.items():
            allocatable = node.allocatable.get(name, 0)
            if wanted > 0 and wanted > allocatable - node.requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                beyond |= wanted > allocatable
        index = 0 if rejections is None else int(rejections.index[position])
        assert bool(index) == bool(reasons)
        status = rejections.statuses[index - 1] if index else None
        assert plugin.filter(cycle, pod, node) == status
        if status is not None:
            assert sorted(status.reasons) == sorted(reasons)
            assert (status.code.name == "UNSCHEDULABLE_AND_UNRESOLVABLE") is beyond


def plain_strategy(kind, curve, parts):
    """(weight, allocatable, allocated, taken) of every resource that counts, to a score."""
    total = weight_sum = 0
    for weight, allocatable, _, taken in parts:
        if kind == "LeastAllocated":
            score = 0 if taken > allocatable else (allocatable - taken) * 100 // allocatable
        elif kind == "MostAllocated":
            score = min(taken, allocatable) * 100 // allocatable
        else:
            score = curve(100 if taken > allocatable else taken * 100 // allocatable)
            if score <= 0:
                continue
        total += score * weight
        weight_sum += weight
    if not weight_sum:
        return 0
    if kind == "RequestedToCapacityRatio":
        return math.floor(total / weight_sum + 0.5)
    return total // weight_sum


@settings(max_examples=150)
@given(clusters(), pods, weights, st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
def test_fit_score(cluster, pod, resources, kind):
    shape = RequestedToCapacityRatioParam([UtilizationShapePoint(20, 1), UtilizationShapePoint(80, 9)])
    ratio = shape if kind == "RequestedToCapacityRatio" else None
    strategy = ScoringStrategy(kind, [ResourceSpec(*each) for each in resources], ratio)
    nodes = cluster.state.nodes
    plugin = NodeResourcesFit(NodeResourcesFitArgs(scoringStrategy=strategy))
    scores = plugin.score_nodes(CycleState(), pod, nodes)
    asked = scoring_request(pod)
    for position in range(len(nodes)):
        node = nodes.info(position)
        parts = [
            (weight, *found)
            for name, weight in resources
            if (found := considered(node, asked, name, nonzero)) is not None
        ]
        expected = plain_strategy(kind, lambda at: 10 + 80 * (min(max(at, 20), 80) - 20) // 60, parts)
        assert scores[position] == plugin.score(CycleState(), pod, node) == expected


def plain_evenness(fractions):
    if len(fractions) < 2:
        deviation = 0.0
    elif len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean, squares = total / len(fractions), 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


@settings(max_examples=150)
@given(clusters(), pods, weights)
def test_balanced_allocation_score(cluster, pod, resources):
    args = NodeResourcesBalancedAllocationArgs(resources=[ResourceSpec(name) for name, _ in resources])
    nodes = cluster.state.nodes
    plugin = NodeResourcesBalancedAllocation(args)
    scores = plugin.score_nodes(CycleState(), pod, nodes)
    for position in range(len(nodes)):
        node = nodes.info(position)
        found = [
            considered(node, pod.requested, name, lambda each, name: each.requested.get(name, 0))
            for name, _ in resources
        ]
        parts = [each for each in found if each is not None]
        after = plain_evenness([min(taken / allocatable, 1.0) for allocatable, _, taken in parts])
        before = plain_evenness([min(allocated / allocatable, 1.0) for allocatable, allocated, _ in parts])
        asks = any(pod.requested.get(name) for name, _ in resources)
        expected = 50 + (50 + after - before) // 2 if asks else 0
        assert scores[position] == plugin.score(CycleState(), pod, node) == expected
