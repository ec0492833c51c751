"""Attempts that take long give way to other pods, and go on afterwards."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.service.conftest import make_pod as pending
from tests.service.conftest import make_runtime

from bayplan.executor.giving_way import LONGEST, REST, TimeSlice, Unfinished
from bayplan.framework.giving_way import GiveWay
from bayplan.plugin import Plugin
from bayplan.service.services import Services
from bayplan.testing import LiveCluster, make_cluster, make_pod

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
        clock.time += LONGEST
        part.check()
        clock.time += 0.001
        with pytest.raises(GiveWay):
            part.check()
    part.check()
    with part.limited():
        part.check()


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


@pytest.fixture
def runtime(client, clock):
    return make_runtime(Services.of(client, clock), replace(make_cluster().profile, scheduler_name="test"))


def test_units_have_their_turn_one_after_the_other(runtime):
    queue, units = runtime.queue, Unfinished()
    first, second = (queue.pop(0.0) for name in "ab" if queue.add(pending(name), 0.0) is None)
    units.add(first, [first], 1.0)
    units.add(second, [second], 2.0)
    assert units.take(queue, 2.0) is None, "other pods have their turn"
    assert units.take(queue, 2.0 + REST) is first
    assert first.attempts == 1, "a repetition is not a new attempt"
    assert units.take(queue, 2.0 + REST) is second
    assert units.due is None
    assert units.take(queue, 9.0) is None


def test_changed_and_deleted_pods(runtime):
    queue, units = runtime.queue, Unfinished()
    for name in ("changed", "deleted"):
        queue.add(pending(name), 0.0)
        queued = queue.pop(0.0)
        units.add(queued, [queued], 0.0)
    later = pending("changed")
    later.resource_version = "9"
    queue.update(None, later, 0.0)
    queue.delete(pending("deleted"), 0.0)
    assert units.take(queue, 1.0).pod is later
    assert units.take(queue, 1.0) is None
    assert len(queue) == 1


def test_members_of_a_gang_are_returned(runtime):
    queue, units = runtime.queue, Unfinished()
    taken = [queue.pop(0.0) for name in "abc" if queue.add(pending(name), 0.0) is None]
    units.add(taken[1], taken, 0.0)
    assert units.take(queue, 1.0) is taken[1]
    assert {queue.pop(1.0), queue.pop(1.0)} == {taken[0], taken[2]}
