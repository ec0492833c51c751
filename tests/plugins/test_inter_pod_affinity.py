"""Filtering by InterPodAffinity."""

from __future__ import annotations

import pytest

from bayplan.api.kinds import NAMESPACE
from bayplan.cluster.pod_changes import PodChanges
from bayplan.plugins.inter_pod_affinity.plugin import InterPodAffinity
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing.asking import ask_filter
from bayplan.testing.builders import (
    make_cluster,
    make_namespace,
    make_node,
    make_pod,
    pod_affinity,
    pod_term,
)

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
NEAR_WEB = pod_affinity(pod_term("zone", WEB))
AWAY_FROM_WEB = pod_affinity(pod_term("zone", WEB), anti=True)


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


def on(node, labels=WEB, name="there", **more):
    return make_pod(name, node=node, labels=labels, **more)


def by_zone(a, b, nowhere=FITS):
    return {"a1": a, "a2": a, "b1": b, "nowhere": nowhere}


def wanting(affinity, labels=None, **more):
    return make_pod("pending", affinity=affinity, labels=labels, **more)


@pytest.mark.feature("InterPodAffinity: required affinity")
@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(wanting(None), [], None, id="no terms, empty cluster"),
        pytest.param(wanting({"podAffinity": {}}), [on("a1")], None, id="no terms"),
        pytest.param(wanting(NEAR_WEB), [on("a1")], by_zone(FITS, FAR, FAR), id="the whole zone of a match"),
        pytest.param(wanting(NEAR_WEB), [on("a1", DB)], by_zone(FAR, FAR, FAR), id="no match"),
        pytest.param(
            wanting(NEAR_WEB), [on("a1"), on("b1", name="other")], by_zone(FITS, FITS, FAR), id="matches in both zones"
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("kubernetes.io/hostname", WEB))),
            [on("a1")],
            {"a1": FITS, "a2": FAR, "b1": FAR, "nowhere": FAR},
            id="the same node",
        ),
        pytest.param(wanting(NEAR_WEB), [on("nowhere")], by_zone(FAR, FAR, FAR), id="match in no zone"),
        pytest.param(
            wanting(pod_affinity(expressing(("app", "In", "web", "db")))),
            [on("b1", DB)],
            by_zone(FAR, FITS, FAR),
            id="In",
        ),
        pytest.param(
            wanting(pod_affinity(expressing(("app", "NotIn", "web")))),
            [on("b1", DB)],
            by_zone(FAR, FITS, FAR),
            id="NotIn",
        ),
        pytest.param(
            wanting(pod_affinity(expressing(("app", "NotIn", "web")))),
            [on("b1", {})],
            by_zone(FAR, FITS, FAR),
            id="NotIn is met without the label",
        ),
        pytest.param(
            wanting(pod_affinity(expressing(("app", "Exists"), ("gone", "DoesNotExist")))),
            [on("a1", {"app": "x", "gone": ""}), on("b1", {"app": ""}, name="other")],
            by_zone(FAR, FITS, FAR),
            id="Exists and DoesNotExist",
        ),
        pytest.param(
            wanting(pod_affinity(expressing(("app", "In", "web"), ("tier", "In", "front")))),
            [on("a1", {"app": "web", "tier": "back"})],
            by_zone(FAR, FAR, FAR),
            id="all expressions of a term",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB), pod_term("zone", {"tier": "front"}))),
            [on("a1", WEB), on("a2", {"tier": "front"}, name="other")],
            by_zone(FAR, FAR, FAR),
            id="one pod has to match both terms",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB), pod_term("kubernetes.io/hostname", WEB))),
            [on("a1")],
            {"a1": FITS, "a2": FAR, "b1": FAR, "nowhere": FAR},
            id="two terms, two topologies",
        ),
        pytest.param(wanting(pod_affinity(pod_term("zone"))), [on("a1")], by_zone(FAR, FAR, FAR), id="no selector"),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", labelSelector={}))),
            [on("a1", {})],
            by_zone(FITS, FAR, FAR),
            id="an empty selector",
        ),
        pytest.param(
            wanting(NEAR_WEB), [on("a1", terminating=True)], by_zone(FITS, FAR, FAR), id="a match that is being deleted"
        ),
        pytest.param(wanting(NEAR_WEB), [on("gone")], by_zone(FAR, FAR, FAR), id="a match on a deleted node"),
        pytest.param(wanting(NEAR_WEB), [on("a1", {"app": "Web"})], by_zone(FAR, FAR, FAR), id="case-sensitive"),
    ],
)
def test_required_affinity(pod, there, expected):
    assert ask(pod, *NODES, *there) == expected


