"""Pods that are taken out of their turn."""

import pytest
from queue_builders import counts, fail, make_pod, make_queue, names, pod_in

from bayplan.queue import Place


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_pod_is_taken_wherever_it_waits(place):
    queue, queued = pod_in(place)
    attempts = queued.attempts
    assert queue.take("uid-a", 0) is queued
    assert (queued.place, queued.attempts) == (Place.IN_FLIGHT, attempts + 1)
    assert counts(queue) == [0, 0, 0, 0, 1]
    assert names(queue, 1000) == []
    fail(queue, queued, 0, ["Fit"])
    assert queued.place is Place.UNSCHEDULABLE


def test_a_pod_that_is_held_back_is_not_taken():
    queue, queued = pod_in("gated")
    assert queue.take("uid-a", 0) is None
    assert queued.place is Place.GATED


class LateGate:
    """Closes after the pod has come in."""

    name = "Gate"
    closed = False

    def pre_enqueue(self, pod):
        return "closed" if self.closed else None


def test_a_pod_that_waits_is_asked_about_once_more():
    gate = LateGate()
    queue = make_queue({"Fit": []}, pre_enqueue=[gate])
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    fail(queue, queued, 0, ["Fit"])
    gate.closed = True
    assert queue.take("uid-a", 0) is None
    assert queued.place is Place.GATED


def test_a_pod_in_flight_or_unknown_is_not_taken():
    queue, _ = pod_in("active")
    assert queue.take("uid-x", 0) is None
    queue.pop(0)
    assert queue.take("uid-a", 0) is None


def test_the_others_keep_their_turns():
    queue = make_queue()
    for name in "abc":
        queue.add(make_pod(name), 0)
    queue.take("uid-b", 0)
    assert names(queue, 0) == ["a", "c"]
