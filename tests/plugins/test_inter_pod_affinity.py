"""Filtering by InterPodAffinity."""

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import NAMESPACE
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.plugins.inter_pod_affinity.plugin import InterPodAffinity
from bayplan.testing.asking import ask_filter
from bayplan.testing.builders import make_cluster, make_namespace, make_node, make_pod, pod_affinity, pod_term

FAR = "node(s) didn't match pod affinity rules"
NEAR = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
FITS = ""

A1 = make_node("a1", labels={"zone": "a"})
A2 = make_node("a2", labels={"zone": "a"})
B1 = make_node("b1", labels={"zone": "b"})
NOWHERE = make_node("nowhere")
"""A node in no zone."""
NODES = (A1, A2, B1, NOWHERE)

WEB, DB = {"app": "web"}, {"app": "db"}
HOST = "kubernetes.io/hostname"
IN_ZONE, ON_HOST = pod_term("zone", WEB), pod_term(HOST, WEB)
NEAR_WEB, AWAY_FROM_WEB = pod_affinity(IN_ZONE), pod_affinity(IN_ZONE, anti=True)


def expressing(*expressions, key="zone", **fields):
    """A term with matchExpressions: (key, operator, values...)."""
    written = [
        {"key": label, "operator": operator, **({"values": list(values)} if values else {})}
        for label, operator, *values in expressions
    ]
    return pod_term(key, labelSelector={"matchExpressions": written}, **fields)


def ask(pod, *objects, what_ifs=None):
    state = make_cluster(*objects).state
    return ask_filter(InterPodAffinity(OfflineHandle(state)), pod, state, what_ifs)


def fits(expected, otherwise):
    """What is said of all nodes, where it is given as the names of those that fit; the others are rejected."""
    if not isinstance(expected, str):
        return expected
    return {node.metadata.name: FITS if node.metadata.name in expected.split() else otherwise for node in NODES}


def on(node, labels=WEB, name="there", **more):
    return make_pod(name, node=node, labels=labels, **more)


def by_zone(a, b, nowhere=FITS):
    return {"a1": a, "a2": a, "b1": b, "nowhere": nowhere}


def wanting(affinity, labels=None, **more):
    return make_pod("pending", affinity=affinity, labels=labels, **more)


@pytest.mark.feature("InterPodAffinity: required affinity")
@cases(
    "pod, there, expected",
    {
        "no terms, empty cluster": (wanting(None), [], None),
        "no terms": (wanting({"podAffinity": {}}), [on("a1")], None),
        "the whole zone of a match": (wanting(NEAR_WEB), [on("a1")], "a1 a2"),
        "no match": (wanting(NEAR_WEB), [on("a1", DB)], ""),
        "matches in both zones": (wanting(NEAR_WEB), [on("a1"), on("b1", name="other")], "a1 a2 b1"),
        "the same node": (wanting(pod_affinity(ON_HOST)), [on("a1")], "a1"),
        "match in no zone": (wanting(NEAR_WEB), [on("nowhere")], ""),
        "In": (wanting(pod_affinity(expressing(("app", "In", "web", "db")))), [on("b1", DB)], "b1"),
        "NotIn": (wanting(pod_affinity(expressing(("app", "NotIn", "web")))), [on("b1", DB)], "b1"),
        "NotIn is met without the label": (
            wanting(pod_affinity(expressing(("app", "NotIn", "web")))),
            [on("b1", {})],
            "b1",
        ),
        "Exists and DoesNotExist": (
            wanting(pod_affinity(expressing(("app", "Exists"), ("gone", "DoesNotExist")))),
            [on("a1", {"app": "x", "gone": ""}), on("b1", {"app": ""}, name="other")],
            "b1",
        ),
        "all expressions of a term": (
            wanting(pod_affinity(expressing(("app", "In", "web"), ("tier", "In", "front")))),
            [on("a1", {"app": "web", "tier": "back"})],
            "",
        ),
        "one pod has to match both terms": (
            wanting(pod_affinity(IN_ZONE, pod_term("zone", {"tier": "front"}))),
            [on("a1", WEB), on("a2", {"tier": "front"}, name="other")],
            "",
        ),
        "two terms, two topologies": (wanting(pod_affinity(IN_ZONE, ON_HOST)), [on("a1")], "a1"),
        "no selector": (wanting(pod_affinity(pod_term("zone"))), [on("a1")], ""),
        "an empty selector": (wanting(pod_affinity(pod_term("zone", labelSelector={}))), [on("a1", {})], "a1 a2"),
        "a match that is being deleted": (wanting(NEAR_WEB), [on("a1", terminating=True)], "a1 a2"),
        "a match on a deleted node": (wanting(NEAR_WEB), [on("gone")], ""),
        "case-sensitive": (wanting(NEAR_WEB), [on("a1", {"app": "Web"})], ""),
    },
)
def test_required_affinity(pod, there, expected):
    assert ask(pod, *NODES, *there) == fits(expected, FAR)