@pytest.mark.feature("InterPodAffinity: first pod of a self-affine group")
@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(wanting(NEAR_WEB, WEB), [], by_zone(FITS, FITS, FAR), id="first of its kind"),
        pytest.param(wanting(NEAR_WEB, DB), [], by_zone(FAR, FAR, FAR), id="does not match itself"),
        pytest.param(wanting(NEAR_WEB, WEB), [on("b1")], by_zone(FAR, FITS, FAR), id="second joins the first"),
        pytest.param(
            wanting(NEAR_WEB, WEB),
            [on("a1", namespace="other")],
            by_zone(FITS, FITS, FAR),
            id="match in another namespace",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB), pod_term("rack", WEB)), WEB),
            [],
            by_zone(FAR, FAR, FAR),
            id="a node needs the labels of all terms",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB), pod_term("kubernetes.io/hostname", WEB)), WEB),
            [on("a1")],
            {"a1": FITS, "a2": FAR, "b1": FAR, "nowhere": FAR},
            id="not the first in one of two topologies",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB), pod_term("zone", DB)), WEB),
            [],
            by_zone(FAR, FAR, FAR),
            id="matches one of two terms",
        ),
        pytest.param(
            wanting(NEAR_WEB, WEB), [on("nowhere")], by_zone(FITS, FITS, FAR), id="a match in no zone does not count"
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB, namespaces=["other"])), WEB),
            [],
            by_zone(FAR, FAR, FAR),
            id="not in the selected namespace",
        ),
    ],
)
def test_pod_that_matches_its_own_affinity(pod, there, expected):
    assert ask(pod, *NODES, *there) == expected


@pytest.mark.feature("InterPodAffinity: required anti-affinity")
@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param(wanting(AWAY_FROM_WEB), [], by_zone(FITS, FITS), id="no pods"),
        pytest.param(wanting(AWAY_FROM_WEB), [on("a1")], by_zone(NEAR, FITS), id="the whole zone of a match"),
        pytest.param(wanting(AWAY_FROM_WEB), [on("a1", DB)], by_zone(FITS, FITS), id="no match"),
        pytest.param(wanting(AWAY_FROM_WEB), [on("nowhere")], by_zone(FITS, FITS), id="match in no zone"),
        pytest.param(
            wanting(AWAY_FROM_WEB), [on("a1", namespace="other")], by_zone(FITS, FITS), id="match on another node"
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", WEB), pod_term("zone", DB), anti=True)),
            [on("a1", DB)],
            by_zone(NEAR, FITS),
            id="any of the terms",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("rack", WEB), pod_term("kubernetes.io/hostname", DB), anti=True)),
            [on("a1", WEB), on("b1", DB, name="other")],
            {"a1": FITS, "a2": FITS, "b1": NEAR, "nowhere": FITS},
            id="selector and topology of one term",
        ),
        pytest.param(
            wanting(pod_affinity(pod_term("zone", labelSelector={}), anti=True)),
            [on("b1", {})],
            by_zone(FITS, NEAR),
            id="an empty selector",
        ),
        pytest.param(wanting(pod_affinity(pod_term("zone"), anti=True)), [on("b1")], by_zone(FITS, FITS), id="none"),
        pytest.param(
            wanting({**NEAR_WEB, **pod_affinity(pod_term("kubernetes.io/hostname", WEB), anti=True)}),
            [on("a1")],
            {"a1": NEAR, "a2": FITS, "b1": FAR, "nowhere": FAR},
            id="affinity is reported first",
        ),
        pytest.param(
            wanting(AWAY_FROM_WEB), [on("a1", terminating=True)], by_zone(NEAR, FITS), id="a match being deleted"
        ),
    ],
)
def test_required_anti_affinity(pod, there, expected):
    assert ask(pod, *NODES, *there) == expected


