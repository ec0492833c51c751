"""Attempts that take long give way to other pods, and go on afterwards."""

import random
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.service.conftest import make_pod as pending
from tests.service.conftest import make_runtime

from bayplan.core.cluster.affinity_terms import PodTerms
from bayplan.core.cluster.selector_groups import SelectorGroups
from bayplan.core.executor.giving_way import LONGEST, LONGEST_AHEAD, LONGEST_REST, REST, TimeSlice, Unfinished
from bayplan.core.framework import giving_way
from bayplan.core.framework.giving_way import GiveWay, ManySteps
from bayplan.core.framework.handle import StateHandle
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.plugin import Plugin
from bayplan.running.service.services import Services
from bayplan.testing import LiveCluster, make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("attempts that take long give way")


class Clock:
    """A clock that tests set."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


def test_time_slice_begins_with_the_first_check():
    clock = Clock()
    part = TimeSlice(clock)
    with part.limited():
        clock.time = 10.0
        part.check()
        clock.time += LONGEST - 0.001
        part.check()
        clock.time += 0.002
        with pytest.raises(GiveWay):
            part.check()
    part.check()
    with part.limited():
        part.check()


def test_long_attempts_in_a_row_share_a_slice():
    clock = Clock()
    part = TimeSlice(clock)

    def attempt(seconds, *, long=True):
        with part.limited():
            part.check(long=long)
            clock.time += seconds

    for _ in range(3):
        attempt(0.6 * LONGEST, long=False)

    attempt(0.6 * LONGEST)
    clock.time += REST / 2
    attempt(0.6 * LONGEST)
    with pytest.raises(GiveWay):
        attempt(0.0)
    attempt(0.6 * LONGEST, long=False)
    clock.time += REST
    for _ in range(3):
        attempt(0.6 * LONGEST)
        clock.time += REST  # others have had their turn


def test_pods_that_wait_have_more_time_than_long_attempts():
    clock, others = Clock(), [True]
    part = TimeSlice(clock)
    part.others = lambda: others[0]

    def begins():
        try:
            with part.limited():
                part.check(long=True)
                clock.time += 1.5 * LONGEST
        except GiveWay:
            return False
        return True

    assert begins()
    clock.time += REST
    assert not begins()
    others[0] = False
    assert begins()
    others[0] = True
    clock.time += LONGEST_REST - 0.001
    assert not begins()
    clock.time += 0.002
    assert begins(), "others have their turn, but not for ever"


def test_work_of_many_steps_gives_way_but_not_for_ever():
    asked = []

    def give_way():
        asked.append(len(asked))
        raise GiveWay

    steps = ManySteps(give_way)
    for done in range(1, giving_way._STEPS):
        steps.check("few", done)
    assert not asked
    while True:
        before = len(asked)
        with suppress(GiveWay):
            for done in range(1, 2 * giving_way._STEPS):
                steps.check("many", done)
        if len(asked) == before:
            break
    assert len(asked) == giving_way._TIMES
    with pytest.raises(GiveWay):
        steps.check("another", giving_way._STEPS)
    steps.begin(giving_way._STEPS - 1)
    with pytest.raises(GiveWay):
        steps.begin(giving_way._STEPS)


class Waiting(Plugin):
    """Lets the pod `slow` through once another pod is bound: only an attempt that gives way gets there."""

    name = "Waiting"

    def __init__(self, handle):
        self.handle = handle
        self.bound = set()
        self.attempts = 0
        self.latest = time.monotonic() + 10

    def filter(self, cycle, pod, node):
        if pod.name == "slow":
            self.attempts += 1
            while "quick" not in self.bound:
                assert time.monotonic() < self.latest, "the attempt does not give way"
                self.handle.give_way()

    def post_bind(self, cycle, pod, node_name):
        self.bound.add(pod.name)


def test_other_pods_are_bound_while_an_attempt_takes_long():
    made = []

    class Plugin(Waiting):
        def __init__(self, handle):
            super().__init__(handle)
            made.append(self)

    with LiveCluster(Plugin, nodes=1) as cluster:
        cluster.create(make_pod("slow"))
        cluster.until(lambda: made[0].attempts > 2)
        cluster.create(make_pod("quick"))
        cluster.wait_until_bound("quick")
        cluster.wait_until_bound("slow")
        assert not cluster.events_of("slow", "FailedScheduling")


def many_terms(kind, name, number=500):
    selectors = [{"matchLabels": {"app": f"{name}-{each}"}} for each in range(number)]
    if kind == "spread":
        rest = {"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule"}
        return {"spread": [{"topologyKey": f"key-{i}", "labelSelector": s, **rest} for i, s in enumerate(selectors)]}
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": each} for each in selectors]
    if kind == "preferred":
        weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
        return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize("kind", ["required", "preferred", "spread"])
def test_pods_with_many_terms_let_others_have_their_turn(kind, monkeypatch):
    """In virtual time, counting the pods that a selector matches takes a millisecond the first time."""
    clock = Clock()
    part = TimeSlice(clock)
    add = SelectorGroups._add

    def count(self, key):
        clock.time += 0.001
        return add(self, key)

    monkeypatch.setattr(SelectorGroups, "_add", count)
    monkeypatch.setattr(StateHandle, "give_way", lambda _, long: part.check(long=long))
    labels = {f"key-{each}": "a" for each in range(500)}
    cluster = make_cluster(make_node("n", labels=labels), make_node("m", labels=labels))
    pod = make_pod("many", **many_terms(kind, "many"))
    given = []
    while True:
        began = clock.time
        try:
            with part.limited():
                decision = decide(cluster.profile, cluster.state, pod, random.Random(0))
            break
        except GiveWay:
            given.append(clock.time - began)
            clock.time += REST
    assert decision.node in {"n", "m"}
    assert len(given) >= 3, "500 selectors take 0.5 s"
    assert max(given) < 3 * LONGEST


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_many_terms_are_not_parsed_before_it_is_their_turn(kind, monkeypatch):
    asked = []

    def give_way(self, *, long):
        asked.append(long)
        raise GiveWay

    monkeypatch.setattr(StateHandle, "give_way", give_way)
    cluster = make_cluster(make_node("n"))
    pod = make_pod("many", **many_terms(kind, "many"))
    with pytest.raises(GiveWay):
        decide(cluster.profile, cluster.state, pod, random.Random(0), start=Sharing(cluster.profile).start)
    assert all(asked), "the attempt is long for sure"
    assert PodTerms not in pod.cache


@pytest.fixture
def services(client, clock):
    return Services.of(client, clock)


@pytest.fixture
def runtime(services):
    return make_runtime(services, replace(make_cluster().profile, scheduler_name="test"))


def test_units_have_their_turn_one_after_the_other(runtime):
    part = TimeSlice(lambda: 2.0)
    queue, units = runtime.queue, Unfinished(part)
    first, second = (queue.pop(0.0) for name in "ab" if queue.add(pending(name), 0.0) is None)
    part.next, part.in_a_row = 2.0 + REST, LONGEST_AHEAD
    units.add(first, [first])
    units.add(second, [second])
    assert units.due == 2.0 + REST
    assert units.take(queue, 2.0) is None, "other pods have their turn"
    assert units.take(queue, 2.0 + REST) is first
    assert first.attempts == 1, "a repetition is not a new attempt"
    assert units.take(queue, 2.0 + REST) is second
    assert units.due is None
    assert units.take(queue, 9.0) is None


def test_pods_that_come_first_have_their_turn_in_between(runtime):
    clock = Clock()
    part = TimeSlice(clock)
    queue, units = runtime.queue, Unfinished(part)
    queue.add(make_pod("slow", priority=5, spec={"schedulerName": "test"}), 0.0)
    slow = queue.pop(0.0)
    for name, priority in {"low": 0, "equal": 5, "high": 9}.items():
        queue.add(make_pod(name, priority=priority, spec={"schedulerName": "test"}), 1.0)
    began, turns = clock.time, []
    while clock.time - began < LONGEST_AHEAD + REST:
        with part.limited():
            part.check()
            clock.time += 1.1 * LONGEST
        units.add(slow, [slow])
        slow = units.take(queue, clock.time)
        while slow is None:
            turns.append((queue.pop(clock.time).pod.name, clock.time - began))
            slow = units.take(queue, clock.time + LONGEST_REST * bool(len(turns) == 3))
    (first, at), (second, later), *_ = turns
    assert (first, second) == ("high", "equal")
    assert at < 2 * LONGEST
    assert LONGEST_AHEAD <= later < LONGEST_AHEAD + 2 * LONGEST


def test_changed_and_deleted_pods(runtime, services):
    queue, units = runtime.queue, Unfinished(services.slice)
    for name in ("changed", "deleted"):
        queue.add(pending(name), 0.0)
        queued = queue.pop(0.0)
        units.add(queued, [queued])
    later = pending("changed")
    later.resource_version = "9"
    queue.update(None, later, 0.0)
    queue.delete(pending("deleted"), 0.0)
    assert units.take(queue, 1.0).pod is later
    assert units.take(queue, 1.0) is None
    assert len(queue) == 1


def test_members_of_a_gang_are_returned(runtime, services):
    queue, units = runtime.queue, Unfinished(services.slice)
    taken = [queue.pop(0.0) for name in "abc" if queue.add(pending(name), 0.0) is None]
    units.add(taken[1], taken)
    assert units.take(queue, 1.0) is taken[1]
    assert {queue.pop(1.0), queue.pop(1.0)} == {taken[0], taken[2]}