@pytest.mark.feature("InterPodAffinity: first pod of a self-affine group")
@cases(
    "pod, there, expected",
    {
        "first of its kind": (wanting(NEAR_WEB, WEB), [], "a1 a2 b1"),
        "does not match itself": (wanting(NEAR_WEB, DB), [], ""),
        "second joins the first": (wanting(NEAR_WEB, WEB), [on("b1")], "b1"),
        "match in another namespace": (wanting(NEAR_WEB, WEB), [on("a1", namespace="other")], "a1 a2 b1"),
        "a node needs the labels of all terms": (wanting(pod_affinity(IN_ZONE, pod_term("rack", WEB)), WEB), [], ""),
        "not the first in one of two topologies": (wanting(pod_affinity(IN_ZONE, ON_HOST), WEB), [on("a1")], "a1"),
        "matches one of two terms": (wanting(pod_affinity(IN_ZONE, pod_term("zone", DB)), WEB), [], ""),
        "a match in no zone does not count": (wanting(NEAR_WEB, WEB), [on("nowhere")], "a1 a2 b1"),
        "not in the selected namespace": (
            wanting(pod_affinity(pod_term("zone", WEB, namespaces=["other"])), WEB),
            [],
            "",
        ),
    },
)
def test_pod_that_matches_its_own_affinity(pod, there, expected):
    assert ask(pod, *NODES, *there) == fits(expected, FAR)


@pytest.mark.feature("InterPodAffinity: required anti-affinity")
@cases(
    "pod, there, expected",
    {
        "no pods": (wanting(AWAY_FROM_WEB), [], "a1 a2 b1 nowhere"),
        "the whole zone of a match": (wanting(AWAY_FROM_WEB), [on("a1")], "b1 nowhere"),
        "no match": (wanting(AWAY_FROM_WEB), [on("a1", DB)], "a1 a2 b1 nowhere"),
        "match in no zone": (wanting(AWAY_FROM_WEB), [on("nowhere")], "a1 a2 b1 nowhere"),
        "match on another node": (wanting(AWAY_FROM_WEB), [on("a1", namespace="other")], "a1 a2 b1 nowhere"),
        "any of the terms": (
            wanting(pod_affinity(IN_ZONE, pod_term("zone", DB), anti=True)),
            [on("a1", DB)],
            "b1 nowhere",
        ),
        "selector and topology of one term": (
            wanting(pod_affinity(pod_term("rack", WEB), pod_term(HOST, DB), anti=True)),
            [on("a1", WEB), on("b1", DB, name="other")],
            "a1 a2 nowhere",
        ),
        "an empty selector": (
            wanting(pod_affinity(pod_term("zone", labelSelector={}), anti=True)),
            [on("b1", {})],
            "a1 a2 nowhere",
        ),
        "none": (wanting(pod_affinity(pod_term("zone"), anti=True)), [on("b1")], "a1 a2 b1 nowhere"),
        "affinity is reported first": (
            wanting({**NEAR_WEB, **pod_affinity(ON_HOST, anti=True)}),
            [on("a1")],
            {"a1": NEAR, "a2": FITS, "b1": FAR, "nowhere": FAR},
        ),
        "a match being deleted": (wanting(AWAY_FROM_WEB), [on("a1", terminating=True)], "b1 nowhere"),
    },
)
def test_required_anti_affinity(pod, there, expected):
    assert ask(pod, *NODES, *there) == fits(expected, NEAR)


