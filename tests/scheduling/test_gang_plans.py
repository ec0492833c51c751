import random
from dataclasses import replace

import numpy as np
import pytest
from tests.support.tables import cases

from bayplan.core.framework.gangs import Gang, GangOutcome, GangVictims, Placement, PreemptionRules
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.framework.status import Status
from bayplan.core.scheduling import Options, Outcome, Unit, attempt, run
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_cluster, make_node, make_pod


def gang(*pods, needed=None, placed=0):
    return Gang("red", pods, len(pods) if needed is None else needed, placed, together=True)


def pods(count, cpu="1", **fields):
    return [make_pod(f"red-{number}", cpu=cpu, **fields) for number in range(count)]


def planned(cluster, members, *, start=PodRun.start):
    """The plan of an attempt of the gang, which leaves the cluster as it is."""
    unit = Unit(members.members[0], members, Namer(), members.members)
    before = snapshot(cluster.state)
    plan = run(attempt(unit, cluster.profile, cluster.state, random.Random(0), Options(start=start)))
    assert snapshot(cluster.state) == before
    return plan


class Namer:
    """Takes the place of the plugin that named the gang."""

    name = "Namer"


def outcome(plan):
    """The nodes of the placed members, and the outcome."""
    return {decision.pod.name: decision.node for decision in plan.placed}, plan.outcome


def snapshot(state):
    table = state.table
    rows = {name: sorted(table.pods[row]) for name, row in table.row_of.items()}
    requested = {name: int(table.requested[table.resources["cpu"]][row]) for name, row in table.row_of.items()}
    nominated = {node: sorted(pods) for node, pods in state.nominations.nodes.items()}
    return rows, requested, nominated, state.pod_count, state.assumed_count


LACKING = "0/2 nodes are available: 2 Insufficient cpu."
CASES = {
    "all fit": (gang(*pods(4)), 4, ""),
    "a part is enough": (gang(*pods(6), needed=4), 4, ""),
    "one too many": (gang(*pods(5)), 4, f"gang red: 4 of 5 members fit; the next one: {LACKING}"),
    "with members that are placed already": (
        gang(*pods(5), placed=2),
        4,
        f"gang red: 6 of 7 members fit; the next one: {LACKING}",
    ),
    "a member that is too large does not stop the others": (gang(make_pod("big", cpu="3"), *pods(4), needed=4), 4, ""),
    "a member that is too large and needed": (
        gang(make_pod("big", cpu="3"), *pods(4)),
        0,
        f"gang red: 0 of 5 members fit; the next one: {LACKING}",
    ),
    "too few members": (gang(*pods(2), needed=3), 0, "gang red: 2 of 3 members exist"),
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("members", "fitting", "message"), CASES.values(), ids=CASES)
def test_members_count_on_their_nodes_for_later_members(members, fitting, message, whole):
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"))
    plan = planned(cluster, replace(members, whole=whole))
    assert sum(1 for decision in plan.decisions if decision.node) == fitting
    if message:
        assert (plan.placed, plan.outcome, plan.message) == ([], GangOutcome.REFUSED, message)
        assert {refusal.pod.name for refusal in plan.refused} == {pod.name for pod in members.members}
        assert {refusal.message for refusal in plan.refused} == {message}
    else:
        assert (len(plan.placed), plan.outcome) == (fitting, GangOutcome.PLACED)
        assert plan.all_or_none


def test_attempt_stops_once_too_few_members_can_fit():
    cluster = make_cluster(make_node("a", cpu="2"))
    plan = planned(cluster, gang(*pods(50), needed=49))
    assert [bool(decision.node) for decision in plan.decisions] == [True, True, False, False]
    assert len(plan.refused) == 50


def test_members_that_a_placed_gang_does_not_need_are_leftover():
    cluster = make_cluster(make_node("a", cpu="2"))
    plan = planned(cluster, gang(*pods(50), needed=2))
    assert [bool(decision.node) for decision in plan.decisions] == [True, True, False]
    assert [pod.name for pod in plan.leftover] == [f"red-{number}" for number in range(2, 50)]


