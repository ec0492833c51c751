"""Taking specific pods out of the queue."""

import pytest
from queue_builders import counts, fail, make_pod, make_queue, names, pod_in

from bayplan.core.queue import Place


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_take_removes_a_pod_from_any_place(place):
    queue, queued = pod_in(place)
    attempts = queued.attempts
    assert queue.take("uid-a", 0) is queued
    assert (queued.place, queued.attempts) == (Place.IN_FLIGHT, attempts + 1)
    assert counts(queue) == [0, 0, 0, 0, 1]
    assert names(queue, 1000) == []
    fail(queue, queued, 0, ["Fit"])
    assert queued.place is Place.UNSCHEDULABLE


def test_take_returns_none_for_a_gated_pod():
    queue, queued = pod_in("gated")
    assert queue.take("uid-a", 0) is None
    assert queued.place is Place.GATED


class LateGate:
    """Gates a pod after it has been queued."""

    name = "Gate"
    closed = False

    def pre_enqueue(self, pod):
        return "closed" if self.closed else None


def test_take_runs_the_gates_again():
    gate = LateGate()
    queue = make_queue({"Fit": []}, pre_enqueue=[gate])
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    fail(queue, queued, 0, ["Fit"])
    gate.closed = True
    assert queue.take("uid-a", 0) is None
    assert queued.place is Place.GATED


def test_take_returns_none_for_an_unknown_pod_or_one_in_flight():
    queue, _ = pod_in("active")
    assert queue.take("uid-x", 0) is None
    queue.pop(0)
    assert queue.take("uid-a", 0) is None


def test_take_keeps_the_order_of_other_pods():
    queue = make_queue()
    for name in "abc":
        queue.add(make_pod(name), 0)
    queue.take("uid-b", 0)
    assert names(queue, 0) == ["a", "c"]