@pytest.mark.feature("InterPodAffinity: terms of existing pods, filter")
@cases(
    "labels, there, expected",
    {
        "no terms": (WEB, [on("a1", DB)], None),
        "matches the pod": (WEB, [on("a1", DB, affinity=AWAY_FROM_WEB)], "b1 nowhere"),
        "matches other pods": (DB, [on("a1", DB, affinity=AWAY_FROM_WEB)], None),
        "applies to its own namespace": (WEB, [on("a1", DB, affinity=AWAY_FROM_WEB, namespace="other")], None),
        "in no zone": (WEB, [on("nowhere", DB, affinity=AWAY_FROM_WEB)], None),
        "on a deleted node": (WEB, [on("gone", DB, affinity=AWAY_FROM_WEB)], None),
        "in both zones": (
            WEB,
            [on("a1", DB, affinity=AWAY_FROM_WEB), on("b1", DB, affinity=AWAY_FROM_WEB, name="other")],
            "nowhere",
        ),
        "any of its terms": (
            {"app": "web", "tier": "front"},
            [on("a1", affinity=pod_affinity(pod_term("zone", DB), pod_term("zone", {"tier": "front"}), anti=True))],
            "b1 nowhere",
        ),
        "affinity does not apply to other pods": (WEB, [on("a1", DB, affinity=NEAR_WEB)], None),
        "being deleted": (WEB, [on("a1", DB, affinity=AWAY_FROM_WEB, terminating=True)], "b1 nowhere"),
    },
)
def test_anti_affinity_of_existing_pods(labels, there, expected):
    assert ask(make_pod("pending", labels=labels), *NODES, *there) == fits(expected, EXISTING)


def test_own_rules_are_reported_first():
    there = on("a1", affinity=pod_affinity(pod_term("zone", DB), anti=True))
    pod = wanting(AWAY_FROM_WEB, DB)
    assert ask(pod, *NODES, there) == by_zone(NEAR, FITS)


RED, BLUE, UNNAMED = make_namespace("red", team="red"), make_namespace("blue", team="blue"), make_namespace("bare")
TEAM_RED = {"namespaceSelector": {"matchLabels": {"team": "red"}}}
NOT_RED = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}}


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
@cases(
    "fields, namespace, near",
    {
        "own namespace by default": ({}, "default", True),
        "own namespace only": ({}, "red", False),
        "named": ({"namespaces": ["red"]}, "red", True),
        "named, not own": ({"namespaces": ["red"]}, "default", False),
        "selected": (TEAM_RED, "red", True),
        "not selected": (TEAM_RED, "blue", False),
        "selector replaces own namespace": (TEAM_RED, "default", False),
        "unknown namespace": (TEAM_RED, "unknown", False),
        "named or selected: named": ({**TEAM_RED, "namespaces": ["blue"]}, "blue", True),
        "named or selected: selected": ({**TEAM_RED, "namespaces": ["blue"]}, "red", True),
        "empty selector matches all": ({"namespaceSelector": {}}, "blue", True),
        "all, even unknown ones": ({"namespaceSelector": {}}, "unknown", True),
        "all, even if others are named": ({"namespaceSelector": {}, "namespaces": ["red"]}, "blue", True),
        "NotIn matches a namespace without labels": (NOT_RED, "bare", True),
        "NotIn, in kube-scheduler, matches a namespace that it should not": (NOT_RED, "red", True),
        "NotIn matches an unknown namespace": (NOT_RED, "unknown", True),
    },
)
@cases("anti", {"affinity": False, "anti-affinity": True})
def test_namespaces_of_own_terms(fields, namespace, near, anti):
    pod = wanting(pod_affinity(pod_term("zone", WEB, **fields), anti=anti))
    found = ask(pod, *NODES, RED, BLUE, UNNAMED, on("a1", namespace=namespace))
    if anti:
        assert found == by_zone(NEAR if near else FITS, FITS)
    else:
        assert found == by_zone(FITS if near else FAR, FAR, FAR)


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
@cases(
    "fields, namespace, rejected",
    {
        "own namespace by default": ({}, "default", False),
        "named": ({"namespaces": ["default"]}, "default", True),
        "selected": (TEAM_RED, "red", True),
        "not selected": (TEAM_RED, "blue", False),
        "all": ({"namespaceSelector": {}}, "unknown", True),
        "unknown namespace has no labels": (NOT_RED, "unknown", True),
        "unknown namespace lacks the labels": (TEAM_RED, "unknown", False),
    },
)
def test_namespaces_of_terms_of_existing_pods(fields, namespace, rejected):
    term = pod_term("zone", WEB, **fields)
    there = on("a1", DB, namespace="blue", affinity=pod_affinity(term, anti=True))
    found = ask(make_pod("pending", labels=WEB, namespace=namespace), *NODES, RED, BLUE, there)
    assert found == (by_zone(EXISTING, FITS) if rejected else None)


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
def test_changed_namespace_labels_take_effect():
    state = make_cluster(*NODES, BLUE, on("a1", namespace="blue")).state
    plugin = InterPodAffinity(OfflineHandle(state))
    pod = wanting(pod_affinity(pod_term("zone", WEB, **TEAM_RED)))
    assert ask_filter(plugin, pod, state) == by_zone(FAR, FAR, FAR)
    state.objects[NAMESPACE].set("blue", make_namespace("blue", team="red"))
    assert ask_filter(plugin, pod, state) == by_zone(FITS, FAR, FAR)
    state.objects[NAMESPACE].remove("blue")
    assert ask_filter(plugin, pod, state) == by_zone(FAR, FAR, FAR)


