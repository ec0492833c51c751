"""Pods with hundreds of terms are decided within a second, which needs an index of the pods on nodes."""

import time

import pytest
from tests.support.tables import cases

from bayplan.testing.builders import make_cluster, make_node, make_pod, pod_affinity, pod_term, spread_over

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES, PODS = 500, 6000


@pytest.fixture(scope="module")
def cluster():
    nodes = [make_node(f"n{number}", labels={ZONE: f"z{number % 5}"}) for number in range(NODES)]
    pods = [
        make_pod(f"p{number}", node=f"n{number % NODES}", labels={"app": f"app-{number % 100}", "own": str(number)})
        for number in range(PODS)
    ]
    return make_cluster(*nodes, *pods)


def chosen(number, value="kept"):
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"app-{number}", value]}]}


def all_but(number):
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"app-{number}"]}]}


def in_own_keys(number):
    return {"matchExpressions": [{"key": f"k{number}-{n}", "operator": "In", "values": ["a"]} for n in range(5)]}


def preferring(make, key):
    return {"affinity": pod_affinity(preferred=[(1, pod_term(key, labelSelector=make(n))) for n in range(300)])}


def away(make, key):
    terms = [pod_term(key.format(n), labelSelector=make(n)) for n in range(500)]
    return {"affinity": pod_affinity(*terms, anti=True)}


def on_nodes():
    terms = [in_own_keys(number) for number in range(2000)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@cases(
    "fields",
    {
        "preferred affinity terms": preferring(chosen, ZONE),
        "preferred affinity terms that match most pods": preferring(all_but, ZONE),
        "anti-affinity terms": away(chosen, HOSTNAME),
        "anti-affinity terms that match most pods": away(all_but, HOSTNAME),
        "anti-affinity terms with topology keys of their own": away(chosen, "own-{}"),
        "spread constraints with topology keys of their own": {
            "spread": [spread_over(f"own-{n}", labelSelector=chosen(n, "spread")) for n in range(500)]
        },
        "node selector terms with keys of their own": on_nodes(),
        "preempting, with anti-affinity terms": {**away(all_but, HOSTNAME), "priority": 10},
    },
)
def test_pod_is_decided_within_seconds(cluster, fields):
    """However many terms it has. The limit leaves room for a slow machine."""
    pod = make_pod("worst", labels={"app": "worst"}, **fields)
    began = time.process_time()
    cluster.decide(pod)
    assert time.process_time() - began < 3


def test_terms_of_a_running_pod_do_not_slow_down_other_pods(cluster):
    crowd = make_pod(
        "crowd", labels={"app": "crowd"}, **away(lambda number: chosen(number, f"crowd-{number}"), HOSTNAME)
    )
    cluster.state.assume(crowd, "n7")
    began = time.process_time()
    for number in range(20):
        decision = cluster.decide(make_pod(f"plain-{number}", labels={"app": f"app-{number}"}))
        assert decision.node not in {"", "n7"}
    cluster.state.forget(crowd.uid)
    assert time.process_time() - began < 1
