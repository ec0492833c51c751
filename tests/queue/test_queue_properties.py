"""Compares the queue with a naive model: no pod is lost or duplicated, and no event is missed."""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from queue_builders import Gate, fail, make_pod, make_queue

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.changes import NODE_ADD, pod_changes
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.core.queue import Place, QueuedPod

NAMES = [f"p{number}" for number in range(8)]
PLUGINS = ["Fit", "Ports", "Mute"]
TAINT = ClusterEvent(NODE, Action.UPDATE_NODE_TAINT, "NodeUpdateNodeTaint")
LABEL = ClusterEvent(POD, Action.UPDATE_POD_LABEL)


def _wanted(pod, _old, new):
    """The object of an event lists the pods that it makes schedulable."""
    return Hint.QUEUE if pod.name in new else Hint.SKIP


def _itself(pod, _old, new):
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP


def _rejecting(queued):
    return queued.unschedulable_plugins | queued.pending_plugins


HINTS = {
    "Fit": [EventHint(NODE_ADD, _wanted), EventHint(TAINT, _wanted)],
    "Ports": [EventHint(TAINT, _wanted), EventHint(LABEL, _itself)],
    "Mute": [],
    "Gate": [EventHint(LABEL, _itself)],
}


@dataclass
class Model:
    """The full history of a pod."""

    pod: PodInfo
    queued: QueuedPod | None = None
    """Set while the pod is in flight."""
    seen: list = field(default_factory=list)
    """Every event since the attempt began: event, old, new."""


class QueueMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.queue = make_queue(HINTS, pre_enqueue=[Gate()])
        self.now = 0.0
        self.version = 0
        self.models: dict[str, Model] = {}

    def _pod(self, name, priority, gated, label=""):
        self.version += 1
        labels = {"gate": "Gate"} if gated else {}
        return make_pod(name, priority=priority, version=str(self.version), labels=labels | {"label": label})

    def _in_flight(self):
        return [model for model in self.models.values() if model.queued is not None]

    def _happens(self, event, old, new):
        for model in self._in_flight():
            model.seen.append((event, old, new))

    @rule(name=st.sampled_from(NAMES), priority=st.integers(0, 3), gated=st.booleans())
    def add(self, name, priority, gated):
        if name not in self.models:
            pod = self._pod(name, priority, gated)
            self.models[name] = Model(pod)
            self.queue.add(pod, self.now)
            assert self.queue.get(pod.uid).place is (Place.GATED if gated else Place.ACTIVE)

    @rule(name=st.sampled_from(NAMES), gated=st.booleans(), label=st.sampled_from("xy"))
    def update(self, name, gated, label):
        model = self.models.get(name)
        if model is None:
            return
        old, new = model.pod, self._pod(name, model.pod.priority, gated, label)
        events = pod_changes(old, new)
        waiting = self.queue.get(old.uid)
        before, helped = waiting.place, any(self._helped(new, _rejecting(waiting), event, old, new) for event in events)
        if model.queued is not None:
            for event in events:
                self._happens(event, old, new)
        model.pod = new
        self.queue.update(old, new, self.now)
        if before in {Place.UNSCHEDULABLE, Place.GATED}:
            assert (self.queue.get(old.uid).place is before) == (not helped or (before is Place.GATED and gated)), (
                f"{before} {helped}"
            )
        else:
            assert self.queue.get(old.uid).place is before

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name):
        model = self.models.get(name)
        if model is not None and model.queued is None:
            del self.models[name]
            self.queue.delete(model.pod, self.now)

    @rule(choice=st.integers(0, 10))
    @precondition(lambda self: self._in_flight())
    def delete_in_flight(self, choice):
        flying = self._in_flight()
        model = flying[choice % len(flying)]
        self.queue.delete(model.pod, self.now)
        assert fail(self.queue, model.queued, self.now, ["Fit"]) is None
        del self.models[model.pod.name]

    @rule()
    def pop(self):
        active = [queued for queued in self.queue if queued.place is Place.ACTIVE]
        queued = self.queue.pop(self.now)
        if queued is None:
            assert not active
            return
        model = self.models[queued.pod.name]
        assert model.queued is None
        assert queued.pod is model.pod
        assert all(queued.pod.priority >= other.pod.priority for other in active)
        model.queued, model.seen = queued, []

    @rule(
        choice=st.integers(0, 10),
        plugins=st.sets(st.sampled_from(PLUGINS)),
        pending=st.sets(st.sampled_from(PLUGINS), max_size=1),
    )
    @precondition(lambda self: self._in_flight())
    def come_back(self, choice, plugins, pending):
        flying = self._in_flight()
        model = flying[choice % len(flying)]
        queued, model.queued = model.queued, None
        expected = self._expected(model, plugins - pending, pending)
        assert fail(self.queue, queued, self.now, plugins - pending, pending) is expected
        assert queued.pod is model.pod

    def _expected(self, model, plugins, pending):
        if not plugins | pending:
            place = Place.BACKOFF
        elif any(self._helped(model.pod, pending, *seen) for seen in model.seen if seen[0] != "flush"):
            place = Place.ACTIVE
        elif any(self._helped(model.pod, plugins, *seen) for seen in model.seen):
            place = Place.BACKOFF
        else:
            return Place.UNSCHEDULABLE
        return Place.GATED if "gate" in model.pod.labels else place

    @staticmethod
    def _helped(pod, plugins, event, old, new):
        """Whether any of the plugins has a hint for this event that queues the pod."""
        return event == "flush" or any(
            registered.event.matches(event) and registered.hint(pod, old, new) is Hint.QUEUE
            for plugin in plugins
            for registered in HINTS[plugin]
        )

    @rule(choice=st.integers(0, 10))
    @precondition(lambda self: self._in_flight())
    def bound(self, choice):
        flying = self._in_flight()
        model = flying[choice % len(flying)]
        del self.models[model.pod.name]
        self.queue.done(model.pod.uid)

    @rule(event=st.sampled_from([NODE_ADD, TAINT]), helps=st.sets(st.sampled_from(NAMES)))
    def happen(self, event, helps):
        waiting = [queued for queued in self.queue if queued.place is Place.UNSCHEDULABLE]
        helped = {queued.uid for queued in waiting if self._helped(queued.pod, _rejecting(queued), event, None, helps)}
        self.queue.move_on_event(event, None, helps, self.now)
        self._happens(event, None, helps)
        assert {queued.uid for queued in waiting if queued.place is not Place.UNSCHEDULABLE} == helped

    @rule(seconds=st.sampled_from([0.1, 0.7, 1, 3, 11, 301]))
    def time_passes(self, seconds):
        self.now += seconds
        overdue = [queued for queued in self.queue if self._overdue(queued)]
        self.queue.flush(self.now)
        assert all(queued.place is not Place.UNSCHEDULABLE for queued in overdue)
        if overdue:
            self._happens("flush", None, None)

    def _overdue(self, queued):
        return queued.place is Place.UNSCHEDULABLE and self.now >= queued.queued_at + 300

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def activate(self, names):
        pods = [self.models[name].pod for name in sorted(names) if name in self.models]
        waiting = [pod for pod in pods if self.models[pod.name].queued is None]
        self.queue.activate(waiting, self.now)
        for pod in waiting:
            place = self.queue.get(pod.uid).place
            assert place is Place.ACTIVE or (place is Place.GATED and "gate" in pod.labels)

    @invariant()
    def each_pod_is_in_exactly_one_place(self):
        queue = self.queue
        places = {
            Place.ACTIVE: list(queue._active),
            Place.BACKOFF: list(queue._backoff),
            Place.UNSCHEDULABLE: list(queue._unschedulable._rejected.values()),
            Place.GATED: list(queue._unschedulable._gated.values()),
            Place.IN_FLIGHT: list(queue._in_flight),
        }
        everywhere = [queued for pods in places.values() for queued in pods]
        assert sorted(queued.pod.name for queued in everywhere) == sorted(self.models)
        assert all(queued.place is place for place, pods in places.items() for queued in pods)
        assert {id(queued) for queued in queue} == {id(queued) for queued in everywhere}
        pending = queue.pending_pods()
        assert [pending.active, pending.backoff, pending.unschedulable, pending.gated, pending.in_flight] == [
            len(pods) for pods in places.values()
        ]
        assert all(
            (queued.pod.name in self.models) and queued.gated == (queued.place is Place.GATED) for queued in queue
        )

    @invariant()
    def next_wakeup_is_neither_late_nor_endless(self):
        wakeup = self.queue.next_wakeup(self.now)
        pending = self.queue.pending_pods()
        assert self.queue.any_active == (pending.active > 0)
        assert self.queue.any_refused == (pending.backoff + pending.unschedulable > 0)
        if pending.active or pending.backoff or pending.unschedulable:
            assert wakeup is not None
            assert wakeup >= self.now
        else:
            assert wakeup is None

    @invariant()
    def no_unneeded_event_is_kept(self):
        if not self._in_flight():
            assert not self.queue._in_flight.event_labels()

    def teardown(self):
        """Eventually, every ungated pod is popped without further events."""
        for model in self._in_flight():
            fail(self.queue, model.queued, self.now, ["Mute"])
        held = {queued.pod.name for queued in self.queue if queued.place is Place.GATED}
        popped = set()
        wakeups = 0
        while (wakeup := self.queue.next_wakeup(self.now)) is not None:
            self.now = wakeup
            wakeups += 1
            assert wakeups <= 4 * len(self.models) + 4, "waking up without an end"
            while (queued := self.queue.pop(self.now)) is not None:
                assert queued.pod.name not in popped
                popped.add(queued.pod.name)
        held |= {queued.pod.name for queued in self.queue if queued.place is Place.GATED}
        assert popped | held == set(self.models)


QueueMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(300)
class TestQueue(QueueMachine.TestCase):
    pass
