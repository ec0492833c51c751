import pytest
from queue_builders import Gate, attempt, by_priority, fail, make_pod, make_queue, names, queues, skips

from bayplan.cluster.nominations import Nominations
from bayplan.framework.changes import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_UPDATE,
)
from bayplan.framework.events import NODE, POD, Action, ClusterEvent, EventHint
from bayplan.queue import Place, QueueProfile, SchedulingQueue
from bayplan.queue.backoff import Backoff
from bayplan.queue.queued_pod import QueuedPod

NODES = {"Fit": [EventHint(NODE_ADD)]}
"""Whatever Fit turned down, a new node helps."""


# Order


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([("a", 0, 1), ("b", 5, 2), ("c", 9, 3)], "cba", id="higher priority first"),
        pytest.param([("a", 0, 3), ("b", 0, 1), ("c", 0, 2)], "bca", id="then who came first"),
        pytest.param([("a", 0, 1), ("b", 0, 1), ("c", 0, 1)], "abc", id="then the order of arrival"),
        pytest.param([("a", -5, 1), ("b", 0, 2), ("c", 2**31 - 1, 3)], "cba", id="extremes"),
    ],
)
def test_pods_are_popped_in_the_order_of_the_sort_key(pods, expected):
    queue = make_queue()
    for name, priority, now in pods:
        queue.add(make_pod(name, priority=priority), now)
    assert "".join(names(queue, 10)) == expected


def test_an_update_does_not_cost_a_pod_its_turn():
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0)
    queue.update(make_pod("a"), make_pod("a", version="2", labels={"x": "y"}), 0)
    queued = queue.pop(0)
    assert (queued.pod.name, queued.pod.labels) == ("a", {"x": "y"})


def test_a_changed_key_changes_the_turn():
    queue = make_queue(sort_key=lambda pod, _: pod.labels.get("order", ""))
    queue.add(make_pod("a", labels={"order": "1"}), 0)
    queue.add(make_pod("b", labels={"order": "2"}), 0)
    queue.update(None, make_pod("a", labels={"order": "3"}, version="2"), 0)
    assert names(queue, 0) == ["b", "a"]


def test_a_pod_that_the_queue_sort_fails_for_comes_last(caplog):
    def sort_key(pod, _):
        return int(pod.labels["order"])

    queue = make_queue(sort_key=sort_key)
    queue.add(make_pod("a"), 0)
    queue.add(make_pod("b", labels={"order": "7"}), 1)
    assert names(queue, 2) == ["b", "a"]
    assert "QueueSort plugin failed for pod ns/a" in caplog.text


# What comes in


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(make_pod("a", node="n1"), id="bound"),
        pytest.param(make_pod("a", phase="Succeeded"), id="finished"),
        pytest.param(make_pod("a", scheduler="somebody-else"), id="of another scheduler"),
    ],
)
def test_pods_that_need_no_decision_do_not_come_in(foreign):
    queue = make_queue()
    queue.add(foreign, 0)
    queue.update(None, foreign, 0)
    assert len(queue) == 0


def test_a_pod_added_twice_is_there_once():
    queue = make_queue()
    queue.add(make_pod("a"), 0)
    queue.add(make_pod("a", version="2"), 1)
    assert names(queue, 2) == ["a"]


def test_a_pod_first_heard_of_by_an_update_is_added():
    queue = make_queue()
    queue.update(make_pod("a"), make_pod("a", version="2"), 0)
    assert names(queue, 0) == ["a"]


def test_a_pod_of_the_same_name_with_another_uid_is_another_pod():
    queue = make_queue()
    queue.add(make_pod("a"), 0)
    popped = queue.pop(0)
    queue.delete(popped.pod, 0)
    successor = make_pod("a")
    successor.uid = "uid-of-the-next"
    queue.add(successor, 1)
    assert fail(queue, popped, 1, ["Fit"]) is None
    assert queue.pop(2).uid == "uid-of-the-next"


def test_attempts_are_counted_and_the_first_one_is_timed():
    queue = make_queue()
    queued = attempt(queue, make_pod("a"), 5)
    assert (queued.attempts, queued.initial_attempt_at) == (1, 5)
    assert queue.pop(100) is queued
    assert (queued.attempts, queued.initial_attempt_at, queued.queued_at) == (2, 5, 5)


