"""Scoring by PodTopologySpread."""

from __future__ import annotations

import pytest

from bayplan.framework.status import PluginError
from bayplan.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing.asking import ask_scores
from bayplan.testing.builders import make_cluster, make_node, make_pod, spread_over

HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}
NODES = (
    make_node("a1", labels={"zone": "a"}),
    make_node("a2", labels={"zone": "a"}),
    make_node("b1", labels={"zone": "b"}),
    make_node("b2", labels={"zone": "b"}),
)


def soft(topology_key, labels=None, **fields):
    return spread_over(topology_key, labels, hard=False, **fields)


def pods(*, labels=WEB, prefix="", **numbers):
    """A number of pods on each node."""
    return [
        make_pod(f"{prefix}{node}-{index}", node=node, labels=labels)
        for node, number in numbers.items()
        for index in range(number)
    ]


def ask(constraints, *there, feasible=None, nodes=NODES, **more):
    state = make_cluster(*nodes, *there).state
    pod = make_pod("pending", labels=WEB, spread=constraints, **more)
    return ask_scores(PodTopologySpread(OfflineHandle(state)), pod, state, feasible)


def scores(a1, a2, b1, b2):
    return {"a1": a1, "a2": a2, "b1": b1, "b2": b2}


@pytest.mark.feature("PodTopologySpread: ScheduleAnyway")
@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        pytest.param([], pods(a1=1), None, id="no constraints, no source of defaults"),
        pytest.param([spread_over("zone", WEB)], pods(a1=1), None, id="DoNotSchedule only"),
        pytest.param([soft(HOST, WEB)], [], scores(100, 100, 100, 100), id="no pods"),
        pytest.param([soft(HOST, WEB)], pods(a1=1, a2=1, b1=1, b2=1), scores(100, 100, 100, 100), id="all equal"),
        pytest.param([soft(HOST, WEB)], pods(a1=2, a2=1, b2=3), scores(20, 60, 100, 0), id="nodes 2/1/0/3"),
        pytest.param([soft(HOST, WEB, max_skew=2)], pods(a1=2, a2=1, b2=3), scores(33, 66, 100, 16), id="skew 2"),
        pytest.param([soft(HOST, WEB, max_skew=3)], pods(a1=2, a2=1, b2=3), scores(42, 71, 100, 28), id="skew 3"),
        pytest.param([soft("zone", WEB)], pods(a1=2, a2=1, b2=1), scores(25, 25, 100, 100), id="zones 3/1"),
        pytest.param([soft("zone", WEB)], pods(a1=2), scores(0, 0, 100, 100), id="zones 2/0"),
        pytest.param(
            [soft("zone", WEB), soft(HOST, WEB)],
            pods(a1=2, b1=1),
            scores(16, 66, 66, 100),
            id="zones 2/1, nodes 2/0/1/0",
        ),
        pytest.param(
            [soft("zone", WEB), soft(HOST, DB)],
            [*pods(a1=1), *pods(labels=DB, prefix="db-", b1=1)],
            scores(50, 50, 0, 100),
            id="separate selectors",
        ),
        pytest.param([soft(HOST)], pods(a1=2), scores(100, 100, 100, 100), id="no selector"),
        pytest.param([soft(HOST, {})], pods(a1=2), scores(100, 100, 100, 100), id="empty selector matches none"),
        pytest.param([soft(HOST, WEB)], pods(labels=DB, a1=2), scores(100, 100, 100, 100), id="other pods are ignored"),
        pytest.param(
            [soft(HOST, WEB)],
            [make_pod("there", node="a1", labels=WEB, namespace="other")],
            scores(100, 100, 100, 100),
            id="other namespaces are ignored",
        ),
        pytest.param(
            [soft(HOST, WEB, minDomains=9)], pods(a1=1), scores(0, 100, 100, 100), id="minDomains has no effect"
        ),
    ],
)
def test_schedule_anyway(constraints, there, expected):
    assert ask(constraints, *there) == expected


@pytest.mark.feature("PodTopologySpread: terminating pods")
def test_terminating_pods_are_not_scored():
    there = make_pod("there", node="a1", labels=WEB, terminating=True)
    assert ask([soft(HOST, WEB)], there) == scores(100, 100, 100, 100)
    assert ask([soft("zone", WEB)], there) == scores(100, 100, 100, 100)