V1, V2 = {"app": "web", "version": "1"}, {"app": "web", "version": "2"}


@pytest.mark.feature("InterPodAffinity: matchLabelKeys and mismatchLabelKeys")
@cases(
    "keys, expression, expected",
    {
        "match, merged by the API server": (
            {"matchLabelKeys": ["version"]},
            {"key": "version", "operator": "In", "values": ["1"]},
            "b1",
        ),
        "mismatch, merged by the API server": (
            {"mismatchLabelKeys": ["version"]},
            {"key": "version", "operator": "NotIn", "values": ["1"]},
            "a1 a2",
        ),
        "not merged: no effect here": ({"matchLabelKeys": ["version"]}, None, "a1 a2 b1"),
    },
)
def test_label_keys(keys, expression, expected):
    selector = {"matchLabels": WEB, "matchExpressions": [expression] if expression else []}
    pod = wanting(pod_affinity(pod_term("zone", labelSelector=selector, **keys)), V1)
    assert ask(pod, *NODES, on("a1", V2), on("b1", V1, name="other")) == fits(expected, FAR)


@pytest.mark.feature("InterPodAffinity: label values")
def test_empty_value_is_a_domain():
    nodes = make_node("n1", labels={"zone": ""}), make_node("n2", labels={"zone": ""}), make_node("n3")
    assert ask(wanting(AWAY_FROM_WEB), *nodes, on("n1")) == {"n1": NEAR, "n2": NEAR, "n3": FITS}
    assert ask(wanting(NEAR_WEB), *nodes, on("n1")) == {"n1": FITS, "n2": FITS, "n3": FAR}


@pytest.mark.feature("InterPodAffinity: invalid selectors")
@cases("anti", {"affinity": False, "anti-affinity": True})
def test_invalid_selector(anti):
    pod = wanting(pod_affinity(expressing(("app", "Near", "web")), anti=anti))
    assert ask(pod, *NODES).startswith("parsing pod: ")
    # On a bound pod, such terms are ignored.
    assert ask(make_pod("pending", labels=WEB), *NODES, on("a1", affinity=pod.object.spec.affinity.to_dict())) is None


WEB_POD, DB_POD = on("a1", name="new"), on("a1", DB, name="new")
JEALOUS = on("a1", DB, name="jealous", affinity=AWAY_FROM_WEB)
UNREADABLE = on("a1", DB, name="unreadable", affinity=pod_affinity(expressing(("app", "Near", "web")), anti=True))


