"""Scoring by InterPodAffinity: preferred terms of the pod and of existing pods."""

from __future__ import annotations

import pytest

from bayplan.plugins.arguments import InterPodAffinityArgs
from bayplan.plugins.inter_pod_affinity.plugin import InterPodAffinity
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing.asking import ask_scores
from bayplan.testing.builders import make_cluster, make_namespace, make_node, make_pod, pod_affinity, pod_term

NODES = (
    make_node("a1", labels={"zone": "a", "region": "north"}),
    make_node("a2", labels={"zone": "a", "region": "north"}),
    make_node("b1", labels={"zone": "b", "region": "north"}),
    make_node("c1", labels={"region": "south"}),
)
WEB, DB = {"app": "web"}, {"app": "db"}
HOST = "kubernetes.io/hostname"
DEFAULTS = InterPodAffinityArgs()


def likes(weight, labels, key="zone", **fields):
    return pod_affinity(preferred=[(weight, pod_term(key, labels, **fields))])


def dislikes(weight, labels, key="zone", **fields):
    return pod_affinity(preferred=[(weight, pod_term(key, labels, **fields))], anti=True)


def on(node, labels=WEB, name="there", **more):
    return make_pod(name, node=node, labels=labels, **more)


def ask(pod, *objects, args=DEFAULTS, feasible=None):
    state = make_cluster(*NODES, *objects).state
    return ask_scores(InterPodAffinity(OfflineHandle(state), args), pod, state, feasible)


def wanting(affinity, labels=None, **more):
    return make_pod("pending", affinity=affinity, labels=labels, **more)


def scores(a1, a2, b1, c1):
    return {"a1": a1, "a2": a2, "b1": b1, "c1": c1}


@pytest.mark.feature("InterPodAffinity: preferred affinity and anti-affinity")
@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(wanting(None), [on("a1")], None, id="no preferences"),
        pytest.param(wanting(likes(5, WEB)), [], None, id="no pods"),
        pytest.param(wanting(likes(5, WEB)), [on("a1", DB)], None, id="no match"),
        pytest.param(wanting(likes(5, WEB)), [on("c1")], None, id="match in no domain"),
        pytest.param(wanting(likes(5, WEB)), [on("gone")], None, id="node of the match deleted"),
        pytest.param(wanting(likes(5, WEB)), [on("a1")], scores(100, 100, 0, 0), id="affinity by zone"),
        pytest.param(wanting(likes(5, WEB, HOST)), [on("a1")], scores(100, 0, 0, 0), id="the node"),
        pytest.param(
            wanting(likes(5, WEB)),
            [on("a1"), on("a2", name="two"), on("b1", name="three")],
            scores(100, 100, 50, 0),
            id="by the number of pods",
        ),
        pytest.param(wanting(dislikes(5, WEB)), [on("a1")], scores(0, 0, 100, 100), id="anti-affinity by zone"),
        pytest.param(
            wanting({**likes(5, DB), **dislikes(3, WEB)}),
            [on("a1"), on("b1", DB, name="db")],
            scores(0, 0, 100, 37),
            id="both: -3, 5 and 0, rounded down",
        ),
        pytest.param(
            wanting({**likes(5, WEB), **dislikes(5, WEB, HOST)}),
            [on("a1")],
            scores(0, 100, 0, 0),
            id="near, but not on the same node",
        ),
        pytest.param(
            wanting({**likes(5, WEB), **dislikes(5, WEB)}), [on("a1")], scores(0, 0, 0, 0), id="both, same match"
        ),
        pytest.param(
            wanting(pod_affinity(preferred=[(8, pod_term("region", WEB)), (2, pod_term(HOST, WEB))])),
            [on("a1")],
            scores(100, 80, 80, 0),
            id="two terms add up",
        ),
        pytest.param(wanting(likes(5, WEB)), [on("a1"), on("b1", name="two")], scores(100, 100, 100, 0), id="alike"),
        pytest.param(wanting(pod_affinity(pod_term("zone", WEB))), [on("a1")], None, id="required terms are ignored"),
        pytest.param(wanting(likes(5, WEB)), [on("a1", terminating=True)], scores(100, 100, 0, 0), id="being deleted"),
        pytest.param(wanting(likes(5, WEB)), [on("a1", namespace="other")], None, id="in another namespace"),
        pytest.param(wanting(likes(5, None)), [on("a1")], None, id="no selector"),
    ],
)
def test_preferences(pod, there, expected):
    assert ask(pod, *there) == expected


