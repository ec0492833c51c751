"""Where pods keep their order, a pod whose rejection lasts by now has no attempt."""

import pytest
from queue_builders import SCHEDULER, by_priority, fail, make_pod, queues

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.framework.changes import NODE_ADD
from bayplan.core.framework.events import EventHint, Hint
from bayplan.core.framework.pod_run import Alike
from bayplan.core.queue import QueueProfile, RetryTimes, SchedulingQueue

pytestmark = pytest.mark.feature("Requeueing: pods that are rejected for the same reasons")


class Room:
    """Whether there is room. The hints know that, and so do attempts."""

    def __init__(self):
        self.free = True

    def ask(self, *_):
        return Hint.QUEUE if self.free else Hint.SKIP


def reject(queue, queued, now):
    queued.clear_rejectors()
    queued.unschedulable_plugins, queued.alike = frozenset(["Fit"]), Alike("web")
    queue.add_unschedulable(queued, now)


@pytest.fixture
def room():
    return Room()


@pytest.fixture
def queue(room):
    """Pods a, b and c, which were rejected for the same reasons."""
    profile = QueueProfile(by_priority, (), {"Fit": [EventHint(NODE_ADD, queues)]})
    times = RetryTimes(keeps_order=True)
    queue = SchedulingQueue({SCHEDULER: profile}, Nominations(), times=times, ask_hint=room.ask)
    for name in "abc":
        queue.add(make_pod(name), 0)
        reject(queue, queue.pop(0), 0)
    return queue


def add_node(queue, now):
    queue.move_on_event(NODE_ADD, None, None, now)


def popped(queue, now):
    queued = queue.pop(now)
    return None if queued is None else queued.pod.name


def test_no_attempt_where_the_room_is_gone_by_its_turn(queue, room):
    add_node(queue, 100)
    room.free = False
    assert popped(queue, 100) is None
    assert queue.pending_pods().unschedulable == 3
    add_node(queue, 200)
    assert popped(queue, 200) is None
    room.free = True
    add_node(queue, 300)
    assert popped(queue, 300) == "a"


def test_an_event_before_its_turn_counts_too(queue, room):
    add_node(queue, 100)
    room.free = False
    add_node(queue, 101)
    room.free = True
    assert popped(queue, 101) == "a"


@pytest.mark.parametrize("free", [True, False])
def test_next_pod_is_attempted_only_if_there_is_room_for_it_too(queue, room, free):
    add_node(queue, 100)
    first = queue.pop(100)
    room.free = free
    queue.placed(first.pod)
    queue.done(first.uid)
    assert popped(queue, 100) == ("b" if free else None)


def test_a_pod_is_attempted_again_after_an_event_during_its_attempt(queue, room):
    """Whether hints would still say so isn't asked: what happened before the attempt isn't known any more."""
    add_node(queue, 100)
    first = queue.pop(100)
    add_node(queue, 100)
    reject(queue, first, 100)
    room.free = False
    assert popped(queue, 110) == "a"
    assert popped(queue, 110) is None


def test_an_activated_pod_is_attempted_in_any_case(queue, room):
    add_node(queue, 100)
    queue.activate([make_pod("a"), make_pod("c")], 100)  # `a` is active already
    room.free = False
    assert [popped(queue, 100) for _ in range(3)] == ["a", "c", None]


def test_a_pod_is_attempted_in_any_case_after_an_error(queue, room):
    add_node(queue, 100)
    fail(queue, queue.pop(100), 100)
    room.free = False
    assert popped(queue, 110) == "a"
