"""Groups in the queue: one turn and one backoff for all of their pods."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from queue_builders import Gate, by_priority, counts, fail, make_pod

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.framework.changes import NODE_ADD
from bayplan.core.framework.events import POD, Action, ClusterEvent, EventHint
from bayplan.core.queue import Place, QueueProfile, RetryTimes, SchedulingQueue

LABEL = ClusterEvent(POD, Action.UPDATE_POD_LABEL)


def group_of(pod):
    return pod.labels.get("group")


def group_queue(**options):
    hints = {"Fit": (EventHint(NODE_ADD),), "Gate": (EventHint(LABEL),)}
    profile = QueueProfile(by_priority, [Gate()], hints, group_of)
    return SchedulingQueue({"test-scheduler": profile}, Nominations(), times=RetryTimes(**options))


def member(name, group="red", *, gated=False, **options):
    return make_pod(name, labels={"group": group} | ({"gate": "Gate"} if gated else {}), **options)


def queue_of(*names, now=0.0, **options):
    queue = group_queue(**options)
    for name in names:
        queue.add(member(name), now)
    return queue


def turn(queue, now, take=()):
    """Pop a pod, and take other pods of its group. Returns those in flight, by name."""
    first = queue.pop(now)
    if first is None:
        return {}
    taken = [first, *(queue.take(f"uid-{name}", now) for name in take if name != first.pod.name)]
    return {queued.pod.name: queued for queued in taken}


def places(queue):
    return {queued.pod.name: queued.place.value for queued in queue}


def attempt(queue, now, take, plugins=("Fit",)):
    """The group has its turn, and none of these pods is placed."""
    unit = turn(queue, now, take)
    assert set(unit) == set(take)
    for queued in unit.values():
        fail(queue, queued, now, plugins)


def test_a_group_has_one_turn():
    queue = queue_of("a", "b", "c")
    unit = turn(queue, 0, ["a", "b"])
    assert set(unit) == {"a", "b"}
    assert places(queue) == {"a": "in-flight", "b": "in-flight", "c": "pending"}
    assert queue.pop(0) is None
    assert queue.next_wakeup(0) is None


def test_a_group_has_the_time_of_its_first_pod():
    queue = queue_of("a")
    queue.add(make_pod("single"), 1)
    queue.add(member("b"), 2)
    assert turn(queue, 2, ["b"]).keys() == {"a", "b"}
    assert turn(queue, 2).keys() == {"single"}


def test_the_priority_of_a_group_counts():
    queue = queue_of("a")
    queue.add(member("high", "blue", priority=10), 1)
    queue.add(make_pod("higher", priority=20), 2)
    assert [queue.pop(2).pod.name for _ in range(3)] == ["higher", "high", "a"]


DURATIONS = {
    "one pod": (1, 1, 1),
    "one pod, the limit": (1, 6, 10),
    "several pods begin as one pod": (4, 1, 1),
    "the second time": (4, 2, 2),
    "beyond the limit of one pod": (4, 5, 16),
    "the limit of four pods": (4, 6, 20),
    "the limit of nine pods": (9, 7, 30),
}


@pytest.mark.parametrize(("size", "attempts", "seconds"), DURATIONS.values(), ids=DURATIONS)
def test_one_backoff_for_all_pods(size, attempts, seconds):
    """The limit grows with the square root of the number of pods."""
    names = [f"p{number}" for number in range(size)]
    queue = queue_of(*names)
    now = 0
    for number in range(attempts):
        attempt(queue, now, names)
        before, now = now, queue.next_wakeup(now)
        assert now is not None
        assert number + 1 < attempts or now - before == seconds + 1  # the end of the window of a second


def test_a_rejected_group_waits_for_its_backoff_and_no_event():
    """Unlike for pods, nothing is popped from backoff early, and events don't count: mirrors 1.37."""
    queue = queue_of("a", "b")
    attempt(queue, 0, ["a", "b"])
    assert counts(queue) == [0, 2, 0, 0, 0]
    assert queue.move_on_event(NODE_ADD, None, "node", 0.5) == 0
    assert queue.pop(0.5) is None
    assert turn(queue, 2, ["a", "b"]).keys() == {"a", "b"}


def test_one_error_is_an_error_of_the_group():
    queue = queue_of("a", "b")
    unit = turn(queue, 0, ["a", "b"])
    fail(queue, unit["a"], 0, ["Fit"])
    assert counts(queue) == [0, 0, 0, 0, 1]
    assert places(queue)["a"] == "pending"
    fail(queue, unit["b"], 0)
    group = unit["a"].group
    assert (group.consecutive_errors, group.unschedulable_count) == (1, 0)
    attempt(queue, 2, ["a", "b"])
    assert (group.consecutive_errors, group.unschedulable_count) == (0, 1)