# Back from an attempt


@pytest.mark.parametrize(
    ("plugins", "pending", "event", "expected"),
    [
        pytest.param([], [], None, Place.BACKOFF, id="an error is tried again after a backoff"),
        pytest.param(["Fit"], [], None, Place.UNSCHEDULABLE, id="turned down, nothing happened"),
        pytest.param(["Fit"], [], NODE_ADD, Place.BACKOFF, id="turned down, a helpful event meanwhile"),
        pytest.param(["Fit"], [], NODE_DELETE, Place.UNSCHEDULABLE, id="turned down, a useless event meanwhile"),
        pytest.param(["Deaf"], [], NODE_ADD, Place.UNSCHEDULABLE, id="the hint says no"),
        pytest.param(["Deaf", "Fit"], [], NODE_ADD, Place.BACKOFF, id="one of two hints says yes"),
        pytest.param([], ["Fit"], NODE_ADD, Place.ACTIVE, id="what a pending plugin waits for has come"),
        pytest.param(["Fit"], ["Deaf"], NODE_ADD, Place.BACKOFF, id="not what the pending plugin waits for"),
        pytest.param(["Deaf"], ["Fit"], NODE_ADD, Place.ACTIVE, id="pending beats all others"),
        pytest.param(["Nobody"], [], NODE_ADD, Place.BACKOFF, id="an unknown name is helped by any event"),
        pytest.param(["Mute"], [], NODE_ADD, Place.UNSCHEDULABLE, id="a plugin without events is helped by none"),
    ],
)
def test_where_a_pod_goes_after_a_failed_attempt(plugins, pending, event, expected):
    queue = make_queue({"Fit": [EventHint(NODE_ADD)], "Deaf": [EventHint(NODE_ADD, skips)], "Mute": []})
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    if event is not None:
        queue.move_on_event(event, None, "object", 0.5)
    assert fail(queue, queued, 1, plugins, pending) is expected
    assert queued.place is expected
    assert queue.get(queued.uid) is queued


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([NODE_ADD, ASSIGNED_POD_DELETE], Place.ACTIVE, id="what is pending comes last"),
        pytest.param([ASSIGNED_POD_DELETE, NODE_ADD], Place.ACTIVE, id="what is pending comes first"),
        pytest.param([NODE_ADD, NODE_DELETE], Place.BACKOFF, id="what is pending does not come"),
    ],
)
def test_all_events_of_an_attempt_are_looked_at_for_a_pending_plugin(events, expected):
    queue = make_queue({"Fit": [EventHint(NODE_ADD)], "Claims": [EventHint(ASSIGNED_POD_DELETE)]})
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    for event in events:
        queue.move_on_event(event, None, None, 0.5)
    assert fail(queue, queued, 1, ["Fit"], ["Claims"]) is expected


def test_events_before_the_attempt_and_after_the_end_of_recording_do_not_count():
    queue = make_queue(NODES)
    queue.add(make_pod("other"), 0)
    queue.pop(0)
    queue.move_on_event(NODE_ADD, None, None, 0)
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    assert fail(queue, queued, 1, ["Fit"]) is Place.UNSCHEDULABLE


def test_a_pod_turned_down_after_recording_stopped_is_tried_again():
    queue = make_queue(NODES)
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    queue.stop_recording(queued.uid)
    assert fail(queue, queued, 1, ["Fit"]) is Place.BACKOFF


def test_a_pod_given_back_after_done_is_not_lost():
    queue = make_queue(NODES)
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    queue.done(queued.uid)
    assert len(queue) == 0
    assert fail(queue, queued, 1) is Place.BACKOFF
    assert names(queue, 100) == ["a"]


def test_a_pod_given_back_twice_is_there_once():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    assert queue.add_unschedulable(queued, 1) is Place.UNSCHEDULABLE
    assert len(queue) == 1
    assert queued.unschedulable_count == 1


