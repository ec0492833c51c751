"""The scheduling cycle: outcomes, messages, nominated pods."""

import random
from dataclasses import replace

import pytest
from tests.support.tables import cases

from bayplan import Plugin, Status
from bayplan.core.framework.interface import PostFilterResult
from bayplan.core.scheduling import Outcome, decide
from bayplan.testing.builders import make_cluster, make_node, make_pod


def filter_message(decision):
    """The message without that of PostFilter."""
    return replace(decision.diagnosis, post_filter_message="").explain()


@pytest.mark.feature("Whole decision: message, narrowing and choice")
def test_no_nodes():
    decision = make_cluster().decide(make_pod("p"))
    assert (decision.outcome, decision.message) == (Outcome.UNSCHEDULABLE, "no nodes available to schedule pods")


@pytest.mark.feature("Whole decision: message, narrowing and choice")
def test_the_message_counts_reasons_in_order():
    cluster = make_cluster(
        make_node("a", cpu="1"), make_node("b", cpu="1", pods=0), make_node("c", taints=["x=:NoSchedule"])
    )
    decision = cluster.decide(make_pod("p", cpu="2"))
    assert filter_message(decision) == (
        "0/3 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )
    assert decision.diagnosis.unschedulable_plugins == {"NodeResourcesFit", "TaintToleration"}


@pytest.mark.feature("Whole decision: message, narrowing and choice")
def test_the_best_node_is_chosen_and_ties_are_broken_at_random():
    cluster = make_cluster(make_node("small", cpu="2"), make_node("a", cpu="8"), make_node("b", cpu="8"))
    drawn = {cluster.decide(make_pod("p", cpu="1"), seed).node for seed in range(20)}
    assert drawn == {"a", "b"}


def test_a_single_feasible_node_is_not_scored():
    cluster = make_cluster(make_node("a"), make_node("b", unschedulable=True))
    decision = decide(cluster.profile, cluster.state, make_pod("p"), random.Random(0))
    assert (decision.node, decision.scores) == ("a", None)


class Gives(Plugin):
    name = "Gives"
    answer = None

    def pre_filter(self, cycle, pod, nodes):
        return self.answer


def giving(answer):
    return type("Gives", (Gives,), {"answer": answer})


@pytest.mark.feature("Whole decision: message, narrowing and choice")
def test_a_rejection_in_pre_filter():
    cluster = make_cluster(make_node("a"), plugins=[giving(Status.unresolvable("not this one"))])
    decision = cluster.decide(make_pod("p"))
    assert filter_message(decision) == "0/1 nodes are available: not this one."
    assert decision.diagnosis.absent.plugin == "Gives"
    assert decision.diagnosis.unschedulable_plugins == {"Gives"}


class Broken(Plugin):
    name = "Broken"

    def filter(self, cycle, pod, node):
        raise RuntimeError("out of order")


def test_a_broken_plugin_fails_the_attempt():
    decision = make_cluster(make_node("a"), plugins=[Broken]).decide(make_pod("p"))
    assert (decision.outcome, decision.failed_plugin) == (Outcome.ERROR, "Broken")
    assert "out of order" in decision.message


class Evicts(Plugin):
    name = "Evicts"

    def post_filter(self, cycle, pod, diagnosis, what_if):
        return PostFilterResult(Status.unschedulable("no victims"), "a")


@pytest.mark.feature("Whole decision: message, narrowing and choice")
def test_the_message_includes_post_filter():
    decision = make_cluster(make_node("a", cpu="1"), plugins=[Evicts]).decide(make_pod("p", cpu="2"))
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu. ")
    assert decision.message.endswith("no victims")
    assert decision.nominated_node == "a"


@pytest.mark.feature("Nominated pods: filters with and without them")
@cases("priority, node", {"of equal priority": (5, None), "of lower priority": (6, "a")})
def test_nominated_pods_reserve_resources(priority, node):
    cluster = make_cluster(make_node("a", cpu="2"))
    nominee = make_pod("vip", cpu="2", priority=5, status={"nominatedNodeName": "a"})
    cluster.state.nominations.add(nominee)
    assert cluster.decide(make_pod("p", cpu="1", priority=priority)).node == node
    assert cluster.decide(nominee).node == "a"


@pytest.mark.feature("Nominated pods: filters with and without them")
def test_the_nominated_node_is_filtered_first():
    cluster = make_cluster(make_node("small", cpu="2"), make_node("big", cpu="64"))
    assert cluster.decide(make_pod("p", cpu="1", status={"nominatedNodeName": "small"})).node == "small"
    assert cluster.decide(make_pod("p", cpu="3", status={"nominatedNodeName": "small"})).node == "big"
    assert cluster.decide(make_pod("p", cpu="3", status={"nominatedNodeName": "gone"})).node == "big"


@pytest.mark.feature("Whole decision: message, narrowing and choice")
def test_a_nominated_node_that_pre_filter_leaves_out_keeps_its_reason():
    cluster = make_cluster(make_node("a", unschedulable=True), make_node("b"), make_node("c", cpu="1"))
    only_c = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only_c]}}}
    pod = make_pod("p", cpu="2", affinity=affinity, status={"nominatedNodeName": "a"})
    decision = cluster.decide(pod)
    assert filter_message(decision) == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable], 1 node(s) were unschedulable."
    )
    assert decision.diagnosis.unschedulable_plugins == {"NodeAffinity", "NodeResourcesFit", "NodeUnschedulable"}