@pytest.mark.feature("InterPodAffinity: terms of existing pods, filter")
@pytest.mark.parametrize(
    ("labels", "there", "expected"),
    [
        pytest.param(WEB, [on("a1", DB)], None, id="no terms"),
        pytest.param(WEB, [on("a1", DB, affinity=AWAY_FROM_WEB)], by_zone(EXISTING, FITS), id="matches the pod"),
        pytest.param(DB, [on("a1", DB, affinity=AWAY_FROM_WEB)], None, id="matches other pods"),
        pytest.param(
            WEB,
            [on("a1", DB, affinity=AWAY_FROM_WEB, namespace="other")],
            None,
            id="applies to its own namespace",
        ),
        pytest.param(WEB, [on("nowhere", DB, affinity=AWAY_FROM_WEB)], None, id="in no zone"),
        pytest.param(WEB, [on("gone", DB, affinity=AWAY_FROM_WEB)], None, id="on a deleted node"),
        pytest.param(
            WEB,
            [on("a1", DB, affinity=AWAY_FROM_WEB), on("b1", DB, affinity=AWAY_FROM_WEB, name="other")],
            by_zone(EXISTING, EXISTING),
            id="in both zones",
        ),
        pytest.param(
            {"app": "web", "tier": "front"},
            [on("a1", affinity=pod_affinity(pod_term("zone", DB), pod_term("zone", {"tier": "front"}), anti=True))],
            by_zone(EXISTING, FITS),
            id="any of its terms",
        ),
        pytest.param(WEB, [on("a1", DB, affinity=NEAR_WEB)], None, id="affinity does not apply to other pods"),
        pytest.param(
            WEB,
            [on("a1", DB, affinity=AWAY_FROM_WEB, terminating=True)],
            by_zone(EXISTING, FITS),
            id="being deleted",
        ),
    ],
)
def test_anti_affinity_of_existing_pods(labels, there, expected):
    assert ask(make_pod("pending", labels=labels), *NODES, *there) == expected


def test_own_rules_are_reported_first():
    there = on("a1", affinity=pod_affinity(pod_term("zone", DB), anti=True))
    pod = wanting(AWAY_FROM_WEB, DB)
    assert ask(pod, *NODES, there) == by_zone(NEAR, FITS)