@pytest.mark.parametrize(
    "goes",
    [
        pytest.param(lambda queue, pod: queue.delete(pod, 0), id="deleted"),
        pytest.param(lambda queue, pod: queue.remove(pod.uid), id="bound by somebody"),
        pytest.param(
            lambda queue, pod: queue.update(pod, make_pod("a", version="2", node="n1"), 0), id="seen on a node"
        ),
        pytest.param(
            lambda queue, pod: queue.update(pod, make_pod("a", version="2", phase="Failed"), 0), id="seen finished"
        ),
    ],
)
@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated", "in-flight"])
def test_a_pod_that_has_gone_does_not_come_back(place, goes):
    queue, queued = _pod_in(place)
    goes(queue, queued.pod)
    if place == "in-flight":
        assert fail(queue, queued, 1) is None
    assert len(queue) == 0
    assert names(queue, 1000) == []
    assert _counts(queue) == [0, 0, 0, 0, 0]


def _counts(queue):
    pending = queue.pending_pods()
    return [pending.active, pending.backoff, pending.unschedulable, pending.gated, pending.in_flight]


def _pod_in(place, **pod):
    """A queue with one pod `a` in a place."""
    gate = Gate()
    queue = make_queue(
        {"Fit": [EventHint(NODE_ADD), EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL))], "Gate": []},
        pre_enqueue=[gate],
    )
    if place == "gated":
        queue.add(make_pod("a", labels={"gate": "Gate"}, **pod), 0)
        return queue, queue.get("uid-a")
    queue.add(make_pod("a", **pod), 0)
    if place != "active":
        queued = queue.pop(0)
        if place == "backoff":
            fail(queue, queued, 0)
        elif place == "unschedulable":
            fail(queue, queued, 0, ["Fit"])
    queued = queue.get("uid-a")
    assert queued.place.value == place
    return queue, queued


# Which version comes back


def test_a_pod_comes_back_as_it_was_last_heard_of():
    queue, queued = _pod_in("in-flight")
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0)
    assert queued.pod.labels == {}  # the attempt goes on with what it began with
    fail(queue, queued, 1, ["Fit"])
    assert queued.pod.labels == {"x": "y"}


def test_a_version_that_the_caller_wrote_is_kept():
    queue, queued = _pod_in("in-flight")
    queue.update(None, make_pod("a", version="2"), 0)
    queued.pod = newer = make_pod("a", version="3")
    fail(queue, queued, 1, ["Fit"])
    assert queued.pod is newer


def test_a_pod_reported_gone_that_is_there_after_all_is_tried_again():
    queue, queued = _pod_in("in-flight")
    queue.delete(queued.pod, 0)
    queue.add(make_pod("a", version="2"), 0)
    assert fail(queue, queued, 1, ["Fit"]) is Place.BACKOFF
    assert queued.pod.resource_version == "2"


# Events


@pytest.mark.parametrize(
    ("now", "expected"),
    [pytest.param(0.5, Place.BACKOFF, id="backoff not over"), pytest.param(2.0, Place.ACTIVE, id="backoff over")],
)
def test_an_event_that_helps_moves_a_pod(now, expected):
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    assert queue.move_on_event(NODE_ADD, None, "node", now) == 1
    assert queued.place is expected


def test_an_event_that_a_pending_plugin_waits_for_skips_the_backoff():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, pending=["Fit"])
    queue.move_on_event(NODE_ADD, None, "node", 0.1)
    assert queued.place is Place.ACTIVE


@pytest.mark.parametrize(
    ("registered", "happened", "moves"),
    [
        pytest.param(NODE_ADD, NODE_ADD, True, id="the very event"),
        pytest.param(NODE_ADD, NODE_DELETE, False, id="another action"),
        pytest.param(NODE_ADD, ASSIGNED_POD_ADD, False, id="another kind"),
        pytest.param(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
            True,
            id="one of several",
        ),
        pytest.param(
            ClusterEvent(POD, Action.UPDATE),
            ClusterEvent(POD, Action.UPDATE_POD_LABEL),
            True,
            id="a particular update is an update",
        ),
        pytest.param(
            ClusterEvent(POD, Action.UPDATE_POD_LABEL),
            UNSCHEDULED_POD_UPDATE,
            False,
            id="a general update is no particular one",
        ),
        pytest.param(ClusterEvent("*", Action.ALL), ASSIGNED_POD_DELETE, True, id="all events"),
        pytest.param(
            NODE_ADD, ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), True, id="new nodes include changed taints"
        ),
        pytest.param(
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
            ClusterEvent(NODE, Action.UPDATE_NODE_TAINT),
            False,
            id="changed labels do not",
        ),
    ],
)
def test_only_registered_events_move_a_pod(registered, happened, moves):
    queue = make_queue({"Fit": [EventHint(registered)]})
    attempt(queue, make_pod("a"), 0, ["Fit"])
    assert queue.move_on_event(happened, "old", "new", 100) == moves


