"""TaintToleration and NodeUnschedulable."""

import pytest
from tests.support.tables import cases

from bayplan.core.framework.events import Hint
from bayplan.core.framework.hints import after_own_update
from bayplan.core.framework.interface import CycleState
from bayplan.core.plugins import node_unschedulable, taint_toleration
from bayplan.core.versions import DEFAULT_GATES
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
        (taint_toleration.TaintToleration().after_node_change, None, make_node("a"), Hint.QUEUE),
        (
            taint_toleration.TaintToleration().after_node_change,
            None,
            make_node("a", taints=["x=:NoSchedule"]),
            Hint.SKIP,
        ),
        (
            taint_toleration.TaintToleration().after_node_change,
            make_node("a", taints=["x=:NoSchedule"]),
            make_node("a"),
            Hint.QUEUE,
        ),
        (taint_toleration.TaintToleration().after_node_change, make_node("a"), make_node("a"), Hint.SKIP),
        (
            taint_toleration.TaintToleration().after_node_change,
            None,
            make_node("a", taints=["gpu=:NoSchedule"]),
            Hint.QUEUE,
        ),
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


COMPARING = DEFAULT_GATES.but("TaintTolerationComparisonOperators")
COMPARED = {
    "below": ("Lt", "3", "2", ""),
    "equal": ("Lt", "3", "3", "3 is not below 3"),
    "above": ("Gt", "3", "4", ""),
    "not above": ("Gt", "7", "5", "5 is not above 7"),
    "negative": ("Lt", "-1", "-2", ""),
    "the whole range": ("Lt", "9223372036854775807", "-9223372036854775808", ""),
    "beyond 64 bits": ("Lt", "9223372036854775808", "1", "'9223372036854775808' is not an integer"),
    "a leading zero": ("Lt", "3", "01", "'01' is not an integer"),
    "minus zero": ("Lt", "3", "-0", "'-0' is not an integer"),
    "a sign": ("Gt", "+1", "2", "'+1' is not an integer"),
    "no number": ("Gt", "1", "", "'' is not an integer"),
    "another script's digits": ("Gt", "1", "\u0663", "'\u0663' is not an integer"),
}


def comparing(operator, value, *, gates, taint="5", effect="NoSchedule"):
    cluster = make_cluster(make_node("a"), gates=gates)
    cluster.state.set_node(make_node("a", taints=[f"sla={taint}:{effect}"]))
    toleration = {"key": "sla", "operator": operator, "value": value, "effect": effect}
    return cluster, make_pod("p", tolerations=[toleration])


@pytest.mark.feature("TaintToleration: comparison")
@cases("operator, value, taint, text", COMPARED)
def test_tolerations_that_compare_numbers(operator, value, taint, text):
    cluster, pod = comparing(operator, value, taint=taint, gates=COMPARING)
    assert reasons(cluster.decide(pod)) == ({"a": "node(s) had untolerated taint(s)"} if text else {})
    node = cluster.state.nodes.info(0)
    details = taint_toleration.TaintToleration(COMPARING).explain(CycleState(), pod, node)
    if text:
        assert f"({text})" in details.text


@pytest.mark.feature("TaintToleration: comparison")
def test_without_the_gate_they_tolerate_nothing():
    cluster, pod = comparing("Lt", "9", gates=DEFAULT_GATES)
    assert reasons(cluster.decide(pod)) == {"a": "node(s) had untolerated taint(s)"}
    details = taint_toleration.TaintToleration().explain(CycleState(), pod, cluster.state.nodes.info(0))
    assert "no effect without the feature gate TaintTolerationComparisonOperators" in details.text


@pytest.mark.feature("TaintToleration: comparison")
@cases("gates, expected", {"on": (COMPARING, Hint.QUEUE), "off": (DEFAULT_GATES, Hint.SKIP)})
def test_hints_compare_numbers(gates, expected):
    pod = comparing("Lt", "3", gates=gates)[1]
    old, new = make_node("a", taints=["sla=5:NoSchedule"]), make_node("a", taints=["sla=2:NoSchedule"])
    assert taint_toleration.TaintToleration(gates).after_node_change(pod, old, new) is expected


@pytest.mark.feature("TaintToleration: comparison")
@cases("gates, expected", {"on": (COMPARING, 300), "off": (DEFAULT_GATES, 0)})
def test_preferences_compare_numbers(gates, expected):
    cluster, pod = comparing("Gt", "3", effect="PreferNoSchedule", gates=gates)
    cluster.state.set_node(make_node("b", taints=["sla=1:PreferNoSchedule"]))
    cluster.state.set_node(make_node("c"))
    scores = cluster.decide(pod).scores.plugins["TaintToleration"].tolist()
    assert (scores[0], scores[1:]) == (expected, [0, 300])


@pytest.mark.feature("TaintToleration: comparison")
@cases("gates, expected", {"on": (COMPARING, "b"), "off": (DEFAULT_GATES, None)})
def test_spread_constraints_that_honor_taints_compare_numbers(gates, expected):
    """With the gate, the tainted node counts as an empty domain; without it, it is out."""
    cluster = make_cluster(
        make_node("a", unschedulable=False),
        make_node("b", taints=["sla=5:NoSchedule"]),
        make_pod("other", node="a", labels={"app": "x"}),
        gates=gates,
    )
    constraint = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    tolerations = [{"key": "sla", "operator": "Gt", "value": "3"}]
    pod = make_pod("p", labels={"app": "x"}, tolerations=tolerations, spec={"topologySpreadConstraints": [constraint]})
    decision = cluster.decide(pod)
    assert decision.node == (expected or "a")