RED, BLUE, UNNAMED = make_namespace("red", team="red"), make_namespace("blue", team="blue"), make_namespace("bare")
TEAM_RED = {"namespaceSelector": {"matchLabels": {"team": "red"}}}
NOT_RED = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}}


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
@pytest.mark.parametrize(
    ("fields", "namespace", "near"),
    [
        pytest.param({}, "default", True, id="own namespace by default"),
        pytest.param({}, "red", False, id="own namespace only"),
        pytest.param({"namespaces": ["red"]}, "red", True, id="named"),
        pytest.param({"namespaces": ["red"]}, "default", False, id="named, not own"),
        pytest.param(TEAM_RED, "red", True, id="selected"),
        pytest.param(TEAM_RED, "blue", False, id="not selected"),
        pytest.param(TEAM_RED, "default", False, id="selector replaces own namespace"),
        pytest.param(TEAM_RED, "unknown", False, id="unknown namespace"),
        pytest.param({**TEAM_RED, "namespaces": ["blue"]}, "blue", True, id="named or selected: named"),
        pytest.param({**TEAM_RED, "namespaces": ["blue"]}, "red", True, id="named or selected: selected"),
        pytest.param({"namespaceSelector": {}}, "blue", True, id="empty selector matches all"),
        pytest.param({"namespaceSelector": {}}, "unknown", True, id="all, even unknown ones"),
        pytest.param(
            {"namespaceSelector": {}, "namespaces": ["red"]}, "blue", True, id="all, even if others are named"
        ),
        pytest.param(NOT_RED, "bare", True, id="NotIn matches a namespace without labels"),
        pytest.param(NOT_RED, "red", False, id="NotIn"),
        pytest.param(NOT_RED, "unknown", False, id="NotIn does not match an unknown namespace"),
    ],
)
@pytest.mark.parametrize("anti", [False, True], ids=["affinity", "anti-affinity"])
def test_namespaces_of_own_terms(fields, namespace, near, anti):
    pod = wanting(pod_affinity(pod_term("zone", WEB, **fields), anti=anti))
    found = ask(pod, *NODES, RED, BLUE, UNNAMED, on("a1", namespace=namespace))
    if anti:
        assert found == by_zone(NEAR if near else FITS, FITS)
    else:
        assert found == by_zone(FITS if near else FAR, FAR, FAR)


