"""Scoring by PodTopologySpread."""

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.framework.status import PluginError
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
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


ZONES, HOSTS = soft("zone", WEB), soft(HOST, WEB)


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
@cases(
    "constraints, there, expected",
    {
        "no constraints, no source of defaults": ([], pods(a1=1), None),
        "DoNotSchedule only": ([spread_over("zone", WEB)], pods(a1=1), None),
        "no pods": ([HOSTS], [], scores(100, 100, 100, 100)),
        "all equal": ([HOSTS], pods(a1=1, a2=1, b1=1, b2=1), scores(100, 100, 100, 100)),
        "nodes 2/1/0/3": ([HOSTS], pods(a1=2, a2=1, b2=3), scores(20, 60, 100, 0)),
        "skew 2": ([soft(HOST, WEB, max_skew=2)], pods(a1=2, a2=1, b2=3), scores(33, 66, 100, 16)),
        "skew 3": ([soft(HOST, WEB, max_skew=3)], pods(a1=2, a2=1, b2=3), scores(42, 71, 100, 28)),
        "zones 3/1": ([ZONES], pods(a1=2, a2=1, b2=1), scores(25, 25, 100, 100)),
        "zones 2/0": ([ZONES], pods(a1=2), scores(0, 0, 100, 100)),
        "zones 2/1, nodes 2/0/1/0": ([ZONES, HOSTS], pods(a1=2, b1=1), scores(16, 66, 66, 100)),
        "separate selectors": (
            [ZONES, soft(HOST, DB)],
            [*pods(a1=1), *pods(labels=DB, prefix="db-", b1=1)],
            scores(50, 50, 0, 100),
        ),
        "no selector": ([soft(HOST)], pods(a1=2), scores(100, 100, 100, 100)),
        "empty selector matches none": ([soft(HOST, {})], pods(a1=2), scores(100, 100, 100, 100)),
        "other pods are ignored": ([HOSTS], pods(labels=DB, a1=2), scores(100, 100, 100, 100)),
        "other namespaces are ignored": (
            [HOSTS],
            [make_pod("there", node="a1", labels=WEB, namespace="other")],
            scores(100, 100, 100, 100),
        ),
        "minDomains has no effect": ([soft(HOST, WEB, minDomains=9)], pods(a1=1), scores(0, 100, 100, 100)),
    },
)
def test_schedule_anyway(constraints, there, expected):
    assert ask(constraints, *there) == expected


@pytest.mark.feature("PodTopologySpread: terminating pods")
def test_terminating_pods_are_not_scored():
    there = make_pod("there", node="a1", labels=WEB, terminating=True)
    assert ask([HOSTS], there) == scores(100, 100, 100, 100)
    assert ask([ZONES], there) == scores(100, 100, 100, 100)


@pytest.mark.feature("PodTopologySpread: ScheduleAnyway, some nodes feasible")
@cases(
    "constraints, there, feasible, expected",
    {
        "one node": ([HOSTS], pods(a1=2, b1=1), ["b2"], {"b2": 100}),
        "nodes 3/2/1": ([HOSTS], pods(a1=4, a2=3, b1=2, b2=1), ["a2", "b1", "b2"], {"a2": 40, "b1": 80, "b2": 100}),
        "pods on infeasible nodes count for the zone": (
            [ZONES],
            pods(a1=1, a2=3, b1=1),
            ["a1", "b1"],
            {"a1": 16, "b1": 100},
        ),
        "one zone": ([ZONES, HOSTS], pods(a1=1, b2=2), ["a1", "a2"], {"a1": 50, "a2": 100}),
    },
)
def test_feasible_nodes(constraints, there, feasible, expected):
    assert ask(constraints, *there, feasible=feasible) == expected


@pytest.mark.feature("PodTopologySpread: nodes without the label")
@cases(
    "constraints, there, expected",
    {
        "score 0": ([ZONES], pods(a1=1), {"a1": 0, "b1": 100, "nowhere": 0}),
        "their pods are not counted": ([ZONES], pods(nowhere=9, a1=0), {"a1": 100, "b1": 100, "nowhere": 0}),
        "all nodes score 0": ([soft("rack", WEB)], pods(a1=1), {"a1": 0, "b1": 0, "nowhere": 0}),
        "one of two": ([ZONES, HOSTS], pods(nowhere=9), {"a1": 100, "b1": 100, "nowhere": 0}),
    },
)
def test_nodes_without_the_label(constraints, there, expected):
    nodes = (NODES[0], NODES[2], make_node("nowhere"))
    assert ask(constraints, *there, nodes=nodes) == expected


TAINTED = (*NODES[:3], make_node("b2", labels={"zone": "b"}, taints=["dedicated=x:NoSchedule"]))


@pytest.mark.feature("PodTopologySpread: node affinity policy")
@cases(
    "policy, expected",
    {"pods on b2 are ignored": ("Honor", scores(100, 100, 100, 100)), "counted": ("Ignore", scores(100, 100, 0, 0))},
)
def test_node_affinity_policy(policy, expected):
    constraint = soft("zone", WEB, nodeAffinityPolicy=policy)
    term = {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["b2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    assert ask([constraint], *pods(b2=2), affinity=affinity) == expected
    selecting = {"node_selector": {HOST: "b1"}}
    assert ask([constraint], *pods(b2=2), **selecting) == expected


@pytest.mark.feature("PodTopologySpread: node taints policy")
@cases(
    "policy, tolerations, expected",
    {
        "pods on b2 are ignored": ("Honor", [], scores(100, 100, 100, 100)),
        "tolerated: counted": ("Honor", [{"key": "dedicated", "operator": "Exists"}], scores(100, 100, 0, 0)),
        "counted": ("Ignore", [], scores(100, 100, 0, 0)),
    },
)
def test_node_taints_policy(policy, tolerations, expected):
    constraint = soft("zone", WEB, nodeTaintsPolicy=policy)
    assert ask([constraint], *pods(b2=2), nodes=TAINTED, tolerations=tolerations) == expected


@pytest.mark.feature("PodTopologySpread: ScheduleAnyway")
def test_policies_do_not_affect_counts_by_hostname():
    constraint = soft(HOST, WEB, nodeTaintsPolicy="Honor")
    assert ask([constraint], *pods(b2=2), nodes=TAINTED) == scores(100, 100, 100, 0)


@pytest.mark.feature("PodTopologySpread: matchLabelKeys")
@cases(
    "labels, keys, expected",
    {
        "unset": (WEB, [], scores(0, 100, 100, 100)),
        "another version": (WEB, ["version"], scores(100, 100, 100, 100)),
        "with an empty selector": ({}, ["app"], scores(0, 100, 100, 100)),
        "no selector": (None, ["app"], scores(100, 100, 100, 100)),
    },
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