def test_hints_are_asked_only_where_the_plugin_turned_the_pod_down_and_registered_the_event():
    asked = []

    def recording(plugin):
        def hint(pod, old, new):
            asked.append((plugin, pod.name, old, new))
            return skips(pod, old, new)

        return hint

    queue = make_queue(
        {"Fit": [EventHint(NODE_ADD, recording("Fit"))], "Ports": [EventHint(ASSIGNED_POD_DELETE, recording("Ports"))]}
    )
    attempt(queue, make_pod("a"), 0, ["Fit"])
    attempt(queue, make_pod("b"), 0, ["Ports"])
    attempt(queue, make_pod("c"), 0, ["Ports", "Fit"])
    queue.move_on_event(NODE_ADD, None, "node", 1)
    assert sorted(asked) == [("Fit", "a", None, "node"), ("Fit", "c", None, "node")]


def test_a_condition_narrows_the_pods_that_an_event_may_move():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a", priority=1), 0, ["Fit"])
    attempt(queue, make_pod("b", priority=5), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 50, only=lambda pod: pod.priority <= 1)
    assert names(queue, 50) == ["a"]


@pytest.mark.parametrize(
    "answer", [pytest.param(ZeroDivisionError, id="raises"), pytest.param(None, id="answers nonsense")]
)
def test_a_hint_that_fails_counts_as_help_and_is_named(answer, caplog):
    def hint(*_):
        if answer is not None:
            raise answer
        return answer

    queue = make_queue({"Fit": [EventHint(NODE_ADD, hint)]})
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 50)
    assert queued.place is Place.ACTIVE
    assert "plugin Fit" in caplog.text
    assert "NodeAdd" in caplog.text
    assert "ns/a" in caplog.text


# Updates of waiting pods


@pytest.mark.parametrize(
    ("event", "hint", "changed", "expected"),
    [
        pytest.param(Action.UPDATE_POD_LABEL, queues, {"labels": {"x": "y"}}, Place.ACTIVE, id="labels, hint says yes"),
        pytest.param(Action.UPDATE_POD_LABEL, skips, {"labels": {"x": "y"}}, Place.UNSCHEDULABLE, id="hint says no"),
        pytest.param(Action.UPDATE_POD_LABEL, queues, {"nominated": "n1"}, Place.UNSCHEDULABLE, id="another change"),
        pytest.param(Action.UPDATE_POD_SCALE_DOWN, queues, {"cpu": "500m"}, Place.ACTIVE, id="scaled down"),
        pytest.param(Action.UPDATE_POD_SCALE_DOWN, queues, {"cpu": "2"}, Place.UNSCHEDULABLE, id="scaled up"),
        pytest.param(Action.UPDATE, queues, {"nominated": "n1"}, Place.ACTIVE, id="any update"),
    ],
)
def test_an_update_moves_an_unschedulable_pod_when_a_hint_says_so(event, hint, changed, expected):
    queue = make_queue({"Fit": [EventHint(ClusterEvent(POD, event), hint)]})
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    queue.update(None, make_pod("a", version="2", **changed), 50)
    assert queued.place is expected
    assert queued.pod.resource_version == "2"


def test_an_update_that_helps_waits_for_the_backoff():
    queue, queued = _pod_in("unschedulable")
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0.5)
    assert queued.place is Place.BACKOFF


@pytest.mark.parametrize("place", ["active", "backoff"])
def test_an_update_leaves_pods_that_will_be_popped_where_they_are(place):
    queue, queued = _pod_in(place)
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0.5)
    assert queued.place.value == place
    assert queued.pod.labels == {"x": "y"}


def test_the_same_version_again_changes_nothing():
    queue, queued = _pod_in("unschedulable")
    queue.update(None, make_pod("a", labels={"x": "y"}), 50)
    assert queued.place is Place.UNSCHEDULABLE


def test_an_update_during_the_attempt_counts_when_the_pod_comes_back():
    queue, queued = _pod_in("in-flight")
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0)
    assert fail(queue, queued, 1, ["Fit"]) is Place.BACKOFF


# Backoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (64, 10), (5000, 10)]
)
def test_backoff_doubles_up_to_its_maximum(failures, seconds):
    assert Backoff().duration(failures) == seconds


@pytest.mark.parametrize(
    ("failed_at", "failures", "errors", "expiration"),
    [
        pytest.param(0.0, 1, 0, 2.0, id="a window's start counts as within it"),
        pytest.param(0.3, 1, 0, 2.0, id="up to the end of the window"),
        pytest.param(0.999, 1, 0, 2.0, id="late in the window"),
        pytest.param(1.0, 1, 0, 3.0, id="in the next window"),
        pytest.param(0.5, 3, 0, 5.0, id="third time"),
        pytest.param(0.5, 3, 1, 2.0, id="errors count on their own"),
        pytest.param(0.5, 0, 0, float("-inf"), id="never failed"),
    ],
)
def test_backoff_ends_with_its_window(failed_at, failures, errors, expiration):
    queued = QueuedPod(make_pod("a"), failed_at, unschedulable_count=failures, consecutive_errors=errors)
    assert Backoff().expiration(queued) == expiration


def test_short_backoffs_have_short_windows():
    queued = QueuedPod(make_pod("a"), 0.0, unschedulable_count=1)
    assert Backoff(initial=0.01, maximum=0.1).expiration(queued) == pytest.approx(0.02)


def test_without_a_maximum_there_is_no_backoff():
    queue = make_queue(NODES, max_backoff=0)
    queued = attempt(queue, make_pod("a"), 0)
    assert queued.place is Place.ACTIVE


def test_an_error_backs_off_and_a_refusal_resets_its_count():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (1, 0)
    queue.pop(10)
    fail(queue, queued, 10)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (2, 0)
    queue.pop(20)
    fail(queue, queued, 20, ["Fit"])
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)


def test_each_refusal_makes_the_pod_wait_longer():
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


def test_pods_of_one_window_come_back_in_the_order_of_the_queue():
    queue = make_queue(NODES)
    low = attempt(queue, make_pod("low", priority=1), 0.1, ["Fit"])
    high = attempt(queue, make_pod("high", priority=9), 0.6, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 0.7)
    assert low.place is high.place is Place.BACKOFF
    assert names(queue, 0.8) == ["high", "low"]


def test_backoff_is_cut_short_when_nothing_else_is_active():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a", priority=9), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 0)
    queue.add(make_pod("b"), 0)
    assert queue.pop(0).pod.name == "b"
    assert queue.next_wakeup(0) == 0
    assert queue.pop(0).pod.name == "a"


def test_backoff_after_an_error_is_never_cut_short():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a"), 0)
    assert queue.pop(1.9) is None
    assert queue.next_wakeup(1.9) == 2.0
    assert queue.pop(2.0).pod.name == "a"


def test_a_completed_backoff_competes_with_active_pods():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a", priority=9), 0)
    queue.add(make_pod("b"), 1)
    assert names(queue, 2) == ["a", "b"]


# Waiting too long


def test_after_five_minutes_an_unschedulable_pod_is_tried_again():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 7, ["Fit"])
    assert queue.next_wakeup(8) == 307
    assert queue.pop(306.9) is None
    assert queue.pop(307) is queued
    assert queued.was_flushed
    fail(queue, queued, 308, ["Fit"])
    assert not queued.was_flushed


def test_a_gated_pod_waits_for_as_long_as_it_takes():
    queue, queued = _pod_in("gated")
    assert queue.next_wakeup(0) is None
    assert queue.pop(10_000) is None
    assert queued.place is Place.GATED


def test_a_flush_also_helps_the_pods_in_flight():
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
    queue, _ = _pod_in(place)
    assert queue.next_wakeup(0.5) == expected


# Activation


@pytest.mark.parametrize(
    ("place", "activated", "expected"),
    [
        ("active", 0, Place.ACTIVE),
        ("backoff", 1, Place.ACTIVE),
        ("unschedulable", 1, Place.ACTIVE),
        ("gated", 0, Place.GATED),
        ("in-flight", 0, Place.IN_FLIGHT),
    ],
)
def test_activate(place, activated, expected):
    queue, queued = _pod_in(place)
    assert queue.activate([queued.pod, make_pod("unknown")], 0.1) == activated
    assert queued.place is expected