def test_a_pod_that_comes_during_the_attempt_waits_for_its_end():
    queue = queue_of("a", "b")
    unit = turn(queue, 0, ["a", "b"])
    queue.add(member("c"), 0)
    assert places(queue)["c"] == "pending"
    assert queue.pending_pods().pending == 1
    assert queue.activate([member("c")], 0) == 0
    for queued in unit.values():
        fail(queue, queued, 0, ["Fit"])
    assert places(queue) == dict.fromkeys("abc", "backoff")


PLACES = {
    "active": (lambda _: None, "active"),
    "backoff": (lambda queue: attempt(queue, 0, ["a", "b"]), "backoff"),
    "gated": (lambda queue: queue.add(member("gated", gated=True), 0), "gated"),
    "pending": (lambda queue: turn(queue, 0), "pending"),
}


@pytest.mark.parametrize(("before", "place"), PLACES.values(), ids=PLACES)
def test_a_new_pod_joins_its_group_where_it_is(before, place):
    queue = queue_of("a", "b")
    before(queue)
    queue.add(member("c"), 0)
    assert places(queue)["c"] == place


def test_a_new_pod_that_is_gated_holds_its_group_back():
    queue = queue_of("a", "b")
    queue.add(member("c", gated=True), 0)
    assert counts(queue) == [0, 0, 0, 3, 0]
    queue.update(None, member("c", version="2"), 1)
    assert counts(queue) == [3, 0, 0, 0, 0]


def test_a_group_stays_gated_as_long_as_one_pod_is():
    queue = group_queue()
    queue.add(member("a", gated=True), 0)
    queue.add(member("b", gated=True), 0)
    queue.add(member("c"), 0)
    queue.update(None, member("a", version="2"), 1)
    assert counts(queue) == [0, 0, 0, 3, 0]
    queue.delete(member("b"), 2)
    assert counts(queue) == [2, 0, 0, 0, 0]


def test_after_a_success_the_rest_has_the_next_turn_with_the_old_time():
    """#139613"""
    queue = queue_of("a", "b", "c")
    queue.add(make_pod("later"), 1)
    attempt(queue, 2, ["a", "b", "c"])
    assert turn(queue, 2).keys() == {"later"}
    unit = turn(queue, 10, ["a", "b", "c"])
    queue.add(make_pod("even-later"), 11)
    queue.placed(unit["a"].pod)
    queue.placed(unit["b"].pod)
    fail(queue, unit["c"], 12, ["Fit"])
    group = unit["c"].group
    assert (group.queued_at, group.unschedulable_count) == (2, 0)
    assert turn(queue, 12).keys() == {"c"}
    assert turn(queue, 12).keys() == {"even-later"}


def test_after_a_success_pods_that_came_meanwhile_have_a_turn_with_the_new_time():
    queue = queue_of("a")
    unit = turn(queue, 5)
    queue.add(member("b"), 5)
    queue.placed(unit["a"].pod)
    group = queue.get("uid-b").group
    assert (group.place, group.queued_at) == (Place.ACTIVE, 5)


def test_the_leftover_of_a_placed_group_is_attempted_at_once():
    queue = queue_of("a", "b")
    unit = turn(queue, 3, ["a", "b"])
    queue.placed(unit["a"].pod)
    queue.release(unit["b"], 3)
    assert queue.get("uid-b").group.queued_at == 0
    assert turn(queue, 3).keys() == {"b"}


def test_a_group_whose_pods_are_placed_is_gone():
    queue = queue_of("a")
    unit = turn(queue, 0)
    queue.placed(unit["a"].pod)
    queue.done("uid-a")
    assert len(queue) == 0
    queue.add(member("b"), 7)
    assert queue.get("uid-b").group.queued_at == 7


@pytest.mark.parametrize("others", [(), ("b",)], ids=["alone", "with a pod that waits"])
def test_a_pod_whose_binding_fails_returns_to_its_group(others):
    queue = queue_of("a")
    unit = turn(queue, 0)
    queue.placed(unit["a"].pod)
    for name in others:
        queue.add(member(name), 0)
    fail(queue, unit["a"], 1)
    assert places(queue) == {"a": "active", "b": "active"} if others else {"a": "backoff"}


@pytest.mark.parametrize("plugins", [["Fit"], []], ids=["rejected", "failed"])
def test_a_pod_that_does_not_stay_on_its_node_lets_the_group_wait(plugins):
    """Otherwise, a plugin that fails in Reserve would be asked again at once, without an end."""
    queue = queue_of("a", "b")
    unit = turn(queue, 0, ["a", "b"])
    queue.placed(unit["a"].pod)
    unit["a"].undone = bool(plugins)
    fail(queue, unit["a"], 0, plugins)
    fail(queue, unit["b"], 0, ["Fit"])
    assert places(queue) == {"a": "backoff", "b": "backoff"}