@pytest.mark.feature("InterPodAffinity: nominated pods and what-ifs on rows")
@cases(
    "pod, there, changes, expected",
    {
        "pod added": (
            wanting(NEAR_WEB),
            [],
            {"a1": PodChanges(added=(WEB_POD,))},
            by_zone(FAR, FAR, FAR) | {"a1": FITS},
        ),
        "only match removed": (
            wanting(NEAR_WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),)), "a2": PodChanges(removed=(on("a1"),))},
            by_zone(FAR, FAR, FAR),
        ),
        "what-ifs are separate": (
            wanting(NEAR_WEB, WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),)), "b1": PodChanges(added=(DB_POD,))},
            by_zone(FITS, FAR, FAR),
        ),
        "not the first while there is a match elsewhere": (
            wanting(NEAR_WEB, WEB),
            [on("a1"), on("b1", name="other")],
            {"a1": PodChanges(removed=(on("a1"),)), "b1": PodChanges(removed=(on("b1", name="other"),))},
            {"a1": FAR, "a2": FITS, "b1": FAR, "nowhere": FAR},
        ),
        "first once the only match is removed": (
            wanting(NEAR_WEB, WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),))},
            by_zone(FITS, FAR, FAR),
        ),
        "added pod in no zone": (
            wanting(NEAR_WEB, WEB),
            [],
            {"a1": PodChanges(added=(WEB_POD,)), "b1": PodChanges(added=(DB_POD,)), "nowhere": PodChanges((WEB_POD,))},
            by_zone(FITS, FITS, FAR),
        ),
        "removed here, added there": (
            wanting(AWAY_FROM_WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),)), "b1": PodChanges(added=(WEB_POD,))},
            {"a1": FITS, "a2": NEAR, "b1": NEAR, "nowhere": FITS},
        ),
        "pod with anti-affinity added": (
            wanting(AWAY_FROM_WEB, WEB),
            [],
            {"a1": PodChanges(added=(JEALOUS,)), "nowhere": PodChanges(added=(JEALOUS,))},
            {"a1": EXISTING, "a2": FITS, "b1": FITS, "nowhere": FITS},
        ),
        "pod with anti-affinity removed": (
            wanting(None, WEB),
            [JEALOUS],
            {"a1": PodChanges(removed=(JEALOUS,))},
            {"a1": FITS, "a2": EXISTING, "b1": FITS, "nowhere": FITS},
        ),
        "pod with invalid terms": (
            wanting(None, WEB),
            [JEALOUS, UNREADABLE],
            {"a1": PodChanges(removed=(JEALOUS, UNREADABLE))},
            {"a1": FITS, "a2": EXISTING, "b1": FITS, "nowhere": FITS},
        ),
        "skipped by PreFilter": (wanting(None, WEB), [], {"a1": PodChanges(added=(JEALOUS,))}, None),
    },
)
def test_what_ifs(pod, there, changes, expected):
    assert ask(pod, *NODES, *there, what_ifs=changes) == expected


@pytest.mark.feature("InterPodAffinity: labels of bound pods and nodes change")
def test_changed_labels_take_effect():
    state = make_cluster(*NODES, on("a1")).state
    plugin, pod = InterPodAffinity(OfflineHandle(state)), wanting(NEAR_WEB)
    assert ask_filter(plugin, pod, state) == by_zone(FITS, FAR, FAR)
    state.set_pod(on("a1", DB))
    assert ask_filter(plugin, pod, state) == by_zone(FAR, FAR, FAR)
    state.set_pod(on("a1"))
    state.set_node(make_node("a1", labels={"zone": "b"}))
    assert ask_filter(plugin, pod, state) == {"a1": FITS, "a2": FAR, "b1": FITS, "nowhere": FAR}
    state.remove_node("a1")
    assert ask_filter(plugin, pod, state) == {"a2": FAR, "b1": FAR, "nowhere": FAR}
    state.set_node(A1)
    assert ask_filter(plugin, pod, state) == by_zone(FITS, FAR, FAR)
    state.remove_pod("default-there")
    assert ask_filter(plugin, pod, state) == by_zone(FAR, FAR, FAR)