def test_a_pod_activated_in_flight_is_tried_again_and_no_other():
    queue = make_queue(NODES)
    for name in "ab":
        queue.add(make_pod(name), 0)
    a, b = queue.pop(0), queue.pop(0)
    queue.activate([a.pod], 0)
    assert fail(queue, a, 1, ["Fit"]) is Place.BACKOFF
    assert fail(queue, b, 1, ["Fit"]) is Place.UNSCHEDULABLE


# Nominations


def test_a_nomination_follows_the_pod():
    queue = make_queue(NODES)
    queue.add(make_pod("a", nominated="n1"), 0)
    assert queue.nominations.node_of("uid-a") == "n1"
    queue.update(None, make_pod("a", nominated="n2", version="2"), 0)
    assert queue.nominations.node_of("uid-a") == "n2"
    queue.remove("uid-a")
    assert queue.nominations.node_of("uid-a") is None


def test_a_gated_pod_takes_no_place():
    queue, _ = _pod_in("gated", nominated="n1")
    assert queue.nominations.node_of("uid-a") is None


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda queue, pod: queue.delete(pod, 50), id="deleted"),
        pytest.param(lambda queue, _: queue.delete(make_pod("p", priority=5), 50), id="deleted before it was written"),
        pytest.param(lambda queue, _: queue.update(None, make_pod("p", priority=5, version="2"), 50), id="cleared"),
        pytest.param(
            lambda queue, _: queue.update(None, make_pod("p", priority=5, version="2", nominated="n2"), 50),
            id="moved",
        ),
    ],
)
def test_the_end_of_a_nomination_helps_pods_of_no_higher_priority(ends):
    queue = make_queue({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    preemptor = attempt(queue, make_pod("p", priority=5, nominated="n1"), 0)
    lower = attempt(queue, make_pod("lower", priority=5), 0, ["Fit"])
    higher = attempt(queue, make_pod("higher", priority=6), 0, ["Fit"])
    ends(queue, preemptor.pod)
    assert lower.place is Place.ACTIVE
    assert higher.place is Place.UNSCHEDULABLE


def test_a_pod_bound_by_somebody_ends_no_nomination_for_others():
    queue = make_queue({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    preemptor = attempt(queue, make_pod("p", priority=5, nominated="n1"), 0)
    lower = attempt(queue, make_pod("lower"), 0, ["Fit"])
    queue.remove(preemptor.uid)
    assert lower.place is Place.UNSCHEDULABLE


# Looking in


def test_counts_reasons_and_causes():
    queue = make_queue(NODES, pre_enqueue=[Gate()])
    attempt(queue, make_pod("failed"), 0)
    attempt(queue, make_pod("rejected"), 0, ["Fit"])
    queue.add(make_pod("in-flight"), 0)
    queue.pop(0)
    queue.add(make_pod("active"), 0)
    queue.add(make_pod("gated", labels={"gate": "Gate"}), 0)
    assert _counts(queue) == [1, 1, 1, 1, 1]
    assert {queued.pod.name: queued.message for queued in queue if queued.gated} == {"gated": "held back by Gate"}
    assert queue.incoming == {
        (Place.ACTIVE, "UnschedulablePodAdd"): 4,
        (Place.BACKOFF, "ScheduleAttemptFailure"): 1,
        (Place.UNSCHEDULABLE, "ScheduleAttemptFailure"): 1,
        (Place.GATED, "UnschedulablePodAdd"): 1,
    }


def test_removed_pods_leave_no_heap_of_dead_entries():
    queue = make_queue()
    pods = [make_pod(str(number)) for number in range(2000)]
    for pod in pods:
        queue.add(pod, 0)
    for pod in pods[:1990]:
        queue.remove(pod.uid)
    assert len(queue._active._heap) < 100
    assert len(names(queue, 0)) == 10


def test_each_profile_has_hints_of_its_own():
    profiles = {
        "one": QueueProfile(by_priority, hints={"Fit": [EventHint(NODE_ADD)]}),
        "two": QueueProfile(by_priority, hints={"Fit": [EventHint(NODE_DELETE)]}),
    }
    queue = SchedulingQueue(profiles, Nominations())
    for scheduler in profiles:
        attempt(queue, make_pod(scheduler, scheduler=scheduler), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 50)
    assert names(queue, 50) == ["one"]
