import pytest
from queue_builders import NODES, Gate, attempt, by_priority, counts, fail, make_pod, make_queue, names, pod_in, skips
from tests.support.tables import cases

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.framework.changes import ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE
from bayplan.core.framework.events import EventHint
from bayplan.core.queue import Place, QueueProfile, SchedulingQueue

# Order


@cases(
    "pods, expected",
    {
        "higher priority first": ([("a", 0, 1), ("b", 5, 2), ("c", 9, 3)], "cba"),
        "then time of arrival": ([("a", 0, 3), ("b", 0, 1), ("c", 0, 2)], "bca"),
        "then insertion order": ([("a", 0, 1), ("b", 0, 1), ("c", 0, 1)], "abc"),
        "extremes": ([("a", -5, 1), ("b", 0, 2), ("c", 2**31 - 1, 3)], "cba"),
    },
)
def test_pods_are_popped_in_sort_key_order(pods, expected):
    queue = make_queue()
    for name, priority, now in pods:
        queue.add(make_pod(name, priority=priority), now)
    assert "".join(names(queue, 10)) == expected


def test_update_keeps_the_position_of_a_pod():
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0)
    queue.update(make_pod("a"), make_pod("a", version="2", labels={"x": "y"}), 0)
    queued = queue.pop(0)
    assert (queued.pod.name, queued.pod.labels) == ("a", {"x": "y"})


def test_changed_sort_key_changes_the_position():
    queue = make_queue(sort_key=lambda pod, _: pod.labels.get("order", ""))
    queue.add(make_pod("a", labels={"order": "1"}), 0)
    queue.add(make_pod("b", labels={"order": "2"}), 0)
    queue.update(None, make_pod("a", labels={"order": "3"}, version="2"), 0)
    assert names(queue, 0) == ["b", "a"]


def test_pod_whose_queue_sort_fails_is_popped_last(caplog):
    def sort_key(pod, _):
        return int(pod.labels["order"])

    queue = make_queue(sort_key=sort_key)
    queue.add(make_pod("a"), 0)
    queue.add(make_pod("b", labels={"order": "7"}), 1)
    assert names(queue, 2) == ["b", "a"]
    assert "plugin QueueSort failed in QueueSort: KeyError: 'order'" in caplog.text


# Adding pods


@cases(
    "foreign",
    {
        "bound": make_pod("a", node="n1"),
        "terminated": make_pod("a", phase="Succeeded"),
        "of another scheduler": make_pod("a", scheduler="other-scheduler"),
    },
)
def test_pods_that_need_no_scheduling_are_ignored(foreign):
    queue = make_queue()
    queue.add(foreign, 0)
    queue.update(None, foreign, 0)
    assert len(queue) == 0


def test_pod_added_twice_is_queued_once():
    queue = make_queue()
    queue.add(make_pod("a"), 0)
    queue.add(make_pod("a", version="2"), 1)
    assert names(queue, 2) == ["a"]


def test_update_of_an_unknown_pod_adds_it():
    queue = make_queue()
    queue.update(make_pod("a"), make_pod("a", version="2"), 0)
    assert names(queue, 0) == ["a"]


def test_same_name_with_another_uid_is_another_pod():
    queue = make_queue()
    queue.add(make_pod("a"), 0)
    popped = queue.pop(0)
    queue.delete(popped.pod, 0)
    successor = make_pod("a")
    successor.uid = "uid-of-the-next"
    queue.add(successor, 1)
    assert fail(queue, popped, 1, ["Fit"]) is None
    assert queue.pop(2).uid == "uid-of-the-next"


def test_attempts_and_time_of_the_first_one_are_recorded():
    queue = make_queue()
    queued = attempt(queue, make_pod("a"), 5)
    assert (queued.attempts, queued.initial_attempt_at) == (1, 5)
    assert queue.pop(100) is queued
    assert (queued.attempts, queued.initial_attempt_at, queued.queued_at) == (2, 5, 5)


# Returning after an attempt


@cases(
    "plugins, pending, event, expected",
    {
        "error: backoff": ([], [], None, Place.BACKOFF),
        "rejected, no event": (["Fit"], [], None, Place.UNSCHEDULABLE),
        "rejected, helpful event during the attempt": (["Fit"], [], NODE_ADD, Place.BACKOFF),
        "rejected, other event during the attempt": (["Fit"], [], NODE_DELETE, Place.UNSCHEDULABLE),
        "hint skips": (["Deaf"], [], NODE_ADD, Place.UNSCHEDULABLE),
        "one of two hints queues": (["Deaf", "Fit"], [], NODE_ADD, Place.BACKOFF),
        "event of a pending plugin": ([], ["Fit"], NODE_ADD, Place.ACTIVE),
        "event of another plugin": (["Fit"], ["Deaf"], NODE_ADD, Place.BACKOFF),
        "pending plugin takes precedence": (["Deaf"], ["Fit"], NODE_ADD, Place.ACTIVE),
        "unknown rejector: any event requeues": (["Unknown"], [], NODE_ADD, Place.BACKOFF),
        "plugin without events: no event requeues": (["Mute"], [], NODE_ADD, Place.UNSCHEDULABLE),
    },
)
def test_place_after_a_failed_attempt(plugins, pending, event, expected):
    queue = make_queue({"Fit": [EventHint(NODE_ADD)], "Deaf": [EventHint(NODE_ADD, skips)], "Mute": []})
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    if event is not None:
        queue.move_on_event(event, None, "object", 0.5)
    assert fail(queue, queued, 1, plugins, pending) is expected
    assert queued.place is expected
    assert queue.get(queued.uid) is queued


