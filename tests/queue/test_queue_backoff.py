import pytest
from queue_builders import NODES, attempt, fail, make_pod, make_queue, names, pod_in
from tests.support.tables import cases

from bayplan.core.framework.changes import NODE_ADD
from bayplan.core.queue import Place, QueuedPod
from bayplan.core.queue.backoff import AttemptBackoff

pytestmark = pytest.mark.feature("Requeueing: backoff, flushing and popping from backoff")

# Backoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (64, 10), (5000, 10)]
)
def test_backoff_doubles_up_to_the_maximum(failures, seconds):
    assert AttemptBackoff().duration(failures) == seconds


@cases(
    "failed_at, failures, errors, expiration",
    {
        "a window's start counts as within it": (0.0, 1, 0, 2.0),
        "up to the end of the window": (0.3, 1, 0, 2.0),
        "late in the window": (0.999, 1, 0, 2.0),
        "in the next window": (1.0, 1, 0, 3.0),
        "third time": (0.5, 3, 0, 5.0),
        "errors are counted separately": (0.5, 3, 1, 2.0),
        "never failed": (0.5, 0, 0, float("-inf")),
    },
)
def test_backoff_expires_at_the_end_of_its_window(failed_at, failures, errors, expiration):
    queued = QueuedPod(make_pod("a"), failed_at, unschedulable_count=failures, consecutive_errors=errors)
    assert AttemptBackoff().expiration(queued) == expiration


def test_short_backoff_has_a_short_window():
    queued = QueuedPod(make_pod("a"), 0.0, unschedulable_count=1)
    assert AttemptBackoff(initial=0.01, maximum=0.1).expiration(queued) == pytest.approx(0.02)


def test_maximum_of_zero_disables_backoff():
    queue = make_queue(NODES, max_backoff=0)
    queued = attempt(queue, make_pod("a"), 0)
    assert queued.place is Place.ACTIVE


def test_rejection_resets_the_count_of_errors():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (1, 0)
    queue.pop(10)
    fail(queue, queued, 10)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (2, 0)
    queue.pop(20)
    fail(queue, queued, 20, ["Fit"])
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)


def test_each_rejection_lengthens_the_backoff():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    waits = []
    for now in (100, 200, 300, 400):
        queue.move_on_event(NODE_ADD, None, None, now)
        assert queue.pop(now) is queued
        fail(queue, queued, now, ["Fit"])
        queue.move_on_event(NODE_ADD, None, None, now)
        assert queued.place is Place.BACKOFF
        waits.append(queued.backoff_expiration - now)
        queue.pop(now)
        fail(queue, queued, now, ["Fit"])
    assert waits == [3, 9, 11, 11]


def test_pods_of_one_window_are_popped_in_queue_order():
    queue = make_queue(NODES)
    low = attempt(queue, make_pod("low", priority=1), 0.1, ["Fit"])
    high = attempt(queue, make_pod("high", priority=9), 0.6, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 0.7)
    assert low.place is high.place is Place.BACKOFF
    assert names(queue, 0.8) == ["high", "low"]


def test_rejected_pod_is_popped_early_if_no_pod_is_active():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a", priority=9), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 0)
    queue.add(make_pod("b"), 0)
    assert queue.pop(0).pod.name == "b"
    assert queue.next_wakeup(0) == 0
    assert queue.pop(0).pod.name == "a"


def test_failed_pod_is_never_popped_early():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a"), 0)
    assert queue.pop(1.9) is None
    assert queue.next_wakeup(1.9) == 2.0
    assert queue.pop(2.0).pod.name == "a"


def test_expired_backoff_competes_with_active_pods():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a", priority=9), 0)
    queue.add(make_pod("b"), 1)
    assert names(queue, 2) == ["a", "b"]


# Unschedulable timeout


def test_unschedulable_pod_is_requeued_after_five_minutes():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 7, ["Fit"])
    assert queue.next_wakeup(8) == 307
    assert queue.pop(306.9) is None
    assert queue.pop(307) is queued
    assert queued.was_flushed
    fail(queue, queued, 308, ["Fit"])
    assert not queued.was_flushed


def test_gated_pod_is_never_flushed():
    queue, queued = pod_in("gated")
    assert queue.next_wakeup(0) is None
    assert queue.pop(10_000) is None
    assert queued.place is Place.GATED


def test_flush_is_recorded_for_pods_in_flight():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a"), 0, ["Fit"])
    queue.add(make_pod("b"), 1)
    queued = queue.pop(1)
    queue.flush(300)
    assert fail(queue, queued, 300, ["Fit"]) is Place.BACKOFF


@pytest.mark.parametrize(
    ("place", "expected"),
    [("active", 0.5), ("backoff", 2.0), ("unschedulable", 300.0), ("gated", None), ("in-flight", None)],
)
def test_next_wakeup(place, expected):
    queue, _ = pod_in(place)
    assert queue.next_wakeup(0.5) == expected
