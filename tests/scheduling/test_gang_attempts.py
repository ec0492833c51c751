from __future__ import annotations

import random

import numpy as np
import pytest

from bayplan.framework.interface import Gang, Placement
from bayplan.scheduling import Templates, decide
from bayplan.scheduling.gangs import GangAttempt, decide_gang
from bayplan.testing.builders import make_cluster, make_node, make_pod


def gang(*pods, needed=None, placed=0):
    return Gang("red", pods, len(pods) if needed is None else needed, placed)


def pods(count, cpu="1", **fields):
    return [make_pod(f"red-{number}", cpu=cpu, **fields) for number in range(count)]


def decided(cluster, members, *, preempt=False):
    return decide_gang(cluster.profile, cluster.state, members, random.Random(0), preempt=preempt)


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
    "with those that are there already": (
        gang(*pods(5), placed=2),
        4,
        f"gang red: 6 of 7 members fit; the next one: {LACKING}",
    ),
    "one that is too large does not stop the others": (gang(make_pod("big", cpu="3"), *pods(4), needed=4), 4, ""),
    "nor can it be done without": (
        gang(make_pod("big", cpu="3"), *pods(4)),
        0,
        f"gang red: 0 of 5 members fit; the next one: {LACKING}",
    ),
    "members that are not at hand": (
        gang(*pods(2), needed=3),
        0,
        "gang red: 3 members are needed; held back: none",
    ),
}


@pytest.mark.parametrize(("members", "placed", "message"), CASES.values(), ids=CASES)
def test_members_are_placed_on_top_of_each_other(members, placed, message):
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"))
    before = snapshot(cluster.state)
    attempt = decided(cluster, members)
    assert len(attempt.placed) == placed
    assert attempt.fits is (not message)
    if message:
        assert attempt.explain() == message
    assert snapshot(cluster.state) == before


def test_no_more_are_tried_once_it_is_clear_that_too_few_fit():
    cluster = make_cluster(make_node("a", cpu="2"))
    attempt = decided(cluster, gang(*pods(50), needed=49))
    assert (len(attempt.placed), len(attempt.refused)) == (2, 2)


def test_no_more_are_tried_once_enough_fit_and_one_does_not():
    cluster = make_cluster(make_node("a", cpu="2"))
    attempt = decided(cluster, gang(*pods(50), needed=2))
    assert (len(attempt.placed), len(attempt.refused)) == (2, 1)
    assert attempt.fits


def test_without_nodes():
    attempt = decided(make_cluster(), gang(*pods(2)))
    assert attempt.explain() == "gang red: 0 of 2 members fit; the next one: no nodes available to schedule pods"


class Touchy:
    """Fails for one pod."""

    name = "Touchy"
    reads_pods = False
    arguments = None

    def filter(self, cycle, pod, node):
        if pod.name == "red-1":
            raise ZeroDivisionError("oh")


def test_a_plugin_that_fails_ends_it():
    cluster = make_cluster(make_node("a"), plugins=[Touchy()])
    attempt = decided(cluster, gang(*pods(3), needed=2))
    assert (len(attempt.placed), len(attempt.refused)) == (1, 1)
    assert attempt.explain().endswith("the next one: plugin Touchy failed in Filter: ZeroDivisionError: oh")


# Preemption


def low(name, node, cpu="2"):
    return make_pod(name, cpu=cpu, node=node, priority=-5)


def test_a_gang_preempts_as_a_whole():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"), low("y", "b"))
    members = gang(*pods(4))
    before = snapshot(cluster.state)
    alone = decided(cluster, members)
    assert not alone.fits
    assert alone.might_preempt
    attempt = decided(cluster, members, preempt=True)
    assert attempt.fits
    assert attempt.victims == 2
    assert sorted(victim.name for decision in attempt.placed for victim in decision.victims) == ["x", "y"]
    nodes = sorted(decision.node or decision.nominated_node for decision in attempt.placed)
    assert nodes == ["a", "a", "b", "b"]
    assert attempt.explain() == "gang red: 4 of 4 members fit once 2 pods of lower priority are gone"
    assert snapshot(cluster.state) == before


def test_a_gang_that_would_not_fit_either_way_preempts_nobody():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"), low("y", "b"))
    attempt = decided(cluster, gang(*pods(5)), preempt=True)
    assert not attempt.fits
    assert attempt.explain() == f"gang red: 4 of 5 members fit; the next one: {LACKING}"


def test_what_is_assumed_and_what_is_nominated_is_so_again_afterwards():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"))
    state = cluster.state
    state.assume(low("y", ""), "b")
    members = pods(4)
    state.nominations.add(members[0], "b")
    before = snapshot(state)
    attempt = decided(cluster, gang(*members), preempt=True)
    assert attempt.fits
    assert snapshot(state) == before
    assert state.is_assumed("default-y")
    assert not state.is_assumed("default-x")


def test_a_victim_that_is_forgotten_meanwhile_stays_forgotten():
    cluster = make_cluster(make_node("a", cpu="2"))
    state = cluster.state
    state.assume(low("y", ""), "a")
    with state.in_thought() as thought:
        thought.remove("default-y")
        state.forget("default-y")
    assert state.pod("default-y") is None
    assert state.pod_count == 0


def test_thoughts_within_thoughts():
    cluster = make_cluster(make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", "a"), low("y", "b"))
    state = cluster.state
    before = snapshot(state)
    with state.in_thought() as outer:
        outer.remove("default-x")
        outer.remove("default-y")
        outer.bring_back("default-y")
        outer.bring_back("default-y")
        attempt = decided(cluster, gang(*pods(2)))
        assert {decision.node for decision in attempt.placed} == {"a"}
        assert decided(cluster, gang(*pods(3)), preempt=True).fits
        assert state.pod("default-x") is None, "what is thought within a thought changes nothing of it"
        assert state.pod("default-y") is not None
    assert snapshot(state) == before


PLACEMENTS = {
    "among its nodes only": ((0, 1), 3, 3, ""),
    "not enough of them": (
        (0,),
        3,
        2,
        "gang red: 2 of 3 members fit in r1; the next one: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
}


@pytest.mark.parametrize(("rows", "size", "placed", "message"), PLACEMENTS.values(), ids=PLACEMENTS)
@pytest.mark.parametrize("with_templates", [False, True])
def test_a_placement_limits_the_nodes(rows, size, placed, message, with_templates):
    cluster = make_cluster(*(make_node(name, cpu="2") for name in "abc"))
    placement = Placement("r1", cluster.state.nodes.at(np.array(rows)))
    templates = Templates(cluster.profile) if with_templates else None
    attempt = GangAttempt(gang(*pods(size)), placement=placement)
    with attempt.thinking(cluster.state):
        for number, member in enumerate(attempt.gang.members):
            if attempt.worth_going_on(size - number):
                rng = random.Random(number)
                attempt.add(
                    decide(cluster.profile, cluster.state, member, rng, templates=templates, placement=placement)
                )
    names = {cluster.state.nodes.name(row) for row in rows}
    assert len(attempt.placed) == placed
    assert {decision.node for decision in attempt.placed} <= names
    if message:
        assert attempt.explain() == message
    if templates is not None:
        assert templates.used > 0


def test_a_thought_that_breaks_off_is_undone():
    cluster = make_cluster(make_node("a", cpu="2"), low("x", "a"))
    before = snapshot(cluster.state)

    def think():
        with cluster.state.in_thought() as thought:
            thought.remove("default-x")
            thought.place(make_pod("p", cpu="1"), "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        think()
    assert snapshot(cluster.state) == before