def test_an_attempt_that_gives_way_changes_nothing():
    queue = queue_of("a", "b")
    unit = turn(queue, 1, ["a", "b"])
    for queued in unit.values():
        queue.release(queued, 1)
    group = unit["a"].group
    assert (group.queued_at, group.unschedulable_count, group.place) == (0, 0, Place.ACTIVE)
    again = queue.take("uid-b", 2, joins=False)
    assert (again.pod.name, again.attempts) == ("b", 1)
    assert places(queue) == {"a": "pending", "b": "in-flight"}


def test_pods_that_are_skipped_leave_the_rest_its_turn():
    """#140478"""
    queue = queue_of("a", "b")
    first = queue.pop(0)
    queue.done(first.uid)
    assert len(turn(queue, 0)) == 1


@pytest.mark.parametrize("place", ["active", "backoff", "gated", "pending", "in-flight"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_deleted_pod_leaves_its_group(place, name):
    queue = queue_of("a", "b")
    if place == "gated":
        queue.add(member("c", gated=True), 0)
    if place == "backoff":
        attempt(queue, 0, ["a", "b"])
    unit = turn(queue, 0, [name]) if place in {"pending", "in-flight"} else {}
    queue.delete(member(name), 0)
    for queued in unit.values():
        fail(queue, queued, 0, ["Fit"])
    assert name not in places(queue)
    other = "b" if name == "a" else "a"
    assert places(queue)[other] in {place, "active", "backoff"}


def test_a_deleted_pod_that_is_returned_unattempted_leaves_the_others_their_turn():
    queue = queue_of("a")
    first = queue.pop(0)
    queue.delete(member("a"), 0)
    queue.add(member("b"), 0)
    queue.release(first, 0)
    assert places(queue) == {"b": "active"}


def test_activating_a_pod_activates_its_group():
    queue = queue_of("a", "b")
    attempt(queue, 0, ["a", "b"])
    assert queue.activate([member("a"), member("b")], 0) == 1
    assert counts(queue) == [2, 0, 0, 0, 0]


def test_entries_are_counted_and_pods_too():
    queue = queue_of("a", "b")
    queue.add(make_pod("single"), 0)
    queue.add(member("c", "blue", gated=True), 0)
    assert queue.entries() == {(Place.ACTIVE, "podgroup"): 1, (Place.ACTIVE, "pod"): 1, (Place.GATED, "podgroup"): 1}
    assert queue.incoming == {(Place.ACTIVE, "UnschedulablePodAdd"): 3, (Place.GATED, "UnschedulablePodAdd"): 1}
    assert queue.incoming_entries() == {
        (Place.ACTIVE, "UnschedulablePodAdd", "podgroup"): 1,
        (Place.ACTIVE, "UnschedulablePodAdd", "pod"): 1,
        (Place.GATED, "UnschedulablePodAdd", "podgroup"): 1,
    }


NAMES = [f"p{number}" for number in range(6)]


class GroupMachine(RuleBasedStateMachine):
    """No pod is lost, whatever happens to groups, and those that wait always have a turn again."""

    def __init__(self):
        super().__init__()
        self.queue = group_queue()
        self.now = 0.0
        self.version = 1
        self.pods = {}
        self.unit = {}
        self.binding = {}

    def _make(self, name, gated, moved):
        self.version += 1
        group = (int(name[1:]) + moved) % 3
        if group == 2:
            return make_pod(name, labels={"gate": "Gate"} if gated else {}, version=str(self.version))
        return member(name, f"g{group}", gated=gated, version=str(self.version))

    @rule(name=st.sampled_from(NAMES), gated=st.booleans(), moved=st.sampled_from([0, 0, 1, 2]))
    def put(self, name, gated, moved):
        old, new = self.pods.get(name), self._make(name, gated, moved)
        self.pods[name] = new
        if old is None and name not in {**self.unit, **self.binding}:
            self.queue.add(new, self.now)
        elif old is not None:
            self.queue.update(old, new, self.now)
        else:
            del self.pods[name]

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name):
        if name in self.pods:
            self.queue.delete(self.pods.pop(name), self.now)

    @rule(seconds=st.sampled_from([0.1, 1, 40]), share=st.floats(0, 1))
    def attempt(self, seconds, share):
        self.now += seconds
        if self.unit:
            return
        first = self.queue.pop(self.now)
        if first is None:
            return
        self.unit[first.pod.name] = first
        others = [
            name
            for name, pod in self.pods.items()
            if first.group is not None and name != first.pod.name and group_of(pod) == first.group.key
        ]
        for name in others[: round(share * len(others))]:
            queued = self.queue.take(f"uid-{name}", self.now)
            if queued is not None:
                self.unit[name] = queued

    @rule(outcomes=st.lists(st.sampled_from(["placed", "rejected", "failed", "released", "done"]), min_size=6))
    def decide(self, outcomes):
        unit, self.unit = self.unit, {}
        for (name, queued), outcome in zip(unit.items(), outcomes, strict=False):
            if outcome == "placed":
                self.queue.placed(queued.pod)
                self.binding[name] = queued
            elif outcome == "released":
                self.queue.release(queued, self.now)
            elif outcome == "done":
                self.queue.done(queued.uid)
                self.pods.pop(name, None)
            else:
                fail(self.queue, queued, self.now, ["Fit"] if outcome == "rejected" else [])

    @rule(name=st.sampled_from(NAMES), undone=st.booleans(), bound=st.booleans())
    def bind(self, name, undone, bound):
        queued = self.binding.pop(name, None)
        if queued is None:
            return
        if bound:
            self.queue.done(queued.uid)
            self.pods.pop(name, None)
        else:
            queued.undone = undone
            fail(self.queue, queued, self.now, ["Fit"] if undone else [])

    @rule()
    def node(self):
        self.queue.move_on_event(NODE_ADD, None, "node", self.now)

    @invariant()
    def every_pod_is_known(self):
        known = {queued.pod.name for queued in self.queue.waiting()}
        assert set(self.pods) <= known | set(self.unit) | set(self.binding)
        assert known <= set(self.pods)

    @invariant()
    def the_pods_of_a_group_are_in_one_place(self):
        for queued in self.queue.waiting():
            group = queued.group
            assert group_of(queued.pod) == (group and group.key)
            if group is None:
                continue
            assert group.members[queued.uid] is queued
            assert queued.place is (Place.PENDING if group.place is Place.IN_FLIGHT else group.place)
            assert (group.place is Place.GATED) == any(each.gated for each in group.members.values()) or (
                group.place is Place.IN_FLIGHT
            )

    @invariant()
    def pods_that_wait_for_an_attempt_do_so_only_during_one(self):
        if not self.unit:
            assert self.queue.pending_pods().pending == 0

    @invariant()
    def counts_are_those_of_the_pods(self):
        pending = self.queue.pending_pods()
        by_place = dict.fromkeys(Place, 0)
        for queued in self.queue.waiting():
            by_place[queued.place] += 1
        assert by_place[Place.ACTIVE] == pending.active
        assert by_place[Place.BACKOFF] == pending.backoff
        assert by_place[Place.GATED] == pending.gated
        assert by_place[Place.PENDING] == pending.pending
        assert self.queue.any_active == (pending.active > 0)
        assert self.queue.any_refused == (pending.backoff + pending.unschedulable > 0)

    def teardown(self):
        """All pods that aren't gated have a turn in the end."""
        self.decide(["done"] * 6)
        for name in list(self.binding):
            self.bind(name, undone=False, bound=True)
        self.now += 1000
        self.queue.move_on_event(NODE_ADD, None, "node", self.now)
        while (queued := self.queue.pop(self.now)) is not None:
            self.queue.done(queued.uid)
        assert all(queued.place is Place.GATED for queued in self.queue.waiting())


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=150, stateful_step_count=40)


