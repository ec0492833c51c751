import pytest
from queue_builders import NODES, attempt, fail, make_pod, make_queue, names, pod_in, queues, skips
from tests.support.tables import cases

from bayplan.core.framework.changes import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_UPDATE,
)
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint
from bayplan.core.queue import Place

pytestmark = pytest.mark.feature("Requeueing: events, hints, updates, activation and nominations")

# Events


@cases("now, expected", {"backoff not over": (0.5, Place.BACKOFF), "backoff over": (2.0, Place.ACTIVE)})
def test_helpful_event_requeues_the_pod(now, expected):
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    assert queue.move_on_event(NODE_ADD, None, "node", now) == 1
    assert queued.place is expected


def test_event_of_a_pending_plugin_skips_the_backoff():
    queue = make_queue(NODES)
    queued = attempt(queue, make_pod("a"), 0, pending=["Fit"])
    queue.move_on_event(NODE_ADD, None, "node", 0.1)
    assert queued.place is Place.ACTIVE


@cases(
    "registered, happened, moves",
    {
        "same event": (NODE_ADD, NODE_ADD, True),
        "another action": (NODE_ADD, NODE_DELETE, False),
        "another kind": (NODE_ADD, ASSIGNED_POD_ADD, False),
        "one of several": (
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
            True,
        ),
        "specific update matches the general one": (
            ClusterEvent(POD, Action.UPDATE),
            ClusterEvent(POD, Action.UPDATE_POD_LABEL),
            True,
        ),
        "general update does not match a specific one": (
            ClusterEvent(POD, Action.UPDATE_POD_LABEL),
            UNSCHEDULED_POD_UPDATE,
            False,
        ),
        "all events": (ClusterEvent("*", Action.ALL), ASSIGNED_POD_DELETE, True),
        "new nodes include changed taints": (NODE_ADD, ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), True),
        "new nodes do not include changed labels": (
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL),
            ClusterEvent(NODE, Action.UPDATE_NODE_TAINT),
            False,
        ),
    },
)
def test_only_registered_events_requeue_a_pod(registered, happened, moves):
    queue = make_queue({"Fit": [EventHint(registered)]})
    attempt(queue, make_pod("a"), 0, ["Fit"])
    assert queue.move_on_event(happened, "old", "new", 100) == moves


def test_hints_are_called_only_for_rejecting_plugins_and_registered_events():
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


def test_only_restricts_the_pods_that_an_event_requeues():
    queue = make_queue(NODES)
    attempt(queue, make_pod("a", priority=1), 0, ["Fit"])
    attempt(queue, make_pod("b", priority=5), 0, ["Fit"])
    queue.move_on_event(NODE_ADD, None, None, 50, only=lambda pod: pod.priority <= 1)
    assert names(queue, 50) == ["a"]


@cases("answer", {"raises": ZeroDivisionError, "invalid result": None})
def test_failing_hint_requeues_the_pod_and_is_logged(answer, caplog):
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
    assert ("test_queue_events.py" if answer is not None else "ns/a") in caplog.text


# Updates of pending pods


@cases(
    "event, hint, changed, expected",
    {
        "labels, hint queues": (Action.UPDATE_POD_LABEL, queues, {"labels": {"x": "y"}}, Place.ACTIVE),
        "labels, hint skips": (Action.UPDATE_POD_LABEL, skips, {"labels": {"x": "y"}}, Place.UNSCHEDULABLE),
        "another change": (Action.UPDATE_POD_LABEL, queues, {"nominated": "n1"}, Place.UNSCHEDULABLE),
        "scaled down": (Action.UPDATE_POD_SCALE_DOWN, queues, {"cpu": "500m"}, Place.ACTIVE),
        "scaled up": (Action.UPDATE_POD_SCALE_DOWN, queues, {"cpu": "2"}, Place.UNSCHEDULABLE),
        "any update": (Action.UPDATE, queues, {"cpu": "2"}, Place.ACTIVE),
        "only status": (Action.UPDATE, queues, {"nominated": "n1"}, Place.UNSCHEDULABLE),
    },
)
def test_update_requeues_an_unschedulable_pod_if_a_hint_agrees(event, hint, changed, expected):
    queue = make_queue({"Fit": [EventHint(ClusterEvent(POD, event), hint)]})
    queued = attempt(queue, make_pod("a"), 0, ["Fit"])
    queue.update(None, make_pod("a", version="2", **changed), 50)
    assert queued.place is expected
    assert queued.pod.resource_version == "2"


