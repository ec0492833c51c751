"""Pods that are rejected for the same reasons: one is attempted for all."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_builders import NODES, Gate, make_pod, make_queue

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.changes import ASSIGNED_POD_DELETE, NODE_ADD
from bayplan.core.framework.events import Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.queue import Place

pytestmark = pytest.mark.feature("Requeueing: pods that are rejected for the same reasons")


def reject(queue, queued, now, *, key="web", plugins=("Fit",)):
    queued.clear_rejectors()
    queued.unschedulable_plugins, queued.alike = frozenset(plugins), key
    queue.add_unschedulable(queued, now)


def queue_of(*names, now=0.0, **options):
    """A queue of pods that were rejected one after the other, and are alike."""
    queue = make_queue(options.pop("hints", NODES), **options)
    for number, name in enumerate(names):
        queue.add(make_pod(name), now)
        reject(queue, queue.pop(now), now + number / 1000)
    return queue


def add_node(queue, now):
    queue.move_on_event(NODE_ADD, None, None, now)


def place(queue, queued):
    queue.placed(queued.pod)
    queue.done(queued.uid)


def places(queue):
    return {queued.pod.name: queued.place.value for queued in queue}


def test_event_requeues_the_pod_that_waits_longest():
    queue = queue_of("a", "b", "c")
    add_node(queue, 100)
    assert places(queue) == {"a": "active", "b": "unschedulable", "c": "unschedulable"}


def test_others_stay_unschedulable_when_the_pod_is_rejected_as_before():
    queue = queue_of("a", "b", "c")
    add_node(queue, 100)
    reject(queue, queue.pop(100), 100)
    assert set(places(queue).values()) == {"unschedulable"}
    assert queue.next_wakeup(100) == 400
    add_node(queue, 101)
    assert queue.pop(101).pod.name == "a"


def test_next_pod_is_requeued_when_one_is_placed():
    queue = queue_of("a", "b", "c")
    add_node(queue, 100)
    queued = queue.pop(100)
    assert queue.next_wakeup(100) is None
    queue.placed(queued.pod)
    assert queue.next_wakeup(100) == 100
    assert queue.pop(100).pod.name == "b"
    queue.done(queued.uid)
    assert queue.pop(100) is None


@pytest.mark.parametrize("change", [{"plugins": ["Fit", "Ports"]}, {"plugins": []}, {"key": None}, {"key": "db"}])
def test_next_pod_is_requeued_when_one_is_rejected_in_another_way(change):
    queue = queue_of("a", "b")
    add_node(queue, 100)
    reject(queue, queue.pop(100), 100, **change)
    assert queue.pop(100).pod.name == "b"


@pytest.mark.parametrize("popped", [False, True])
def test_next_pod_is_requeued_when_one_is_deleted(popped):
    queue = queue_of("a", "b")
    add_node(queue, 100)
    if popped:
        queued = queue.pop(100)
        queue.delete(make_pod("a"), 100)
        reject(queue, queued, 100)
    else:
        queue.delete(make_pod("a"), 100)
    assert queue.pop(100).pod.name == "b"
    assert queue.pop(100) is None


def test_next_pod_waits_for_an_event_when_an_unschedulable_one_is_deleted():
    queue = queue_of("a", "b", "c")
    queue.delete(make_pod("a"), 100)
    queue.delete(make_pod("b"), 100)
    assert queue.pop(100) is None
    add_node(queue, 100)
    assert queue.pop(100).pod.name == "c"


def test_next_pod_is_requeued_when_one_is_gated():
    gate = Gate()
    queue = queue_of("a", "b", pre_enqueue=[gate])
    gate.pre_enqueue = lambda pod: "held" if pod.name == "a" else None
    add_node(queue, 100)
    assert queue.pop(100).pod.name == "b"
    assert places(queue)["a"] == "gated"


def test_event_during_the_attempt_requeues_the_first_pod_after_its_backoff():
    queue = queue_of("a", "b")
    add_node(queue, 100)
    queued = queue.pop(100)
    add_node(queue, 100)
    reject(queue, queued, 100)
    assert places(queue) == {"a": "backoff", "b": "unschedulable"}


def test_pods_that_came_later_come_after_those_that_wait():
    queue = queue_of("a", "b", "c")
    for _ in range(3):
        add_node(queue, 100)
        reject(queue, queue.pop(100), 100)
    queue.add(make_pod("d"), 200)
    reject(queue, queue.pop(200), 200)
    add_node(queue, 300)
    for name in "abcd":
        queued = queue.pop(300)
        assert queued.pod.name == name
        place(queue, queued)


def test_an_attempt_counts_for_all_that_are_rejected_for_the_same_reasons():
    """As if the others had been attempted right after it: the next one has its backoff, and its failures."""
    queue = queue_of("a", "b")
    for now in (100, 200, 300):
        add_node(queue, now)
        reject(queue, queue.pop(now), now)
    queue.delete(make_pod("a"), 300)
    add_node(queue, 301)
    assert places(queue) == {"b": "backoff"}
    (queued,) = queue
    assert (queued.attempts, queued.unschedulable_count, queued.queued_at) == (1, 4, 300)


def test_pod_that_came_later_overtakes_while_the_backoff_of_others_lasts():
    queue = queue_of("a", "b")
    for now in (100, 200, 300):
        add_node(queue, now)
        reject(queue, queue.pop(now), now)
    queue.add(make_pod("c"), 301)
    reject(queue, queue.pop(301), 301)
    add_node(queue, 304)
    for name in "cab":
        queued = queue.pop(304)
        assert queued.pod.name == name
        place(queue, queued)


def test_changed_pod_is_requeued_for_itself():
    queue = queue_of("a", "b", "c")
    queue.update(make_pod("b"), make_pod("b", version="2", labels={"app": "db"}), 50)
    add_node(queue, 100)
    assert places(queue) == {"a": "active", "b": "active", "c": "unschedulable"}


def test_status_keeps_a_pod_in_its_group_unless_it_is_nominated():
    queue = queue_of("a", "b", "c")
    queue.update(make_pod("b"), make_pod("b", version="2", phase=""), 50)
    queue.update(make_pod("c"), make_pod("c", version="2", nominated="n1"), 50)
    add_node(queue, 100)
    assert places(queue) == {"a": "active", "b": "unschedulable", "c": "active"}


def test_activated_pod_is_requeued_for_itself():
    queue = queue_of("a", "b")
    queue.activate([make_pod("b")], 100)
    assert places(queue) == {"a": "unschedulable", "b": "active"}
    place(queue, queue.pop(100))
    assert queue.pop(100) is None


def test_first_pod_is_requeued_five_minutes_after_the_last_attempt_that_counted_for_all():
    queue = queue_of("a", "b", "c")
    queue.flush(299)
    assert set(places(queue).values()) == {"unschedulable"}
    queue.flush(400)
    assert places(queue) == {"a": "active", "b": "unschedulable", "c": "unschedulable"}
    reject(queue, queue.pop(400), 400)
    assert queue.next_wakeup(400) == 700


def test_all_are_placed_after_five_minutes_if_an_event_was_missed():
    queue = queue_of("a", "b", "c")
    for name in "abc":
        queued = queue.pop(400)
        assert (queued.pod.name, queued.was_flushed) == (name, True)
        place(queue, queued)


def test_pods_of_other_priorities_and_plugins_are_requeued_for_themselves():
    queue = queue_of("a", hints=NODES | {"Ports": [EventHint(NODE_ADD)]})
    queue.add(make_pod("b"), 0)
    reject(queue, queue.pop(0), 0, plugins=["Ports"])
    queue.add(make_pod("c"), 0)
    reject(queue, queue.pop(0), 0, key="other")
    add_node(queue, 100)
    assert set(places(queue).values()) == {"active"}


class Cluster:
    """A node of a certain size, and a queue. `grouped`: alike pods are rejected with equal keys."""

    def __init__(self, *, grouped):
        self.queue = make_queue({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
        self.grouped = grouped
        self.now = 0.0
        self.free = 3
        self.placed = []
        self.names = {}

    def add(self, name, size, priority):
        self.queue.add(make_pod(name, priority=priority, cpu=str(size)), self.now)

    def leave(self, size):
        self.free += size
        self.queue.move_on_event(ASSIGNED_POD_DELETE, make_pod("gone", node="n"), None, self.now)

    def delete(self, size, priority):
        """Delete the second of the pending pods of a size and a priority, by name."""
        alike = sorted((queued.pod for queued in self.queue if kind(queued) == (size, priority)), key=lambda p: p.name)
        for pod in alike[1:2]:
            self.queue.delete(pod, self.now)

    def settle(self, seconds):
        """Attempt pods until none is left, in no time, and let some seconds pass."""
        attempts = 0
        while (queued := self.queue.pop(self.now)) is not None:
            attempts += 1
            size, _ = kind(queued)
            if size <= self.free:
                self.free -= size
                self.placed.append(kind(queued))
                self.names.setdefault(kind(queued), []).append(int(queued.pod.name[1:]))
                place(self.queue, queued)
            else:
                reject(self.queue, queued, self.now, key=kind(queued) if self.grouped else None)
        self.now += seconds
        return attempts


def kind(queued):
    return queued.pod.requested["cpu"] // 1000, queued.pod.priority


def steps(sizes):
    """What happens, and how many seconds pass afterwards."""
    return st.tuples(
        st.one_of(
            st.tuples(st.just("add"), sizes, st.integers(0, 1)),
            st.tuples(st.just("leave"), sizes),
            st.tuples(st.just("delete"), sizes, st.integers(0, 1)),
        ),
        st.sampled_from([0.0, 0.4, 1.7, 3.1, 6.0, 20.0, 320.0]),
    )


def run_both(steps):
    """Return whether the same pods are placed, in the same order, with groups as when each pod is requeued."""
    grouped, single = Cluster(grouped=True), Cluster(grouped=False)
    for number, ((what, *how), seconds) in enumerate(steps):
        for cluster in (grouped, single):
            if what == "add":
                cluster.add(f"p{number}", *how)
            elif what == "leave":
                cluster.leave(*how)
            else:
                cluster.delete(*how)
        assert grouped.settle(seconds) <= single.settle(seconds)
        if grouped.names != single.names:
            return False
    assert all(queued.place is Place.UNSCHEDULABLE for queued in grouped.queue)
    return True


@settings(max_examples=200)
@given(st.lists(steps(st.just(2)), max_size=40))
def test_same_pods_are_placed_as_when_each_is_requeued(steps):
    assert run_both(steps)


def test_same_pods_of_several_kinds_are_placed_nearly_always():
    """Which of two kinds has its turn first may differ, if the backoffs of one of them lasted and of the other not."""
    rng = random.Random(7)
    streams = [[random_step(rng) for _ in range(rng.randint(1, 40))] for _ in range(300)]
    assert sum(map(run_both, streams)) >= 290


def random_step(rng):
    size, priority = rng.randint(1, 4), rng.randint(0, 1)
    what = rng.choices([("add", size, priority), ("leave", size), ("delete", size, priority)], [5, 4, 1])[0]
    return what, rng.choice([0.0, 0.4, 1.7, 3.1, 6.0, 20.0])


def reject_first(queue, now, message):
    """Let an event requeue the first pod, and reject it again."""
    add_node(queue, now)
    queued = queue.pop(now)
    queued.message = message
    reject(queue, queued, now)


def updated(queue):
    """The names of the pods that get another message, in order."""
    return [queued.pod.name for queued in iter(queue.groups.update_message, None)]


def test_others_get_the_message_of_the_last_attempt_one_by_one():
    queue = queue_of("a", "b", "c")
    assert updated(queue) == []
    reject_first(queue, 100, "one")
    assert updated(queue) == ["b", "c"]
    assert updated(queue) == []
    reject_first(queue, 200, "one")
    assert updated(queue) == []


def test_pod_with_the_oldest_message_is_updated_first():
    queue = queue_of("a", "b", "c", "d")
    reject_first(queue, 100, "one")
    assert queue.groups.update_message().pod.name == "b"
    reject_first(queue, 200, "two")
    assert updated(queue) == ["c", "d", "b"]


@given(st.lists(st.one_of(st.sampled_from(["x", "y"]), st.just("update"), st.integers(0, 4)), max_size=30))
def test_all_pods_have_the_message_of_the_last_attempt_in_the_end(steps):
    queue = queue_of(*"abcde", unschedulable_timeout=1e9)
    for number, step in enumerate(steps):
        now = 100.0 + 20 * number
        if step == "update":
            queue.groups.update_message()
        elif step in ("x", "y"):
            reject_first(queue, now, step)
            last = step
        elif len(queue) > 1:
            queue.delete(make_pod("abcde"[step]), now)
    updated(queue)
    if any(step in ("x", "y") for step in steps):
        assert {queued.message for queued in queue} == {last}


def owners(*names, **options):
    """A queue of pods that were rejected alike, each with a claim of its name."""
    own = Topics(claims, lambda old, new: [*claims(old), *claims(new)])
    return queue_of(*names, own=own, hints={"Fit": [EventHint(NODE_ADD), EventHint(CLAIM, after_claim)]}, **options)


def claims(about):
    if isinstance(about, PodInfo):
        return [about.labels.get("claim", about.name)]
    return [about] if isinstance(about, str) else []


CLAIM = ClusterEvent("PersistentVolumeClaim", Action.UPDATE)


def after_claim(pod, _old, new):
    return Hint.QUEUE if new == pod.name else Hint.SKIP


@pytest.mark.parametrize("claim", ["a", "b"])
def test_event_about_the_claim_of_one_pod_concerns_that_pod_only(claim):
    queue = owners("a", "b", "c")
    queue.move_on_event(CLAIM, None, claim, 100)
    assert queue.pop(100).pod.name == claim
    assert queue.pop(100) is None


def test_pod_whose_claim_changed_is_attempted_besides_its_former_peers():
    queue = owners("a", "b", "c")
    queue.move_on_event(ClusterEvent("PersistentVolume", Action.UPDATE), None, "b", 100)
    assert set(places(queue).values()) == {"unschedulable"}
    queue.move_on_event(NODE_ADD, None, None, 100)
    assert places(queue) == {"a": "active", "b": "active", "c": "unschedulable"}


def test_pod_is_attempted_besides_its_peers_after_another_one_with_its_claim_was_placed():
    queue = owners("a", "b", "c")
    user = make_pod("user", labels={"claim": "c"})
    queue.add(user, 100)
    place(queue, queue.pop(100))
    queue.move_on_event(NODE_ADD, None, None, 100)
    assert places(queue) == {"a": "active", "b": "unschedulable", "c": "active"}
