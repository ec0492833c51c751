"""NodeResourcesAllocatable: upstream's tables, arithmetic as in Go, and the contract."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.testing import ask_scores, check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.go_arithmetic import divided, rounded, scaled
from bayplan_plugins.node_resources_allocatable import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
    WeighedResource,
)


def arguments(mode="Least", weights=None):
    resources = [] if weights is None else [WeighedResource("cpu", weights[0]), WeighedResource("memory", weights[1])]
    return NodeResourcesAllocatableArgs(mode=mode, resources=resources)


def pod(name, amounts, node=""):
    return make_pod(name, cpu=f"{amounts[0]}m", memory=str(amounts[1]), **({"node": node} if node else {}))


def scores(args, nodes, pods=(), new=None):
    plugin = NodeResourcesAllocatable(args)
    cluster = make_cluster(*nodes, *pods, plugins=[])
    return list(ask_scores(plugin, new or make_pod("new"), cluster.state).values())


@cases("case", vectors("node_resources_allocatable", "TestNodeResourcesAllocatable"))
def test_upstreams_cases(case):
    nodes = [make_node(f"n{at}", cpu=f"{cpu}m", memory=str(memory)) for at, (cpu, memory) in enumerate(case["nodes"])]
    pods = [pod(f"p{at}", (case.get("requests", 0), 0), f"n{node}") for at, node in enumerate(case.get("pods", ()))]
    new = pod("new", case["pod"]) if "pod" in case else make_pod("new")
    assert scores(arguments(case["mode"], case.get("weights")), nodes, pods, new) == case["scores"]


@cases("case", vectors("node_resources_allocatable", "errors"))
def test_upstreams_errors(case):
    args = NodeResourcesAllocatableArgs(resources=[WeighedResource(**each) for each in case["resources"]])
    assert [str(fault) for fault in args.faults()] == [case["error"]]


def test_an_unknown_mode_is_an_error():
    faults = [str(fault) for fault in NodeResourcesAllocatableArgs(mode="Some").faults()]
    assert faults == ['mode: Invalid value: "Some": invalid support ModeType']


def test_other_resources_are_weighed_too():
    args = NodeResourcesAllocatableArgs(mode="Most", resources=[WeighedResource("example.com/gpu", 2)])
    nodes = [make_node("a", resources={"example.com/gpu": "4"}), make_node("b")]
    assert scores(args, nodes) == [100, 0]


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.integers(-(10**15), 10**15), st.integers(-(10**9), 10**9).filter(bool))
def test_quotients_are_rounded_toward_zero(dividend, divisor):
    expected = abs(dividend) // abs(divisor) * (1 if (dividend < 0) == (divisor < 0) else -1)
    assert divided(np.array([dividend]), divisor).tolist() == [expected]


@pytest.mark.parametrize(("value", "nearest"), [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (2.4, 2), (-2.6, -3)])
def test_halves_are_rounded_away_from_zero(value, nearest):
    assert rounded(np.array([value])).tolist() == [nearest]


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.lists(st.integers(-(10**12), 10**12), max_size=8))
def test_scaled_scores_keep_their_order_and_use_the_whole_range(values):
    found = scaled(np.array(values, dtype=np.int64), 1, 100).tolist()
    if len(set(values)) > 1:
        least, span = min(values), max(values) - min(values)
        assert found == [99 * (value - least) // span + 1 for value in values]
    else:
        assert found == [1] * len(values)


def test_the_contract_holds():
    check_contract(
        NodeResourcesAllocatable, objects=[make_node("a", cpu="2"), make_node("b", cpu="4")], pods=[make_pod("p")]
    )