def test_members_that_a_placed_whole_gang_does_not_need_are_attempted_and_refused():
    cluster = make_cluster(make_node("a", cpu="2"))
    plan = planned(cluster, replace(gang(*pods(5), needed=2), whole=True))
    assert [bool(decision.node) for decision in plan.decisions] == [True, True, False, False, False]
    assert plan.leftover == []
    reason = "0/1 nodes are available: 1 Insufficient cpu."
    assert {refusal.pod.name: refusal.message for refusal in plan.refused} == dict.fromkeys(
        ["red-2", "red-3", "red-4"], reason
    )


def low(name, node, cpu="2"):
    return make_pod(name, cpu=cpu, node=node, priority=-5)


class Evicting(Plugin):
    """Spares the first of two pods if it can."""

    name = "Evicting"
    rules = PreemptionRules(keeps_nodes=True)

    def __init__(self, *pods):
        self.pods = pods
        self.answers = []

    def pre_enqueue(self, pod):
        return None

    def gang_post_filter(self, gang, nodes):
        self.answers.append((yield self.pods))
        self.answers.append((yield self.pods[1:]))
        return GangVictims(gang.members[0], self.pods[1:] if self.answers[-1] else self.pods)


KEPT = {
    "fits beside the first pod": ([low("x", "a", cpu="1"), low("y", "a", cpu="1")], ["1"], [True, True], ["y"]),
    "would fit on the other node": ([low("x", "a", cpu="3"), low("y", "b", cpu="1")], [], [True, False], ["x", "y"]),
}


@pytest.mark.parametrize(("old", "on_b", "answers", "victims"), KEPT.values(), ids=KEPT)
def test_members_keep_the_nodes_that_they_have_without_victims(old, on_b, answers, victims):
    """Node a is the better one without x. Nothing is left of the trial, and nothing stays reserved."""
    seats = ReleasedSeats()
    others = [make_pod(f"other-{number}", cpu=cpu, node="b") for number, cpu in enumerate(on_b)]
    evicting = Evicting(*old)
    plugins = [seats, evicting]
    cluster = make_cluster(make_node("a", cpu="4"), make_node("b", cpu="3"), *old, *others, plugins=plugins)
    before = snapshot(cluster.state)
    state = cluster.state
    members = replace(gang(*pods(1, cpu="3")), whole=True)
    plan = planned(cluster, members)
    assert evicting.answers == answers
    assert [pod.name for each in plan.preemptions for pod in each.victims] == victims
    assert [refusal.nominated_node for refusal in plan.refused] == ["a"]
    assert (snapshot(state), seats.taken) == (before, set())


def test_without_nodes():
    plan = planned(make_cluster(), gang(*pods(2)))
    assert plan.message == "gang red: 0 of 2 members fit; the next one: no nodes available to schedule pods"


class Touchy:
    """Fails for one pod."""

    name = "Touchy"
    reads_pods = False
    arguments = None

    def filter(self, cycle, pod, node):
        if pod.name == "red-1":
            raise ZeroDivisionError("oh")


def test_a_failing_plugin_ends_the_attempt():
    cluster = make_cluster(make_node("a"), plugins=[Touchy()])
    plan = planned(cluster, gang(*pods(3), needed=2))
    assert [decision.outcome for decision in plan.decisions] == [Outcome.SCHEDULED, Outcome.ERROR]
    assert plan.message.endswith('the next one: running "Touchy" filter plugin: ZeroDivisionError: oh')
    assert plan.outcome is GangOutcome.ERROR
    assert {refusal.pod.name: refusal.error for refusal in plan.refused} == {
        "red-0": False,
        "red-1": True,
        "red-2": False,
    }


# Preemption