@pytest.mark.feature("InterPodAffinity: namespaces and namespace selectors")
@pytest.mark.parametrize(
    ("fields", "namespace", "rejected"),
    [
        pytest.param({}, "default", False, id="own namespace by default"),
        pytest.param({"namespaces": ["default"]}, "default", True, id="named"),
        pytest.param(TEAM_RED, "red", True, id="selected"),
        pytest.param(TEAM_RED, "blue", False, id="not selected"),
        pytest.param({"namespaceSelector": {}}, "unknown", True, id="all"),
        pytest.param(NOT_RED, "unknown", True, id="unknown namespace has no labels"),
        pytest.param(TEAM_RED, "unknown", False, id="unknown namespace lacks the labels"),
    ],
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
@pytest.mark.parametrize(
    ("keys", "expression", "expected"),
    [
        pytest.param(
            {"matchLabelKeys": ["version"]},
            {"key": "version", "operator": "In", "values": ["1"]},
            by_zone(FAR, FITS, FAR),
            id="match, merged by the API server",
        ),
        pytest.param(
            {"mismatchLabelKeys": ["version"]},
            {"key": "version", "operator": "NotIn", "values": ["1"]},
            by_zone(FITS, FAR, FAR),
            id="mismatch, merged by the API server",
        ),
        pytest.param({"matchLabelKeys": ["version"]}, None, by_zone(FITS, FITS, FAR), id="not merged: no effect here"),
    ],
)
def test_label_keys(keys, expression, expected):
    selector = {"matchLabels": WEB, "matchExpressions": [expression] if expression else []}
    pod = wanting(pod_affinity(pod_term("zone", labelSelector=selector, **keys)), V1)
    assert ask(pod, *NODES, on("a1", V2), on("b1", V1, name="other")) == expected


@pytest.mark.feature("InterPodAffinity: label values")
def test_empty_value_is_a_domain():
    nodes = make_node("n1", labels={"zone": ""}), make_node("n2", labels={"zone": ""}), make_node("n3")
    assert ask(wanting(AWAY_FROM_WEB), *nodes, on("n1")) == {"n1": NEAR, "n2": NEAR, "n3": FITS}
    assert ask(wanting(NEAR_WEB), *nodes, on("n1")) == {"n1": FITS, "n2": FITS, "n3": FAR}


@pytest.mark.feature("InterPodAffinity: invalid selectors")
@pytest.mark.parametrize("anti", [False, True], ids=["affinity", "anti-affinity"])
def test_invalid_selector(anti):
    pod = wanting(pod_affinity(expressing(("app", "Near", "web")), anti=anti))
    assert ask(pod, *NODES).startswith("parsing pod: ")
    # On a bound pod, such terms are ignored.
    assert ask(make_pod("pending", labels=WEB), *NODES, on("a1", affinity=pod.object.spec.affinity.to_dict())) is None


WEB_POD, DB_POD = on("a1", name="new"), on("a1", DB, name="new")
JEALOUS = on("a1", DB, name="jealous", affinity=AWAY_FROM_WEB)
UNREADABLE = on("a1", DB, name="unreadable", affinity=pod_affinity(expressing(("app", "Near", "web")), anti=True))


@pytest.mark.feature("InterPodAffinity: nominated pods and what-ifs on rows")
@pytest.mark.parametrize(
    ("pod", "there", "changes", "expected"),
    [
        pytest.param(
            wanting(NEAR_WEB),
            [],
            {"a1": PodChanges(added=(WEB_POD,))},
            by_zone(FAR, FAR, FAR) | {"a1": FITS},
            id="pod added",
        ),
        pytest.param(
            wanting(NEAR_WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),)), "a2": PodChanges(removed=(on("a1"),))},
            by_zone(FAR, FAR, FAR),
            id="only match removed",
        ),
        pytest.param(
            wanting(NEAR_WEB, WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),)), "b1": PodChanges(added=(DB_POD,))},
            by_zone(FITS, FAR, FAR),
            id="what-ifs are separate",
        ),
        pytest.param(
            wanting(NEAR_WEB, WEB),
            [on("a1"), on("b1", name="other")],
            {"a1": PodChanges(removed=(on("a1"),)), "b1": PodChanges(removed=(on("b1", name="other"),))},
            {"a1": FAR, "a2": FITS, "b1": FAR, "nowhere": FAR},
            id="not the first while there is a match elsewhere",
        ),
        pytest.param(
            wanting(NEAR_WEB, WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),))},
            by_zone(FITS, FAR, FAR),
            id="first once the only match is removed",
        ),
        pytest.param(
            wanting(NEAR_WEB, WEB),
            [],
            {"a1": PodChanges(added=(WEB_POD,)), "b1": PodChanges(added=(DB_POD,)), "nowhere": PodChanges((WEB_POD,))},
            by_zone(FITS, FITS, FAR),
            id="added pod in no zone",
        ),
        pytest.param(
            wanting(AWAY_FROM_WEB),
            [on("a1")],
            {"a1": PodChanges(removed=(on("a1"),)), "b1": PodChanges(added=(WEB_POD,))},
            {"a1": FITS, "a2": NEAR, "b1": NEAR, "nowhere": FITS},
            id="removed here, added there",
        ),
        pytest.param(
            wanting(AWAY_FROM_WEB, WEB),
            [],
            {"a1": PodChanges(added=(JEALOUS,)), "nowhere": PodChanges(added=(JEALOUS,))},
            {"a1": EXISTING, "a2": FITS, "b1": FITS, "nowhere": FITS},
            id="pod with anti-affinity added",
        ),
        pytest.param(
            wanting(None, WEB),
            [JEALOUS],
            {"a1": PodChanges(removed=(JEALOUS,))},
            {"a1": FITS, "a2": EXISTING, "b1": FITS, "nowhere": FITS},
            id="pod with anti-affinity removed",
        ),
        pytest.param(
            wanting(None, WEB),
            [JEALOUS, UNREADABLE],
            {"a1": PodChanges(removed=(JEALOUS, UNREADABLE))},
            {"a1": FITS, "a2": EXISTING, "b1": FITS, "nowhere": FITS},
            id="pod with invalid terms",
        ),
        pytest.param(
            wanting(None, WEB),
            [],
            {"a1": PodChanges(added=(JEALOUS,))},
            None,
            id="skipped by PreFilter",
        ),
    ],
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