@pytest.mark.feature("PodTopologySpread: ScheduleAnyway, some nodes feasible")
@pytest.mark.parametrize(
    ("constraints", "there", "feasible", "expected"),
    [
        pytest.param([soft(HOST, WEB)], pods(a1=2, b1=1), ["b2"], {"b2": 100}, id="one node"),
        pytest.param(
            [soft(HOST, WEB)],
            pods(a1=4, a2=3, b1=2, b2=1),
            ["a2", "b1", "b2"],
            {"a2": 40, "b1": 80, "b2": 100},
            id="nodes 3/2/1",
        ),
        pytest.param(
            [soft("zone", WEB)],
            pods(a1=1, a2=3, b1=1),
            ["a1", "b1"],
            {"a1": 16, "b1": 100},
            id="pods on infeasible nodes count for the zone",
        ),
        pytest.param(
            [soft("zone", WEB), soft(HOST, WEB)], pods(a1=1, b2=2), ["a1", "a2"], {"a1": 50, "a2": 100}, id="one zone"
        ),
    ],
)
def test_feasible_nodes(constraints, there, feasible, expected):
    assert ask(constraints, *there, feasible=feasible) == expected


@pytest.mark.feature("PodTopologySpread: nodes without the label")
@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        pytest.param([soft("zone", WEB)], pods(a1=1), {"a1": 0, "b1": 100, "nowhere": 0}, id="score 0"),
        pytest.param(
            [soft("zone", WEB)],
            pods(nowhere=9, a1=0),
            {"a1": 100, "b1": 100, "nowhere": 0},
            id="their pods are not counted",
        ),
        pytest.param([soft("rack", WEB)], pods(a1=1), {"a1": 0, "b1": 0, "nowhere": 0}, id="all nodes score 0"),
        pytest.param(
            [soft("zone", WEB), soft(HOST, WEB)], pods(nowhere=9), {"a1": 100, "b1": 100, "nowhere": 0}, id="one of two"
        ),
    ],
)
def test_nodes_without_the_label(constraints, there, expected):
    nodes = (NODES[0], NODES[2], make_node("nowhere"))
    assert ask(constraints, *there, nodes=nodes) == expected


TAINTED = (*NODES[:3], make_node("b2", labels={"zone": "b"}, taints=["dedicated=x:NoSchedule"]))


@pytest.mark.feature("PodTopologySpread: node affinity policy")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Honor", scores(100, 100, 100, 100), id="pods on b2 are ignored"),
        pytest.param("Ignore", scores(100, 100, 0, 0), id="counted"),
    ],
)
def test_node_affinity_policy(policy, expected):
    constraint = soft("zone", WEB, nodeAffinityPolicy=policy)
    term = {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["b2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    assert ask([constraint], *pods(b2=2), affinity=affinity) == expected
    selecting = {"node_selector": {HOST: "b1"}}
    assert ask([constraint], *pods(b2=2), **selecting) == expected


@pytest.mark.feature("PodTopologySpread: node taints policy")
@pytest.mark.parametrize(
    ("policy", "tolerations", "expected"),
    [
        pytest.param("Honor", [], scores(100, 100, 100, 100), id="pods on b2 are ignored"),
        pytest.param(
            "Honor", [{"key": "dedicated", "operator": "Exists"}], scores(100, 100, 0, 0), id="tolerated: counted"
        ),
        pytest.param("Ignore", [], scores(100, 100, 0, 0), id="counted"),
    ],
)
def test_node_taints_policy(policy, tolerations, expected):
    constraint = soft("zone", WEB, nodeTaintsPolicy=policy)
    assert ask([constraint], *pods(b2=2), nodes=TAINTED, tolerations=tolerations) == expected


@pytest.mark.feature("PodTopologySpread: ScheduleAnyway")
def test_policies_do_not_affect_counts_by_hostname():
    constraint = soft(HOST, WEB, nodeTaintsPolicy="Honor")
    assert ask([constraint], *pods(b2=2), nodes=TAINTED) == scores(100, 100, 100, 0)


@pytest.mark.feature("PodTopologySpread: matchLabelKeys")
@pytest.mark.parametrize(
    ("labels", "keys", "expected"),
    [
        pytest.param(WEB, [], scores(0, 100, 100, 100), id="unset"),
        pytest.param(WEB, ["version"], scores(100, 100, 100, 100), id="another version"),
        pytest.param({}, ["app"], scores(0, 100, 100, 100), id="with an empty selector"),
        pytest.param(None, ["app"], scores(100, 100, 100, 100), id="no selector"),
    ],
)
def test_match_label_keys(labels, keys, expected):
    state = make_cluster(*NODES, *pods(labels={**WEB, "version": "1"}, a1=2)).state
    constraint = soft(HOST, labels, matchLabelKeys=keys)
    pod = make_pod("pending", labels={**WEB, "version": "2"}, spread=[constraint])
    assert ask_scores(PodTopologySpread(OfflineHandle(state)), pod, state) == expected


@pytest.mark.feature("PodTopologySpread: invalid selectors")
def test_invalid_selector():
    expression = {"key": "app", "operator": "Near", "values": ["web"]}
    with pytest.raises(PluginError, match="obtaining pod's soft topology spread constraints"):
        ask([soft("zone", labelSelector={"matchExpressions": [expression]})])
