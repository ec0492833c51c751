"""Attempts with extenders: the requests to them, and the effect of the replies. No extender runs here."""

import random
from dataclasses import replace

import pytest
from tests.support.tables import cases

from bayplan import Plugin, Status
from bayplan.core.framework.extenders import ExtenderError, ExtenderFilter, ExtenderPreempt, ExtenderScore, Filtered
from bayplan.core.framework.interface import Candidate, NodeNames
from bayplan.core.scheduling import Options, Outcome, Unit, attempt, decide
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("HTTP extenders: asked in a cycle")

NO = Status.unschedulable("no")
NEVER = Status.unresolvable("never")


def names_of(question):
    if isinstance(question, ExtenderPreempt):
        return {each.node_name: [victim.name for victim in each.victims] for each in question.candidates}
    return [question.nodes.name(position) for position in range(len(question.nodes))]


def asking(cluster, pod, rng, *, explain):
    """An attempt with extenders."""
    options = Options(ask_extenders=lambda _: True, explain=explain)
    return attempt(Unit(pod), cluster.profile, cluster.state, rng, options)


def answered(cluster, pod, *answers, explain=False):
    """Run a cycle with these replies in turn. An exception is thrown into it; "all" returns the request unchanged."""
    cycle = asking(cluster, pod, random.Random(0), explain=explain)
    questions, rest = [], list(answers)
    try:
        question = next(cycle)
        while True:
            questions.append(question)
            answer = rest.pop(0)
            if isinstance(answer, Exception):
                question = cycle.throw(answer)
            else:
                question = cycle.send(everything(question) if answer == "all" else answer)
    except StopIteration as end:
        assert not rest, "the attempt needed fewer replies"
        return end.value.decisions[0], [(type(question), names_of(question)) for question in questions]


def everything(question):
    match question:
        case ExtenderFilter():
            return Filtered(names_of(question), {})
        case ExtenderScore():
            return {}
        case ExtenderPreempt():
            return question.candidates


def filter_message(decision):
    return replace(decision.diagnosis, post_filter_message="").explain()


def three(**taken):
    """Three nodes of 2 cpus; `taken`: node to a cpu request of a pod of low priority there."""
    pods = [make_pod(f"on-{name}", node=name, cpu=cpu) for name, cpu in taken.items()]
    return make_cluster(*(make_node(name, cpu="2") for name in "abc"), *pods)


def content(cluster, pod):
    """The decision if extenders change nothing."""
    cycle = asking(cluster, pod, random.Random(1), explain=True)
    try:
        question = next(cycle)
        while True:
            question = cycle.send(everything(question))
    except StopIteration as end:
        return end.value.decisions[0]


@cases(
    "pod, taken",
    {
        "fits": (make_pod("p", cpu="1"), {"a": "1"}),
        "too big": (make_pod("p", cpu="3"), {}),
        "preempts": (make_pod("p", cpu="2", priority=9), {"a": "2", "b": "1", "c": "2"}),
        "nominated": (make_pod("p", cpu="1", status={"nominatedNodeName": "b"}), {}),
        "single feasible node": (make_pod("p", node_selector={"kubernetes.io/hostname": "c"}), {}),
    },
)
def test_extenders_that_change_nothing_do_not_change_the_decision(pod, taken):
    with_them = content(three(**taken), pod)
    cluster = three(**taken)
    without = decide(cluster.profile, cluster.state, pod, random.Random(1), explain=True)
    for field in ("outcome", "node", "message", "nominated_node", "preempted_by"):
        assert getattr(with_them, field) == getattr(without, field), field
    assert [pod.name for pod in with_them.victims] == [pod.name for pod in without.victims]
    assert with_them.diagnosis.unschedulable_plugins == without.diagnosis.unschedulable_plugins


def test_extenders_are_called_between_the_stages():
    cluster = make_cluster(make_node("a"), make_node("b"), make_node("c"), make_node("d", unschedulable=True))
    decision, questions = answered(cluster, make_pod("p"), Filtered(["b", "c"], {"a": NO}), {"c": 50})
    assert questions == [(ExtenderFilter, ["a", "b", "c"]), (ExtenderScore, ["b", "c"])]
    assert decision.node == "c"
    assert decision.scores.plugins["Extender"].tolist() == [0, 50]


@pytest.mark.parametrize("explain", [True, False])
def test_single_node_that_extenders_return_is_not_scored(explain):
    decision, questions = answered(three(), make_pod("p"), Filtered(["b"], {}), explain=explain)
    assert (decision.node, [kind for kind, _ in questions]) == ("b", [ExtenderFilter])


def test_extender_scores_may_overflow():
    decision, _ = answered(three(), make_pod("p"), "all", {"a": 2**63 - 1, "b": 5})
    assert decision.node == "b", "the sum of the largest one is negative, as for kube-scheduler"


@cases(
    "answer, message, plugins",
    {
        "reasons are counted": (
            Filtered([], {"a": NO, "b": NO, "c": NEVER}),
            "0/3 nodes are available: 1 never, 2 no.",
            {"Extender"},
        ),
        "without a reason": (Filtered([], {}), "0/3 nodes are available:", {"Extender"}),
        "an unknown node is left out": (
            Filtered([], {"a": NO, "ghost": NO}),
            "0/3 nodes are available: 1 no.",
            {"Extender"},
        ),
    },
)
def test_a_pod_that_only_extenders_reject_waits_for_them(answer, message, plugins):
    decision, _ = answered(three(), make_pod("p"), answer)
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert filter_message(decision) == message
    assert decision.diagnosis.unschedulable_plugins == plugins


