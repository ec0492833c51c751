"""Which nodes kube-scheduler may leave out in a large cluster, where it scores only some of the feasible ones."""

from datetime import UTC, datetime, timedelta

import pytest
from shadowed import BEGIN, Shadowed, nodes

from bayplan.answers.shadow.comparisons import ShadowCause, ShadowOutcome, ShadowSubject
from bayplan.testing import make_node

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def made(number, *, zone="", after=None):
    node = make_node(f"node-{number:03}", cpu="8", labels={"topology.kubernetes.io/zone": zone} if zone else {})
    node.metadata.creationTimestamp = CREATED + timedelta(seconds=number if after is None else after)
    return node


def decided(cluster, used, chosen):
    """The comparison of a binding to a node, where these nodes are worse than all others."""
    for number in used:
        cluster.create(f"old-{number}", cpu="1", node=f"node-{number:03}")
    cluster.create("new", cpu="1")
    cluster.wait(31)
    cluster.bind("new", f"node-{chosen:03}")
    cluster.wait()
    return cluster.found[-1]


# Of 200 nodes, kube-scheduler looks for 100 feasible ones in a row.
@pytest.mark.parametrize(
    ("used", "chosen", "outcome"),
    [
        (range(100), 50, ShadowOutcome.BEST),
        (range(100), 0, ShadowOutcome.BEST),
        (range(99), 50, ShadowOutcome.OTHER),
        ([*range(150, 200), *range(50)], 180, ShadowOutcome.BEST),
        ([*range(150, 200), *range(49)], 180, ShadowOutcome.OTHER),
        ([number for number in range(200) if number != 30], 31, ShadowOutcome.BEST),
        ([*range(60), *range(61, 120)], 30, ShadowOutcome.OTHER),
    ],
    ids=[
        "a row without a better node",
        "the first one of it",
        "a row that is too short",
        "around the end",
        "around the end, too short",
        "one better node before it",
        "a better node in the middle",
    ],
)
def test_nodes_in_a_row(used, chosen, outcome):
    found = decided(Shadowed(*(made(number) for number in range(200))), used, chosen)
    assert found.outcome is outcome
    assert (found.cause is ShadowCause.SAMPLING) == (outcome is ShadowOutcome.BEST or len(used) >= 100)


def test_nodes_are_looked_at_zone_by_zone_in_turn():
    zones = [made(number, zone=f"z{number // 100}") for number in range(200)]
    assert decided(Shadowed(*zones), range(100), 50).outcome is ShadowOutcome.OTHER
    assert decided(Shadowed(*zones), [*range(50), *range(100, 150)], 20).outcome is ShadowOutcome.BEST


def test_nodes_that_came_after_the_scheduler_are_looked_at_by_creation():
    shuffled = [made(number, after=number * 77 % 200) for number in range(200)]
    first = [number for number in range(200) if number * 77 % 200 < 100]
    assert decided(Shadowed(*shuffled), first, first[0]).outcome is ShadowOutcome.BEST
    others = [number for number in range(200) if number * 31 % 200 < 100]
    assert decided(Shadowed(*shuffled), others, others[0]).outcome is ShadowOutcome.OTHER


@pytest.mark.parametrize(
    ("chosen", "every", "equal"), [(5, 140, True), (150, 140, True), (280, 140, True), (150, 90, False)]
)
def test_a_preemption_looks_at_some_nodes(chosen, every, equal):
    """Victims that started last are preferred. Of 300 nodes, a preemption finds 100 candidates."""
    cluster = Shadowed(*nodes(300))
    for number in range(300):
        started = BEGIN + timedelta(seconds=100 if number % every == every - 1 else 0)
        cluster.create(f"low-{number}", cpu="4", node=f"node-{number}", started=started)
    cluster.create("new", cpu="4", priority=50)
    cluster.wait(31)
    cluster.nominate("new", f"node-{chosen}")
    cluster.evict(f"low-{chosen}")
    cluster.wait(3)
    assert cluster.found[-1].subject is ShadowSubject.NOMINATION
    assert cluster.found[-1].equal == equal
    assert equal or cluster.found[-1].cause is ShadowCause.SAMPLING
