import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_builders import make_pod

from bayplan.core.framework.changes import NODE_ADD
from bayplan.core.queue import QueuedPod
from bayplan.core.queue.in_flight import InFlight

pytestmark = pytest.mark.feature("Requeueing: in-flight events")


def _start(in_flight, name):
    queued = QueuedPod(make_pod(name), 0)
    in_flight.start(queued)
    return queued.uid


def _seen(in_flight, uid):
    return [new for _, _, new in in_flight.events_since_start(uid)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("events"), st.integers(1, 100)),
        st.tuples(st.just("start"), st.integers(0, 5)),
        st.tuples(st.just("stop"), st.integers(0, 5)),
        st.tuples(st.just("end"), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(STEPS)
def test_attempt_sees_all_events_since_it_began(steps):
    in_flight, naive, recorded = InFlight(), {}, 0
    for step, number in steps:
        uid = f"uid-{number}"
        if step == "events":
            for _ in range(number):
                in_flight.record(NODE_ADD, None, recorded)
                for events in naive.values():
                    events.append(recorded)
                recorded += 1
        elif step == "start" and uid not in in_flight:
            _start(in_flight, str(number))
            naive[uid] = []
        elif step != "start":
            (in_flight.stop_recording if step == "stop" else in_flight.end)(uid)
            naive.pop(uid, None)
        for known, events in naive.items():
            assert _seen(in_flight, known) == events
        most = max(map(len, naive.values()), default=0)
        assert in_flight.event_labels().total() <= 2 * most + 64 if naive else in_flight.event_labels().total() == 0


def test_events_are_dropped_when_no_attempt_needs_them():
    in_flight = InFlight()
    in_flight.record(NODE_ADD, None, "before")
    assert in_flight.event_labels().total() == 0
    slow = _start(in_flight, "slow")
    in_flight.record(NODE_ADD, None, 1)
    quick = _start(in_flight, "quick")
    in_flight.record(NODE_ADD, None, 2)
    assert _seen(in_flight, slow) == [1, 2]
    assert _seen(in_flight, quick) == [2]
    in_flight.end(slow)
    assert _seen(in_flight, quick) == [2]
    in_flight.stop_recording(quick)
    assert in_flight.event_labels().total() == 0
    assert in_flight.events_since_start(quick) is None
    assert quick in in_flight


def test_slow_binding_keeps_no_events():
    in_flight = InFlight()
    slow = _start(in_flight, "slow")
    in_flight.stop_recording(slow)
    for number in range(1000):
        uid = _start(in_flight, str(number))
        in_flight.record(NODE_ADD, None, number)
        in_flight.end(uid)
    assert in_flight.event_labels().total() == 0
    assert len(in_flight) == 1


def test_unit_has_the_pods_of_the_running_attempt():
    in_flight = InFlight()
    _start(in_flight, "before")
    first, other, third = (QueuedPod(make_pod(name), 0) for name in ("first", "other", "third"))
    in_flight.start(first)
    in_flight.start(other, joins=True)
    in_flight.start(third, joins=True)
    assert list(in_flight.unit.values()) == [first, other, third]
    in_flight.decided(first.uid)
    in_flight.end(other.uid)
    assert list(in_flight.unit.values()) == [third]
    assert first.uid in in_flight, "its binding goes on"