@cases(
    "events, expected",
    {
        "event of the pending plugin last": ([NODE_ADD, ASSIGNED_POD_DELETE], Place.ACTIVE),
        "event of the pending plugin first": ([ASSIGNED_POD_DELETE, NODE_ADD], Place.ACTIVE),
        "no event of the pending plugin": ([NODE_ADD, NODE_DELETE], Place.BACKOFF),
    },
)
def test_all_events_of_an_attempt_are_evaluated_for_a_pending_plugin(events, expected):
    queue = make_queue({"Fit": [EventHint(NODE_ADD)], "Claims": [EventHint(ASSIGNED_POD_DELETE)]})
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    for event in events:
        queue.move_on_event(event, None, None, 0.5)
    assert fail(queue, queued, 1, ["Fit"], ["Claims"]) is expected


def test_events_before_the_attempt_and_after_recording_are_ignored():
    queue = make_queue(NODES)
    queue.add(make_pod("other"), 0)
    queue.pop(0)
    queue.move_on_event(NODE_ADD, None, None, 0)
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    assert fail(queue, queued, 1, ["Fit"]) is Place.UNSCHEDULABLE


def test_pod_rejected_after_recording_stopped_is_retried():
    queue = make_queue(NODES)
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    queue.stop_recording(queued.uid)
    assert fail(queue, queued, 1, ["Fit"]) is Place.BACKOFF


def test_pod_returned_after_done_is_not_lost():
    queue = make_queue(NODES)
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    queue.done(queued.uid)
    assert len(queue) == 0
    assert fail(queue, queued, 1) is Place.BACKOFF
    assert names(queue, 100) == ["a"]


def test_pod_returned_twice_is_queued_once():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    assert queue.add_unschedulable(queued, 1) is Place.UNSCHEDULABLE
    assert len(queue) == 1
    assert queued.unschedulable_count == 1


@cases(
    "goes",
    {
        "deleted": lambda queue, pod: queue.delete(pod, 0),
        "bound by another scheduler": lambda queue, pod: queue.remove(pod.uid),
        "seen on a node": lambda queue, pod: queue.update(pod, make_pod("a", version="2", node="n1"), 0),
        "seen terminated": lambda queue, pod: queue.update(pod, make_pod("a", version="2", phase="Failed"), 0),
    },
)
@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated", "in-flight"])
def test_deleted_pod_does_not_return(place, goes):
    queue, queued = pod_in(place)
    goes(queue, queued.pod)
    if place == "in-flight":
        assert fail(queue, queued, 1) is None
    assert len(queue) == 0
    assert names(queue, 1000) == []
    assert counts(queue) == [0, 0, 0, 0, 0]


# Versions


def test_pod_returns_in_its_latest_version():
    queue, queued = pod_in("in-flight")
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0)
    assert queued.pod.labels == {}  # the attempt continues with the version it began with
    fail(queue, queued, 1, ["Fit"])
    assert queued.pod.labels == {"x": "y"}


def test_version_stored_by_the_caller_is_kept():
    queue, queued = pod_in("in-flight")
    queue.update(None, make_pod("a", version="2"), 0)
    queued.pod = newer = make_pod("a", version="3")
    fail(queue, queued, 1, ["Fit"])
    assert queued.pod is newer


def test_pod_reported_as_deleted_but_existing_is_retried():
    queue, queued = pod_in("in-flight")
    queue.delete(queued.pod, 0)
    queue.add(make_pod("a", version="2"), 0)
    assert fail(queue, queued, 1, ["Fit"]) is Place.BACKOFF
    assert queued.pod.resource_version == "2"


# Queries


def test_counts_messages_and_causes():
    queue = make_queue(NODES, pre_enqueue=[Gate()])
    attempt(queue, make_pod("failed"), 0)
    attempt(queue, make_pod("rejected"), 0, ["Fit"])
    queue.add(make_pod("in-flight"), 0)
    queue.pop(0)
    queue.add(make_pod("active"), 0)
    queue.add(make_pod("gated", labels={"gate": "Gate"}), 0)
    assert counts(queue) == [1, 1, 1, 1, 1]
    assert {queued.pod.name: queued.message for queued in queue if queued.gated} == {"gated": "held back by Gate"}
    assert queue.incoming == {
        (Place.ACTIVE, "UnschedulablePodAdd"): 4,
        (Place.BACKOFF, "ScheduleAttemptFailure"): 1,
        (Place.UNSCHEDULABLE, "ScheduleAttemptFailure"): 1,
        (Place.GATED, "UnschedulablePodAdd"): 1,
    }


def test_removed_pods_leave_few_stale_heap_entries():
    queue = make_queue()
    pods = [make_pod(str(number)) for number in range(2000)]
    for pod in pods:
        queue.add(pod, 0)
    for pod in pods[:1990]:
        queue.remove(pod.uid)
    assert len(queue._active._heap) < 100
    assert len(names(queue, 0)) == 10


def test_each_profile_has_its_own_hints():
    profiles = {
        "one": QueueProfile(by_priority, hints={"Fit": [EventHint(NODE_ADD)]}),
        "two": QueueProfile(by_priority, hints={"Fit": [EventHint(NODE_DELETE)]}),
    }
    queue = SchedulingQueue(profiles, Nominations())
    for scheduler in profiles:
        attempt(queue, make_pod(scheduler, scheduler=scheduler), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 50)
    assert names(queue, 50) == ["one"]