def test_where_only_events_requeue_pods_a_rejected_group_waits_for_one():
    queue = queue_of("a", "b", keeps_order=True)
    attempt(queue, 0, ["a", "b"])
    assert places(queue) == {"a": "unschedulable", "b": "unschedulable"}
    assert queue.pop(1000) is None
    assert queue.pending_pods().unschedulable == 2
    assert queue.move_on_event(LABEL, None, None, 1000) == 0
    assert queue.move_on_event(NODE_ADD, None, None, 1000) == 1
    assert places(queue) == {"a": "active", "b": "active"}
    attempt(queue, 1000, ["a", "b"])
    queue.delete(member("a"), 1000)
    assert places(queue) == {"b": "unschedulable"}


def test_gated_pods_that_are_in_another_group_by_now_join_it():
    """The key of a pod changes when the root of its tree becomes known."""
    root = {}
    hints = {"Gate": (EventHint(LABEL),)}
    profile = QueueProfile(by_priority, [Gate()], hints, lambda pod: root.get(group_of(pod), group_of(pod)))
    queue = SchedulingQueue({"test-scheduler": profile}, Nominations())
    for name, group in (("a", "red"), ("b", "red"), ("c", "blue")):
        queue.add(member(name, group, gated=True), 0)
    root |= {"red": "tree", "blue": "tree"}
    for name, group in (("a", "red"), ("b", "red"), ("c", "blue")):
        queue.update(None, member(name, group, version="2"), 1)
    assert places(queue) == {"a": "active", "b": "active", "c": "active"}
    assert queue.entries() == {(Place.ACTIVE, "podgroup"): 1}
    assert set(turn(queue, 1, ["a", "b", "c"])) == {"a", "b", "c"}