def test_a_gang_preempts_if_it_fits_then():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"), low("y", "b"))
    plan = planned(cluster, gang(*pods(4)))
    assert plan.placed == []
    assert sorted(victim.name for each in plan.preemptions for victim in each.victims) == ["x", "y"]
    assert sorted(refusal.nominated_node for refusal in plan.refused) == ["a", "a", "b", "b"]
    assert plan.message == "gang red: 4 of 4 members fit once 2 pods of lower priority are gone"


def test_a_gang_that_does_not_fit_either_way_preempts_nothing():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"), low("y", "b"))
    plan = planned(cluster, gang(*pods(5)))
    assert (plan.placed, plan.preemptions) == ([], [])
    assert plan.message.startswith("gang red: 0 of 5 members fit; the next one: 0/2 nodes are available")


def test_assumed_and_nominated_pods_are_restored():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"))
    state = cluster.state
    state.assume(low("y", ""), "b")
    members = pods(4)
    state.nominations.add(members[0], "b")
    assert planned(cluster, gang(*members)).preemptions
    assert state.is_assumed("default-y")
    assert not state.is_assumed("default-x")


def test_a_pod_that_is_forgotten_during_a_what_if_stays_forgotten():
    cluster = make_cluster(make_node("a", cpu="2"))
    state = cluster.state
    state.assume(low("y", ""), "a")
    with state.what_if() as what_if:
        what_if.remove("default-y")
        state.forget("default-y")
    assert state.pod("default-y") is None
    assert state.pod_count == 0


def test_nested_what_ifs():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"), low("y", "b"))
    state = cluster.state
    before = snapshot(state)
    with state.what_if() as outer:
        outer.remove("default-x")
        outer.remove("default-y")
        outer.restore("default-y")
        outer.restore("default-y")
        assert outcome(planned(cluster, gang(*pods(2)))) == ({"red-0": "a", "red-1": "a"}, GangOutcome.PLACED)
        assert planned(cluster, gang(*pods(3))).preemptions
        assert state.pod("default-x") is None, "a nested what-if does not undo the outer one"
        assert state.pod("default-y") is not None
        outer.remove_only([state.pod("default-y")])
        assert (state.pod("default-x") is None, state.pod("default-y")) == (False, None)
    assert snapshot(state) == before


