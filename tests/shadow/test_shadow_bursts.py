"""Decisions that a scheduler has made between changes which are seen together."""

from shadowed import Shadowed, nodes

from bayplan.answers.shadow.comparisons import ShadowCause


def test_a_decision_in_the_middle_of_a_burst_is_a_race():
    """Neither before nor after the burst is node-1 the better one; and no three changes alone make it that."""
    shadowed = Shadowed(*nodes(2))
    small = [f"small-{number}" for number in range(10)]
    for name in small:
        shadowed.place(name, "node-0", cpu="200m")
    shadowed.place("big", "node-1", cpu="2")
    shadowed.place("stays", "node-1", cpu="1")
    shadowed.wait(11)
    shadowed.create("judged", cpu="100m")
    shadowed.wait(1)
    shadowed.found.clear()
    for name in ("big", *small):
        shadowed.remove(name)
    shadowed.bind("judged", "node-1")
    found = shadowed.only()
    assert (found.equal, found.cause) == (True, ShadowCause.RACE)
