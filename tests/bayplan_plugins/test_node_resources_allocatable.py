"""NodeResourcesAllocatable: upstream's table, and the contract."""

from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.testing import ask_scores, check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.node_resources_allocatable import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
    WeighedResource,
)

CASES = vectors("node_resources_allocatable", "TestNodeResourcesAllocatable")


def arguments(case):
    resources = [{"name": name, "weight": weight} for name, weight in case.get("resources", {}).items()]
    return NodeResourcesAllocatableArgs(
        resources=[WeighedResource(**each) for each in resources], mode=case.get("mode", "")
    )


@cases("case", {name: case for name, case in CASES.items() if "scores" in case})
def test_upstreams_scores(case):
    nodes = [make_node(f"n{each}", cpu=f"{cpu}m", memory=str(size)) for each, (cpu, size) in enumerate(case["nodes"])]
    others = [make_pod("used", node="n0", cpu=f"{case['used']}m")] if "used" in case else []
    pod = make_pod("new", cpu=f"{case.get('requested', 0)}m")
    found = ask_scores(NodeResourcesAllocatable(arguments(case)), pod, make_cluster(*nodes, *others).state)
    assert list(found.values()) == case["scores"]


@cases("case", {name: case for name, case in CASES.items() if "error" in case})
def test_upstreams_errors(case):
    assert [str(fault) for fault in arguments(case).faults()] == [case["error"]]


def test_another_mode_is_told():
    (fault,) = NodeResourcesAllocatableArgs(mode="Median").faults()
    assert str(fault) == 'mode: Invalid value: "Median": invalid support ModeType'


def test_a_resource_that_the_scheduler_does_not_count_is_none_of_a_node():
    args = arguments({"resources": {"cpu": 1, "unknown": 3}, "mode": "Most"})
    state = make_cluster(make_node("a", cpu="1"), make_node("b", cpu="2")).state
    assert ask_scores(NodeResourcesAllocatable(args), make_pod("p"), state) == {"a": 0, "b": 100}


def test_the_contract_holds():
    nodes = [make_node("a", cpu="1"), make_node("b", cpu="2")]
    check_contract(NodeResourcesAllocatable(NodeResourcesAllocatableArgs()), objects=nodes, examples=30)
