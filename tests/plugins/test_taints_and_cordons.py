"""TaintToleration and NodeUnschedulable."""

from __future__ import annotations

import pytest
from tests.support.tables import cases

from bayplan.framework.events import Hint
from bayplan.framework.hints import after_own_update
from bayplan.framework.interface import CycleState
from bayplan.plugins import node_unschedulable, taint_toleration
from bayplan.testing.builders import make_cluster, make_node, make_pod

GPU = {"key": "gpu", "operator": "Exists"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def reasons(decision):
    nodes = decision.diagnosis.verdicts.nodes
    return {nodes.name(row): status.message for row, status in decision.diagnosis.verdicts.rejected()}


@cases(
    "taints, tolerations, out",
    {
        "not tolerated": (["gpu=a:NoSchedule"], [], True),
        "NoExecute not tolerated": (["gpu=a:NoExecute"], [], True),
        "PreferNoSchedule": (["gpu=a:PreferNoSchedule"], [], False),
        "tolerated": (["gpu=a:NoSchedule"], [GPU], False),
        "one of two not tolerated": (["gpu=a:NoSchedule", "ssd=b:NoSchedule"], [GPU], True),
    },
)
def test_untolerated_taints_reject_nodes(taints, tolerations, out):
    cluster = make_cluster(make_node("a", taints=taints), make_node("b"))
    decision = cluster.decide(make_pod("p", tolerations=tolerations))
    assert reasons(decision) == ({"a": "node(s) had untolerated taint(s)"} if out else {})


def test_removed_taints_have_no_effect():
    cluster = make_cluster(make_node("a", taints=["gpu=a:NoSchedule"]))
    assert not cluster.decide(make_pod("p")).node
    cluster.state.set_node(make_node("a"))
    assert cluster.decide(make_pod("p")).node == "a"


def test_fewer_untolerated_preferences_score_higher():
    cluster = make_cluster(
        make_node("none"),
        make_node("one", taints=["x=1:PreferNoSchedule"]),
        make_node("three", taints=["x=1:PreferNoSchedule", "y=1:PreferNoSchedule", "z=1:PreferNoSchedule"]),
        make_node("tolerated", taints=["gpu=1:PreferNoSchedule"]),
    )
    scores = cluster.decide(make_pod("p", tolerations=[GPU])).scores
    names = [cluster.state.table.names[row] for row in scores.rows]
    assert dict(zip(names, scores.plugins["TaintToleration"].tolist(), strict=True)) == {
        "none": 300,
        "one": 201,  # 100 - 100 * 1 / 3 rounded down, times the weight
        "three": 0,
        "tolerated": 300,
    }


def test_tolerations_of_other_effects_do_not_apply_to_preferences():
    cluster = make_cluster(make_node("a", taints=["gpu=1:PreferNoSchedule"]), make_node("b"))
    scores = cluster.decide(make_pod("p", tolerations=[{**GPU, "effect": "NoSchedule"}])).scores
    assert scores.plugins["TaintToleration"].tolist() == [0, 300]


@pytest.mark.parametrize(("tolerations", "out"), [([], True), ([CORDON], False), ([GPU], True)])
def test_cordoned_nodes(tolerations, out):
    cluster = make_cluster(make_node("a", unschedulable=True), make_node("b"))
    decision = cluster.decide(make_pod("p", tolerations=tolerations))
    assert reasons(decision) == ({"a": "node(s) were unschedulable"} if out else {})


POD = make_pod("p", tolerations=[GPU])


@pytest.mark.feature("TaintToleration and NodeUnschedulable: queueing hints")
@pytest.mark.parametrize(
    ("hint", "old", "new", "expected"),
    [
        (taint_toleration.after_node_change, None, make_node("a"), Hint.QUEUE),
        (taint_toleration.after_node_change, None, make_node("a", taints=["x=:NoSchedule"]), Hint.SKIP),
        (taint_toleration.after_node_change, make_node("a", taints=["x=:NoSchedule"]), make_node("a"), Hint.QUEUE),
        (taint_toleration.after_node_change, make_node("a"), make_node("a"), Hint.SKIP),
        (taint_toleration.after_node_change, None, make_node("a", taints=["gpu=:NoSchedule"]), Hint.QUEUE),
        (after_own_update, POD, POD, Hint.QUEUE),
        (after_own_update, None, make_pod("other"), Hint.SKIP),
        (node_unschedulable.after_node_change, None, make_node("a"), Hint.QUEUE),
        (node_unschedulable.after_node_change, None, make_node("a", unschedulable=True), Hint.SKIP),
        (node_unschedulable.after_node_change, make_node("a", unschedulable=True), make_node("a"), Hint.QUEUE),
        (node_unschedulable.after_node_change, make_node("a"), make_node("a"), Hint.SKIP),
        (node_unschedulable.after_toleration_change, POD, make_pod("p", tolerations=[CORDON]), Hint.QUEUE),
        (node_unschedulable.after_toleration_change, POD, POD, Hint.SKIP),
        (node_unschedulable.after_toleration_change, None, make_pod("other", tolerations=[CORDON]), Hint.SKIP),
    ],
)
def test_hints_after_events(hint, old, new, expected):
    assert hint(POD, old, new) is expected


@cases("taints", {"no taints": [], "tainted": ["k=v:PreferNoSchedule"]})
def test_scoring_fails_without_pre_score(taints):
    nodes = make_cluster(make_node("n", taints=taints)).state.nodes
    with pytest.raises(KeyError, match="TaintToleration"):
        taint_toleration.TaintToleration().score_nodes(CycleState(), make_pod("p"), nodes)