@pytest.mark.feature("InterPodAffinity: terms of existing pods, scores")
@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param([on("a1", affinity=likes(5, WEB))], scores(100, 100, 0, 0), id="affinity to the pod"),
        pytest.param([on("a1", affinity=likes(5, DB))], None, id="affinity to others"),
        pytest.param([on("a1", affinity=dislikes(5, WEB))], scores(0, 0, 100, 100), id="anti-affinity to the pod"),
        pytest.param(
            [on("a1", affinity=likes(5, WEB)), on("b1", affinity=likes(2, WEB), name="two")],
            scores(100, 100, 40, 0),
            id="two pods with affinity",
        ),
        pytest.param(
            [on("a1", affinity=likes(5, WEB)), on("a2", affinity=dislikes(5, WEB), name="two")],
            scores(0, 0, 0, 0),
            id="weights that cancel out are scored",
        ),
        pytest.param([on("c1", affinity=likes(5, WEB))], None, id="in no zone"),
        pytest.param([on("a1", affinity=likes(5, WEB), namespace="other")], None, id="of another namespace"),
        pytest.param([on("a1", affinity=pod_affinity(pod_term("zone", WEB), anti=True))], None, id="required anti"),
    ],
)
def test_preferences_of_existing_pods(there, expected):
    assert ask(make_pod("pending", labels=WEB), *there) == expected


NEEDS = on("a1", affinity=pod_affinity(pod_term("zone", WEB)))
LIKES_TOO = on("b1", affinity=likes(4, WEB), name="two")


@pytest.mark.feature("InterPodAffinity: hardPodAffinityWeight")
@pytest.mark.parametrize(
    ("weight", "there", "expected"),
    [
        pytest.param(1, [NEEDS], scores(100, 100, 0, 0), id="the default"),
        pytest.param(0, [NEEDS], None, id="0 ignores them"),
        pytest.param(0, [NEEDS, LIKES_TOO], scores(0, 0, 100, 0), id="0 with a preference"),
        pytest.param(1, [NEEDS, LIKES_TOO], scores(25, 25, 100, 0), id="1 with a preference"),
        pytest.param(100, [NEEDS, LIKES_TOO], scores(100, 100, 4, 0), id="100 with a preference"),
    ],
)
def test_hard_pod_affinity_weight(weight, there, expected):
    args = InterPodAffinityArgs(hardPodAffinityWeight=weight)
    assert ask(make_pod("pending", labels=WEB), *there, args=args) == expected


IGNORING = InterPodAffinityArgs(ignorePreferredTermsOfExistingPods=True)


@pytest.mark.feature("InterPodAffinity: ignorePreferredTermsOfExistingPods")
@pytest.mark.parametrize(
    ("affinity", "there", "expected"),
    [
        pytest.param(None, [LIKES_TOO], None, id="no preferences: skipped"),
        pytest.param(None, [NEEDS], None, id="required terms of others: skipped"),
        pytest.param(pod_affinity(pod_term("zone", WEB)), [NEEDS], None, id="own required terms: skipped"),
        pytest.param(likes(4, DB), [LIKES_TOO], scores(0, 0, 100, 0), id="own preferences: all terms count"),
        pytest.param(dislikes(4, WEB), [LIKES_TOO], scores(0, 0, 0, 0), id="own preferred anti-affinity"),
    ],
)
def test_ignoring_preferences_of_existing_pods(affinity, there, expected):
    assert ask(make_pod("pending", labels=WEB, affinity=affinity), *there, args=IGNORING) == expected


RED = make_namespace("red", team="red")
TEAM_RED = {"namespaceSelector": {"matchLabels": {"team": "red"}}}


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
@pytest.mark.parametrize(
    ("fields", "found"),
    [
        pytest.param({"namespaces": ["red"]}, True, id="named"),
        pytest.param(TEAM_RED, True, id="selected"),
        pytest.param({**TEAM_RED, "namespaces": ["blue"]}, True, id="named or selected"),
        pytest.param({"namespaceSelector": {}}, True, id="all"),
        pytest.param({"namespaces": ["blue"]}, False, id="another"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False, id="not selected"),
    ],
)
def test_namespaces_of_preferences(fields, found):
    expected = scores(100, 100, 0, 0) if found else None
    assert ask(wanting(likes(5, WEB, **fields)), RED, on("a1", namespace="red")) == expected
    likes_it = on("a1", affinity=likes(5, WEB, **fields), namespace="blue")
    assert ask(make_pod("pending", labels=WEB, namespace="red"), RED, likes_it) == expected


@pytest.mark.feature("InterPodAffinity: preferred affinity and anti-affinity")
def test_only_feasible_nodes_are_normalized():
    there = [on("a1", DB), on("b1", name="two"), on("b1", name="three")]
    pod = wanting(pod_affinity(preferred=[(1, pod_term("zone", WEB)), (1, pod_term("zone", DB))]))
    assert ask(pod, *there) == scores(50, 50, 100, 0)
    assert ask(pod, *there, feasible=["c1", "a1"]) == {"c1": 0, "a1": 100}
