"""Scoring by InterPodAffinity: preferred terms of the pod and of existing pods."""

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.plugins.arguments import InterPodAffinityArgs
from bayplan.core.plugins.inter_pod_affinity.plugin import InterPodAffinity
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


LIKES, DISLIKES = likes(5, WEB), dislikes(5, WEB)
IN_ZONE = pod_term("zone", WEB)


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
@cases(
    "pod, there, expected",
    {
        "no preferences": (wanting(None), [on("a1")], None),
        "no pods": (wanting(LIKES), [], None),
        "no match": (wanting(LIKES), [on("a1", DB)], None),
        "match in no domain": (wanting(LIKES), [on("c1")], None),
        "node of the match deleted": (wanting(LIKES), [on("gone")], None),
        "affinity by zone": (wanting(LIKES), [on("a1")], scores(100, 100, 0, 0)),
        "the node": (wanting(likes(5, WEB, HOST)), [on("a1")], scores(100, 0, 0, 0)),
        "by the number of pods": (
            wanting(LIKES),
            [on("a1"), on("a2", name="two"), on("b1", name="three")],
            scores(100, 100, 50, 0),
        ),
        "anti-affinity by zone": (wanting(DISLIKES), [on("a1")], scores(0, 0, 100, 100)),
        "both: -3, 5 and 0, rounded down": (
            wanting({**likes(5, DB), **dislikes(3, WEB)}),
            [on("a1"), on("b1", DB, name="db")],
            scores(0, 0, 100, 37),
        ),
        "near, but not on the same node": (
            wanting({**LIKES, **dislikes(5, WEB, HOST)}),
            [on("a1")],
            scores(0, 100, 0, 0),
        ),
        "both, same match": (wanting({**LIKES, **DISLIKES}), [on("a1")], scores(0, 0, 0, 0)),
        "two terms add up": (
            wanting(pod_affinity(preferred=[(8, pod_term("region", WEB)), (2, pod_term(HOST, WEB))])),
            [on("a1")],
            scores(100, 80, 80, 0),
        ),
        "alike": (wanting(LIKES), [on("a1"), on("b1", name="two")], scores(100, 100, 100, 0)),
        "required terms are ignored": (wanting(pod_affinity(IN_ZONE)), [on("a1")], None),
        "being deleted": (wanting(LIKES), [on("a1", terminating=True)], scores(100, 100, 0, 0)),
        "in another namespace": (wanting(LIKES), [on("a1", namespace="other")], None),
        "no selector": (wanting(likes(5, None)), [on("a1")], None),
    },
)
def test_preferences(pod, there, expected):
    assert ask(pod, *there) == expected


@pytest.mark.feature("InterPodAffinity: terms of existing pods, scores")
@cases(
    "there, expected",
    {
        "affinity to the pod": ([on("a1", affinity=LIKES)], scores(100, 100, 0, 0)),
        "affinity to others": ([on("a1", affinity=likes(5, DB))], None),
        "anti-affinity to the pod": ([on("a1", affinity=DISLIKES)], scores(0, 0, 100, 100)),
        "two pods with affinity": (
            [on("a1", affinity=LIKES), on("b1", affinity=likes(2, WEB), name="two")],
            scores(100, 100, 40, 0),
        ),
        "weights that cancel out are scored": (
            [on("a1", affinity=LIKES), on("a2", affinity=DISLIKES, name="two")],
            scores(0, 0, 0, 0),
        ),
        "in no zone": ([on("c1", affinity=LIKES)], None),
        "of another namespace": ([on("a1", affinity=LIKES, namespace="other")], None),
        "required anti": ([on("a1", affinity=pod_affinity(IN_ZONE, anti=True))], None),
    },
)
def test_preferences_of_existing_pods(there, expected):
    assert ask(make_pod("pending", labels=WEB), *there) == expected


NEEDS = on("a1", affinity=pod_affinity(IN_ZONE))
LIKES_TOO = on("b1", affinity=likes(4, WEB), name="two")


@pytest.mark.feature("InterPodAffinity: hardPodAffinityWeight")
@cases(
    "weight, there, expected",
    {
        "the default": (1, [NEEDS], scores(100, 100, 0, 0)),
        "0 ignores them": (0, [NEEDS], None),
        "0 with a preference": (0, [NEEDS, LIKES_TOO], scores(0, 0, 100, 0)),
        "1 with a preference": (1, [NEEDS, LIKES_TOO], scores(25, 25, 100, 0)),
        "100 with a preference": (100, [NEEDS, LIKES_TOO], scores(100, 100, 4, 0)),
    },
)
def test_hard_pod_affinity_weight(weight, there, expected):
    args = InterPodAffinityArgs(hardPodAffinityWeight=weight)
    assert ask(make_pod("pending", labels=WEB), *there, args=args) == expected


IGNORING = InterPodAffinityArgs(ignorePreferredTermsOfExistingPods=True)


@pytest.mark.feature("InterPodAffinity: ignorePreferredTermsOfExistingPods")
@cases(
    "affinity, there, expected",
    {
        "no preferences: skipped": (None, [LIKES_TOO], None),
        "required terms of others: skipped": (None, [NEEDS], None),
        "own required terms: skipped": (pod_affinity(IN_ZONE), [NEEDS], None),
        "own preferences: all terms count": (likes(4, DB), [LIKES_TOO], scores(0, 0, 100, 0)),
        "own preferred anti-affinity": (dislikes(4, WEB), [LIKES_TOO], scores(0, 0, 0, 0)),
    },
)
def test_ignoring_preferences_of_existing_pods(affinity, there, expected):
    assert ask(make_pod("pending", labels=WEB, affinity=affinity), *there, args=IGNORING) == expected


RED = make_namespace("red", team="red")
TEAM_RED = {"namespaceSelector": {"matchLabels": {"team": "red"}}}


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
@cases(
    "fields, found",
    {
        "named": ({"namespaces": ["red"]}, True),
        "selected": (TEAM_RED, True),
        "named or selected": ({**TEAM_RED, "namespaces": ["blue"]}, True),
        "all": ({"namespaceSelector": {}}, True),
        "another": ({"namespaces": ["blue"]}, False),
        "not selected": ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
    },
)
def test_namespaces_of_preferences(fields, found):
    expected = scores(100, 100, 0, 0) if found else None
    assert ask(wanting(likes(5, WEB, **fields)), RED, on("a1", namespace="red")) == expected
    likes_it = on("a1", affinity=likes(5, WEB, **fields), namespace="blue")
    assert ask(make_pod("pending", labels=WEB, namespace="red"), RED, likes_it) == expected


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
def test_a_selector_that_no_labels_satisfy_selects_every_namespace_for_own_preferences_only():
    not_red = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}
    assert ask(wanting(likes(5, WEB, **not_red)), RED, on("a1", namespace="red")) == scores(100, 100, 0, 0)
    likes_it = on("a1", affinity=likes(5, WEB, **not_red), namespace="blue")
    assert ask(make_pod("pending", labels=WEB, namespace="red"), RED, likes_it) is None


@pytest.mark.feature("InterPodAffinity: preferred affinity and anti-affinity")
def test_only_feasible_nodes_are_normalized():
    there = [on("a1", DB), on("b1", name="two"), on("b1", name="three")]
    pod = wanting(pod_affinity(preferred=[(1, IN_ZONE), (1, pod_term("zone", DB))]))
    assert ask(pod, *there) == scores(50, 50, 100, 0)
    assert ask(pod, *there, feasible=["c1", "a1"]) == {"c1": 0, "a1": 100}
