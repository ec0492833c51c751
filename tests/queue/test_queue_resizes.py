"""Pods on nodes whose resize is deferred, in the scheduling queue."""

import pytest
from queue_builders import SCHEDULER, Gate, attempt, by_priority, counts, make_pod, names, queues
from tests.support.tables import cases

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.changes import ASSIGNED_POD_DELETE, pod_changes
from bayplan.core.framework.events import POD, Action, ClusterEvent, EventHint
from bayplan.core.queue import Place, QueueProfile, SchedulingQueue

DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
HINTS = {
    "Fit": (
        EventHint(ClusterEvent(POD, Action.DELETE), queues),
        EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCALE_UP), queues),
    )
}


def queue_of(*, resizes=True, first=(), other=()):
    profile = QueueProfile(by_priority, first, HINTS, resizes=resizes, pre_enqueue_of_resizes=other)
    return SchedulingQueue({SCHEDULER: profile}, Nominations())


def resized(name="a", *, deferred=True, node="n", phase="Running", **pod):
    made = make_pod(name, node=node, phase=phase, **pod).object
    status = {**made.status.to_dict(), "conditions": DEFERRED if deferred else []}
    return PodInfo(type(made).from_dict({**made.to_dict(), "status": status}))


@cases(
    "pod, resizes, taken",
    {
        "deferred": (resized(), True, True),
        "deferred, where resizes don't preempt": (resized(), False, False),
        "not deferred": (resized(deferred=False), True, False),
        "has ended": (resized(phase="Failed"), True, False),
        "of another scheduler": (resized(scheduler="other"), True, False),
        "without a node": (make_pod("a"), False, True),
    },
)
def test_which_pods_are_taken(pod, resizes, taken):
    queue = queue_of(resizes=resizes)
    assert queue.takes(pod) is taken
    queue.add(pod, 0)
    assert names(queue, 0) == (["a"] if taken else [])


def test_pods_with_and_without_a_node_are_sorted_together():
    queue = queue_of()
    queue.add(make_pod("new", priority=5), 0)
    queue.add(resized("grows", priority=9), 1)
    queue.add(resized("other", priority=1), 1)
    assert names(queue, 2) == ["grows", "new", "other"]


def test_a_pod_on_a_node_is_not_nominated():
    queue = queue_of()
    queue.add(resized(nominated="n"), 0)
    queue.update(None, resized(nominated="m", version="2"), 1)
    assert not queue.nominations.nodes


@pytest.mark.parametrize("place", [Place.ACTIVE, Place.UNSCHEDULABLE, Place.IN_FLIGHT])
def test_a_pod_leaves_when_its_resize_is_no_longer_deferred(place):
    queue = queue_of()
    pod = resized()
    if place is Place.UNSCHEDULABLE:
        attempt(queue, pod, 0, ["Fit"])
    else:
        queue.add(pod, 0)
    queued = queue.pop(0) if place is Place.IN_FLIGHT else None
    queue.update(pod, resized(deferred=False, version="2"), 1)
    if queued is not None:
        queued.unschedulable_plugins = frozenset({"Fit"})
        assert queue.add_unschedulable(queued, 2) is None
    assert counts(queue) == [0, 0, 0, 0, 0]


@cases(
    "change",
    {
        "a larger request of its own": lambda queue, pod: queue.update(pod, resized(version="2", cpu="3"), 20),
        "another pod's larger request": lambda queue, _: move(queue, resized("o"), resized("o", cpu="3")),
        "a deletion": lambda queue, _: queue.move_on_event(ASSIGNED_POD_DELETE, resized("o"), None, 20),
    },
)
def test_what_requeues_a_deferred_pod(change):
    queue, pod = queue_of(), resized(cpu="2")
    attempt(queue, pod, 0, ["Fit"])
    change(queue, pod)
    assert names(queue, 20) == ["a"]


def move(queue, old, new):
    for event in pod_changes(old, new, scale_ups=True):
        queue.move_on_event(event, old, new, 20)


def test_larger_requests_are_no_event_where_resizes_do_not_preempt():
    queue = queue_of(resizes=False)
    pod = make_pod("a")
    attempt(queue, pod, 0, ["Fit"])
    queue.update(pod, make_pod("a", cpu="3", version="2"), 20)
    assert names(queue, 20) == []
    assert [event.action for event in pod_changes(pod, make_pod("a", cpu="3"))] == [Action.UPDATE]


def test_the_gates_of_resizes_are_their_own():
    placing, resizing = Gate("placing"), Gate("resizing")
    queue = queue_of(first=[placing], other=[resizing])
    for name in ("placing", "resizing"):
        queue.add(make_pod(f"new-{name}", labels={"gate": name}), 0)
        queue.add(resized(f"grows-{name}", labels={"gate": name}), 0)
    assert sorted(names(queue, 0)) == ["grows-placing", "new-resizing"]
    assert queue.pending_pods().gated == 2