def test_helpful_update_respects_the_backoff():
    queue, queued = pod_in("unschedulable")
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0.5)
    assert queued.place is Place.BACKOFF


@pytest.mark.parametrize("place", ["active", "backoff"])
def test_update_keeps_the_place_of_poppable_pods(place):
    queue, queued = pod_in(place)
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0.5)
    assert queued.place.value == place
    assert queued.pod.labels == {"x": "y"}


def test_repeated_version_is_ignored():
    queue, queued = pod_in("unschedulable")
    queue.update(None, make_pod("a", labels={"x": "y"}), 50)
    assert queued.place is Place.UNSCHEDULABLE


def test_update_during_the_attempt_is_evaluated_on_return():
    queue, queued = pod_in("in-flight")
    queue.update(None, make_pod("a", version="2", labels={"x": "y"}), 0)
    assert fail(queue, queued, 1, ["Fit"]) is Place.BACKOFF


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
    queue, queued = pod_in(place)
    assert queue.activate([queued.pod, make_pod("unknown")], 0.1) == activated
    assert queued.place is expected


def test_activating_a_pod_in_flight_requeues_only_that_pod():
    queue = make_queue(NODES)
    for name in "ab":
        queue.add(make_pod(name), 0)
    a, b = queue.pop(0), queue.pop(0)
    queue.activate([a.pod], 0)
    assert fail(queue, a, 1, ["Fit"]) is Place.BACKOFF
    assert fail(queue, b, 1, ["Fit"]) is Place.UNSCHEDULABLE


# Nominations


def test_nomination_follows_the_pod():
    queue = make_queue(NODES)
    queue.add(make_pod("a", nominated="n1"), 0)
    assert queue.nominations.node_of("uid-a") == "n1"
    queue.update(None, make_pod("a", nominated="n2", version="2"), 0)
    assert queue.nominations.node_of("uid-a") == "n2"
    queue.remove("uid-a")
    assert queue.nominations.node_of("uid-a") is None


def test_gated_pod_is_not_nominated():
    queue, _ = pod_in("gated", nominated="n1")
    assert queue.nominations.node_of("uid-a") is None


@cases(
    "ends",
    {
        "deleted": lambda queue, pod: queue.delete(pod, 50),
        "deleted before it was written": lambda queue, _: queue.delete(make_pod("p", priority=5), 50),
        "cleared": lambda queue, _: queue.update(None, make_pod("p", priority=5, version="2"), 50),
        "moved": lambda queue, _: queue.update(None, make_pod("p", priority=5, version="2", nominated="n2"), 50),
    },
)
def test_end_of_a_nomination_requeues_pods_of_equal_or_lower_priority(ends):
    queue = make_queue({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    preemptor = attempt(queue, make_pod("p", priority=5, nominated="n1"), 0)
    lower = attempt(queue, make_pod("lower", priority=5), 0, ["Fit"])
    higher = attempt(queue, make_pod("higher", priority=6), 0, ["Fit"])
    ends(queue, preemptor.pod)
    assert lower.place is Place.ACTIVE
    assert higher.place is Place.UNSCHEDULABLE


def test_pod_bound_elsewhere_requeues_no_others():
    queue = make_queue({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    preemptor = attempt(queue, make_pod("p", priority=5, nominated="n1"), 0)
    lower = attempt(queue, make_pod("lower"), 0, ["Fit"])
    queue.remove(preemptor.uid)
    assert lower.place is Place.UNSCHEDULABLE