PLACEMENTS = {
    "its nodes only": ((0, 1), 3, 3, ""),
    "not enough of them": (
        (0,),
        3,
        2,
        "gang red: 2 of 3 members fit in r1; the next one: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
}


class Placements(Plugin):
    """Allows a gang only these rows."""

    name = "Placements"

    def __init__(self, rows):
        self.rows = np.array(rows)

    def generate_placements(self, gang, nodes):
        return [Placement("r1", nodes.at(self.rows))]


@pytest.mark.parametrize(("rows", "size", "placed", "message"), PLACEMENTS.values(), ids=PLACEMENTS)
@pytest.mark.parametrize("shared", [False, True])
def test_a_placement_limits_the_nodes(rows, size, placed, message, shared):
    cluster = make_cluster(*(make_node(name, cpu="2") for name in "abc"), plugins=[Placements(rows)])
    sharing = Sharing(cluster.profile)
    plan = planned(cluster, gang(*pods(size)), start=sharing.start if shared else PodRun.start)
    names = {cluster.state.nodes.name(row) for row in rows}
    nodes = [decision.node for decision in plan.decisions if decision.node]
    assert len(nodes) == placed
    assert set(nodes) <= names
    assert plan.message == message
    assert (sharing.used > 0) is shared


def test_a_what_if_that_raises_is_undone():
    cluster = make_cluster(make_node("a", cpu="2"), low("x", "a"))
    before = snapshot(cluster.state)

    def fail():
        with cluster.state.what_if() as what_if:
            what_if.remove("default-x")
            what_if.place(make_pod("p", cpu="1"), "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert snapshot(cluster.state) == before


class Seats(Plugin):
    """Has two seats for all pods. `calls` records what is called with which pod."""

    name = "Seats"

    def __init__(self, answer="no seat is left"):
        self.taken = set()
        self.calls = []
        self.answer = answer

    def reserve(self, cycle, pod, node_name):
        if len(self.taken) >= 2:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        self.taken.add(pod.uid)
        self.calls.append(("reserve", pod.name, pod.node_name))
        return None

    def unreserve(self, cycle, pod, node_name):
        self.calls.append(("unreserve", pod.name, pod.node_name))
        self.taken.discard(pod.uid)


class ReleasedSeats(Seats):
    """Also has a method for what-ifs."""

    def release(self, cycle, pod, node_name):
        self.calls.append(("release", pod.name, pod.node_name))
        self.taken.discard(pod.uid)


@pytest.mark.parametrize(("seats", "undo"), [(Seats(), "unreserve"), (ReleasedSeats(), "release")])
def test_members_reserve_in_order_and_release_in_reverse(seats, undo):
    cluster = make_cluster(make_node("a", cpu="4"), plugins=[seats])
    plan = planned(cluster, gang(*pods(2)))
    assert outcome(plan) == ({"red-0": "a", "red-1": "a"}, GangOutcome.PLACED)
    assert seats.calls == [
        ("reserve", "red-0", "a"),
        ("reserve", "red-1", "a"),
        (undo, "red-1", "a"),
        (undo, "red-0", "a"),
    ]
    assert seats.taken == set()


@cases(
    "answer, expected, message",
    {
        "rejected": (
            "no seat is left",
            GangOutcome.REFUSED,
            "gang red: 2 of 3 members fit; the next one: 0/1 nodes are available: 1 no seat is left.",
        ),
        "failed": (
            Status.error("the seats are on fire"),
            GangOutcome.ERROR,
            'gang red: 2 of 3 members fit; the next one: running Reserve plugin "Seats": the seats are on fire',
        ),
        "raised": (
            ValueError("a bug"),
            GangOutcome.ERROR,
            'gang red: 2 of 3 members fit; the next one: running Reserve plugin "Seats": ValueError: a bug',
        ),
    },
)
def test_a_member_that_reserve_does_not_accept(answer, expected, message):
    seats = Seats(answer)
    cluster = make_cluster(make_node("a", cpu="4"), plugins=[seats])
    plan = planned(cluster, gang(*pods(3)))
    assert (plan.outcome, plan.message) == (expected, message)
    assert seats.taken == set()
    assert plan.shortfall.next.pod.name == "red-2"
    rejected = expected is GangOutcome.REFUSED
    assert ("Seats" in plan.shortfall.next.diagnosis.unschedulable_plugins) == rejected


def test_victims_are_back_where_reserve_rejects_their_preemptor():
    seats = Seats()
    seats.taken = {"x", "y"}
    cluster = make_cluster(make_node("a", cpu="2"), low("x", "a"), plugins=[seats])
    plan = planned(cluster, gang(*pods(2, priority=5)))
    assert (plan.outcome, plan.preemptions) == (GangOutcome.REFUSED, [])


def test_shortfall():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"))
    shortfall = planned(cluster, gang(*pods(5), placed=2)).shortfall
    assert (shortfall.fitting, shortfall.needed, shortfall.next.pod.name) == (6, 7, "red-4")
    assert shortfall.next.diagnosis.status_of("a").reasons == ("Insufficient cpu",)
    assert planned(cluster, gang(*pods(4))).shortfall is None


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (["x"], "gang red: 1 of 2 members: held waits for the scheduling gate x"),
        (["x", "y"], "gang red: 1 of 2 members: held waits for the scheduling gates x, y"),
    ],
)
def test_gated_members_are_named(gates, message):
    held = make_pod("held", spec={"schedulingGates": [{"name": gate} for gate in gates]})
    plan = planned(make_cluster(make_node("a")), replace(gang(*pods(1), needed=2), gated=(held,)))
    assert (plan.outcome, plan.message) == (GangOutcome.REFUSED, message)
    assert plan.shortfall.gang.gated == (held,)
