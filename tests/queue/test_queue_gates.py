import pytest
from queue_builders import Gate, attempt, fail, make_pod, make_queue, names
from tests.support.tables import cases

from bayplan.core.framework.changes import NODE_ADD, NODE_DELETE, UNSCHEDULABLE_TIMEOUT, UNSCHEDULED_POD_UPDATE
from bayplan.core.framework.events import POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.status import Code, Status
from bayplan.core.queue import Place

pytestmark = pytest.mark.feature("Requeueing: gates")

LABEL = ClusterEvent(POD, Action.UPDATE_POD_LABEL)


def _own_update(pod, _old, new):
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP


def _gated_queue(**hints):
    gate = Gate()
    hints = {"Gate": [EventHint(LABEL, _own_update)], "Fit": [EventHint(NODE_ADD)]} | hints
    return make_queue(hints, pre_enqueue=[gate]), gate


def test_gated_pod_is_not_popped_and_has_a_message():
    queue, _ = _gated_queue()
    queue.add(make_pod("a", labels={"gate": "Gate"}), 0)
    assert queue.pop(0) is None
    queued = queue.get("uid-a")
    assert (queued.place, queued.gating_plugin, queued.message) == (Place.GATED, "Gate", "held back by Gate")
    assert queued.initial_attempt_at is None


@cases("labels, expected", {"released": ({}, Place.ACTIVE), "still gated": ({"gate": "Gate", "x": "y"}, Place.GATED)})
def test_update_runs_the_gating_plugin_again(labels, expected):
    queue, _ = _gated_queue()
    queue.add(make_pod("a", labels={"gate": "Gate"}), 0)
    queue.update(None, make_pod("a", version="2", labels=labels), 5)
    queued = queue.get("uid-a")
    assert queued.place is expected
    assert queued.initial_attempt_at == (5 if expected is Place.ACTIVE else None)
    assert queued.message == ("" if expected is Place.ACTIVE else "held back by Gate")


@cases(
    "event, asks",
    {
        "registered": (NODE_ADD, True),
        "not registered by the gating plugin": (NODE_DELETE, False),
        "registered by another plugin": (UNSCHEDULED_POD_UPDATE, False),
    },
)
def test_only_events_of_the_gating_plugin_run_it_again(event, asks):
    queue, gate = _gated_queue(Gate=[EventHint(NODE_ADD)], Fit=[EventHint(UNSCHEDULED_POD_UPDATE)])
    queue.add(make_pod("a", labels={"gate": "Gate"}), 0)
    gate.asked.clear()
    queue.move_on_event(event, None, None, 5)
    assert gate.asked == (["a"] if asks else [])


def test_events_ask_only_about_gated_pods_with_their_topics():
    gate, names_of = Gate(), Topics(lambda pod: [pod.name], lambda _, new: [new])
    queue = make_queue({"Gate": [EventHint(NODE_ADD, topics=names_of)]}, pre_enqueue=[gate])
    for name in "abc":
        queue.add(make_pod(name, labels={"gate": "Gate"}), 0)
    gate.asked.clear()
    queue.move_on_event(NODE_ADD, None, "b", 5)
    assert gate.asked == ["b"]
    queue.delete(queue.get("uid-b").pod, 6)
    queue.move_on_event(NODE_ADD, None, "b", 7)
    assert gate.asked == ["b"]


def test_gates_run_in_order_starting_with_the_gating_plugin():
    one, two = Gate("One"), Gate("Two")
    queue = make_queue({"One": [EventHint(LABEL)], "Two": [EventHint(LABEL)]}, pre_enqueue=[one, two])
    queue.add(make_pod("a", labels={"gate": "Two"}), 0)
    assert (len(one.asked), len(two.asked)) == (1, 1)
    queue.update(None, make_pod("a", labels={"gate": "Two", "x": ""}, version="2"), 0)
    assert (len(one.asked), len(two.asked)) == (1, 2)
    queue.update(None, make_pod("a", labels={"gate": "One"}, version="3"), 0)
    assert queue.get("uid-a").gating_plugin == "One"
    queue.update(None, make_pod("a", version="4"), 0)
    assert names(queue, 0) == ["a"]


@cases(
    "prepare, move",
    {
        "to backoff": (["Fit"], lambda queue, _: queue.move_on_event(NODE_ADD, None, None, 0.5)),
        "to active": (["Fit"], lambda queue, _: queue.move_on_event(NODE_ADD, None, None, 50)),
        "activated": (["Fit"], lambda queue, pod: queue.activate([pod], 1)),
        "flushed": (["Fit"], lambda queue, _: queue.flush(400)),
    },
)
def test_pod_can_be_gated_whenever_it_leaves_unschedulable(prepare, move):
    queue, gate = _gated_queue()
    queued = attempt(queue, make_pod("a"), 0, prepare)
    gate.pre_enqueue = lambda _: "not now"
    move(queue, queued.pod)
    assert queued.place is Place.GATED
    assert queued.message == "not now"
    del gate.pre_enqueue
    queue.activate([queued.pod], 401)
    assert queued.place is Place.ACTIVE


def test_pod_can_be_gated_after_a_failed_attempt():
    queue, gate = _gated_queue()
    queue.add(make_pod("a"), 0)
    queued = queue.pop(0)
    gate.pre_enqueue = lambda _: "not now"
    assert fail(queue, queued, 1) is Place.GATED
    assert queue.next_wakeup(1) is None


def test_leaving_backoff_runs_no_gates():
    queue, gate = _gated_queue()
    attempt(queue, make_pod("a"), 0)
    gate.asked.clear()
    assert names(queue, 50) == ["a"]
    assert gate.asked == []


@cases(
    "answer, message",
    {
        "a status": (Status.unschedulable("later"), "later"),
        "unresolvable": (Status.unresolvable("never"), "never"),
        "an error": (Status.error("broken"), "broken"),
        "a reason": ("because", "because"),
        "invalid result": (42, "expected None, a reason (str) or a Status"),
        "raises": (ZeroDivisionError("oops"), "ZeroDivisionError: oops"),
    },
)
def test_pre_enqueue_result_gates_the_pod(answer, message, caplog):
    queue, gate = _gated_queue()

    def pre_enqueue(_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    gate.pre_enqueue = pre_enqueue
    queue.add(make_pod("a"), 0)
    queued = queue.get("uid-a")
    assert queued.place is Place.GATED
    assert message in queued.message
    if not isinstance(answer, Status | str):
        assert "ns/a" in caplog.text
        assert "Gate" in caplog.text


def test_pre_enqueue_may_return_a_success_status():
    queue, gate = _gated_queue()
    gate.pre_enqueue = lambda _: Status(Code.SUCCESS)
    queue.add(make_pod("a"), 0)
    assert names(queue, 0) == ["a"]


def test_event_for_every_pod_requeues_ungated_pods():
    queue, _ = _gated_queue()
    queue.add(make_pod("gated", labels={"gate": "Gate"}), 0)
    attempt(queue, make_pod("a"), 0, ["Fit"])
    queue.move_on_event(UNSCHEDULABLE_TIMEOUT, None, None, 50)
    assert names(queue, 50) == ["a"]