def test_an_extender_replaces_a_verdict_but_not_the_plugin_that_the_pod_waits_for():
    cluster = three(a="2")
    decision, questions = answered(
        cluster, make_pod("p", cpu="1", priority=9), Filtered([], {"a": NEVER, "b": NEVER, "c": NEVER})
    )
    assert questions == [(ExtenderFilter, ["b", "c"])], "preemption helps on no node"
    assert filter_message(decision) == "0/3 nodes are available: 3 never."
    assert decision.diagnosis.unschedulable_plugins == {"Extender", "NodeResourcesFit"}


def test_node_that_extenders_return_is_feasible_despite_a_reason():
    decision, _ = answered(three(), make_pod("p"), Filtered(["a"], {"a": NEVER}))
    assert decision.node == "a"


def test_a_pod_does_not_wait_for_extenders_that_reject_nothing():
    decision, questions = answered(three(a="2", b="2", c="2"), make_pod("p", cpu="1"))
    assert questions == []
    assert decision.diagnosis.unschedulable_plugins == {"NodeResourcesFit"}


@cases("answers", {"filter": (ExtenderError("dead"),), "score": ("all", ExtenderError("dead"))})
def test_a_failing_extender_fails_the_attempt(answers):
    decision, _ = answered(three(), make_pod("p"), *answers)
    assert (decision.outcome, decision.message, decision.nominated_node) == (Outcome.ERROR, "dead", None)


class TestNominatedNode:
    POD = make_pod("p", cpu="1", status={"nominatedNodeName": "b"})

    def test_is_sent_to_the_extenders_first(self):
        decision, questions = answered(three(), self.POD, "all")
        assert (decision.node, questions) == ("b", [(ExtenderFilter, ["b"])])

    @cases("answer", {"rejected": Filtered([], {"b": NO}), "failed": ExtenderError("dead")})
    def test_other_nodes_are_tried_if_it_is_rejected(self, answer):
        decision, questions = answered(three(), self.POD, answer, Filtered(["c"], {}))
        assert questions == [(ExtenderFilter, ["b"]), (ExtenderFilter, ["a", "b", "c"])]
        assert decision.node == "c"


class Narrows(Plugin):
    name = "Narrows"

    def pre_filter(self, cycle, pod, nodes):
        return NodeNames(frozenset("ab"))


def test_a_node_dropped_without_a_reason_counts_as_not_filtered():
    cluster = make_cluster(*(make_node(name) for name in "abc"), plugins=[Narrows])
    decision, questions = answered(cluster, make_pod("p"), Filtered([], {"a": NO}))
    assert questions == [(ExtenderFilter, ["a", "b"])]
    assert filter_message(decision) == ("0/3 nodes are available: 1 no, 2 node(s) didn't satisfy plugin(s) [Narrows].")


class TestPreemption:
    VIP = make_pod("vip", cpu="2", priority=9)

    def full(self):
        return three(a="2", b="2", c="2")

    def test_extenders_get_all_candidates_and_the_best_remaining_one_is_chosen(self):
        decision, questions = answered(self.full(), self.VIP, (Candidate("b", (make_pod("other", node="b"),), 0),))
        ((kind, shown),) = questions
        assert (kind, shown) == (ExtenderPreempt, {"a": ["on-a"], "b": ["on-b"], "c": ["on-c"]})
        assert (decision.nominated_node, [pod.name for pod in decision.victims]) == ("b", ["other"])
        assert decision.preempted_by == "DefaultPreemption"

    def test_candidate_that_violates_fewer_budgets_is_chosen(self):
        pods = {name: (make_pod(f"on-{name}", node=name),) for name in "ab"}
        decision, _ = answered(self.full(), self.VIP, (Candidate("a", pods["a"], 1), Candidate("b", pods["b"], 0)))
        assert decision.nominated_node == "b"

    def test_start_times_of_the_most_important_victims_are_compared_in_any_order(self):
        def victims(node, low, high):
            return tuple(
                make_pod(f"{node}{n}", node=node, priority=n, status={"startTime": f"2026-01-01T00:00:{start}Z"})
                for n, start in enumerate((low, high))
            )

        left = Candidate("a", victims("a", 20, 40), 0), Candidate("b", victims("b", 10, 50), 0)
        decision, _ = answered(self.full(), self.VIP, left)
        assert decision.nominated_node == "b"

    def test_no_candidate_left(self):
        decision, _ = answered(self.full(), self.VIP, ())
        assert decision.message == (
            "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: "
            "no candidate node for preemption"
        )
        assert (decision.outcome, decision.nominated_node, decision.victims) == (Outcome.UNSCHEDULABLE, None, ())

    def test_failing_extender_only_prevents_the_preemption(self):
        decision, _ = answered(self.full(), self.VIP, ExtenderError("dead"))
        assert decision.message == "0/3 nodes are available: 3 Insufficient cpu. preemption: dead"
        assert (decision.outcome, decision.nominated_node, decision.victims) == (Outcome.UNSCHEDULABLE, None, ())
        assert decision.diagnosis.unschedulable_plugins == {"NodeResourcesFit"}

    def test_node_that_only_an_extender_rejected_has_no_victims(self):
        pod = make_pod("vip", cpu="1", priority=9)
        decision, _ = answered(three(a="1", b="1", c="1"), pod, Filtered([], {"a": NO, "b": NEVER}))
        assert decision.diagnosis.post_filter_message == ('preemption: expected at least one victim pod on node "a"'), (
            "b needs no eviction, and c was dropped without a reason, so only a is a candidate"
        )
