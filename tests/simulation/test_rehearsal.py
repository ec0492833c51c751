"""A rehearsal begins with what a world has, and leaves it as it was."""

from datetime import timedelta

import pytest
from tests.simulation.timelines import OWNED

from bayplan.answers.simulation.behaviour import Behaviour
from bayplan.answers.simulation.evictions import terminating
from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.models.job_completions import JobCompletions
from bayplan.answers.simulation.rehearsal import Rehearsal, TheWorldGoesOn, age_of
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.timeline import TimelineObserver
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.queue import RetryTimes
from bayplan.testing import make_node, make_pod
from bayplan.testing.builders import CREATED

BEGIN = CREATED
SECOND = BEGIN.timestamp()
FIFO = Behaviour(attempt_seconds=0.0, retries=RetryTimes(keeps_order=True))


class Ends(TimelineObserver):
    """Lets pods run as long as `seconds` says by name. `lines`: who was bound or gone, and when."""

    def __init__(self, **seconds):
        self.seconds = seconds
        self.lines = []

    def arrived(self, pod, life):
        life.runs = self.seconds.get(pod.name)

    def bound(self, pod, life):
        if life.bound_at >= 0:
            self.lines.append((life.bound_at, "bound", pod.name, life.node))

    def gone(self, pod, life):
        self.lines.append((self.timeline.now, "gone", pod.name))

    def begin(self, timeline):
        self.timeline = timeline


def running(name, node, *, age=60.0, **more):
    pod = make_pod(name, node=node, **more)
    pod.started = SECOND - age
    return pod


def world_of(*pods, nodes=("a",)):
    world = World()
    for name in nodes:
        world.change(NODE, name, make_node(name, cpu="4"))
    for pod in pods:
        world.change(POD, pod.key, pod)
    world.keep()
    return world


def rehearse(world, behaviour=FIFO, until=1e6, **seconds):
    ends = Ends(**seconds)
    Rehearsal(world, BEGIN, [ends], behaviour).run([TheWorldGoesOn()], until)
    return ends.lines


def contents(world):
    """All that decisions depend on, as far as pods tell."""
    table = world.state.table
    on_nodes = {name: list(table.pods[row]) for name, row in table.row_of.items()}
    pods = {
        key: (pod.node_name, pod.nominated_node_name, pod.terminating) for key, pod in world.state.objects[POD].items()
    }
    return on_nodes, pods, set(world.pending), dict(world.state.nominations.nodes)


def test_a_pod_that_runs_ends_after_what_is_left_of_its_time():
    world = world_of(running("old", "a", age=100.0, cpu="3"), make_pod("new", cpu="2"))
    assert rehearse(world, old=160.0) == [(60.0, "gone", "old"), (60.0, "bound", "new", "a")]


def test_the_world_is_as_before_and_the_next_run_is_the_same():
    pods = [running(f"old-{each}", node, age=10.0, cpu="2", owner=OWNED) for each, node in enumerate("aabb")]
    waiting = [make_pod(f"new-{each}", cpu="2", priority=each % 2 * 10) for each in range(5)]
    world = world_of(*pods, *waiting, nodes="ab")
    before = contents(world)
    seconds = {f"old-{each}": 50.0 * (1 + each) for each in range(4)} | {f"new-{each}": 30.0 for each in range(5)}
    first = rehearse(world, **seconds)
    assert {line[2] for line in first if line[1] == "bound"} >= {f"new-{each}" for each in range(5)}
    assert contents(world) == before
    world.rng.seed(0)
    assert rehearse(world, **seconds) == first
    assert contents(world) == before


def test_what_preemption_did_is_undone():
    world = world_of(running("low", "a", cpu="3", owner=OWNED), make_pod("high", cpu="3", priority=100))
    before = contents(world)
    lines = rehearse(world)
    assert [line[1:3] for line in lines] == [("gone", "low"), ("bound", "high")]
    assert contents(world) == before
    assert Simulation(world).outcome(world.pod("default/high"))["default/high"].victims[0].name == "low"


def test_a_pod_that_is_being_deleted_leaves_at_its_time():
    later = BEGIN + timedelta(seconds=12)
    leaving = terminating(running("old", "a", cpu="3"), later, DepartureReason.DELETED)
    world = world_of(leaving, make_pod("new", cpu="2"))
    assert rehearse(world) == [(12.0, "gone", "old"), (12.0, "bound", "new", "a")]


@pytest.mark.parametrize("sizes", ["222222", "213213", "111111"])
def test_pods_that_wait_start_in_their_order_as_far_as_they_fit(sizes):
    """Equal pods are attempted one for all of them; who starts first doesn't depend on who was attempted."""
    waiting = [make_pod(f"new-{number}", cpu=size) for number, size in enumerate(sizes)]
    world = world_of(running("old-0", "a", age=1.0, cpu="2"), running("old-1", "a", age=1.0, cpu="2"), *waiting)
    seconds = {"old-0": 10.0, "old-1": 25.0} | {f"new-{number}": 40.0 for number in range(len(sizes))}
    lines = rehearse(world, **seconds)
    for size in set(sizes):
        starts = [line[2] for line in lines if line[1] == "bound" and sizes[int(line[2][-1])] == size]
        assert starts == sorted(starts)
    assert sum(line[1] == "bound" for line in lines) == len(sizes)


def test_a_run_ends_when_its_observer_says_so():
    class Once(Ends):
        def bound(self, pod, life):
            super().bound(pod, life)
            if life.bound_at >= 0:
                self.timeline.stop()

    world = world_of(*(make_pod(f"new-{each}", cpu="1") for each in range(3)))
    once = Once()
    Rehearsal(world, BEGIN, [once], FIFO).run([TheWorldGoesOn()], 1e6)
    assert len(once.lines) == 1
    assert len(world.pending) == 3


def test_what_interrupts_a_run_leaves_the_world_as_it_was():
    class Stops(TimelineObserver):
        def bound(self, pod, life):
            raise KeyboardInterrupt

    world = world_of(make_pod("new", cpu="1"))
    before = contents(world)
    with pytest.raises(KeyboardInterrupt):
        Rehearsal(world, BEGIN, [Stops()], FIFO).run([TheWorldGoesOn()], 1e6)
    assert contents(world) == before


def test_ages():
    assert age_of(running("a", "n", age=7.0), SECOND) == 7.0
    assert age_of(running("a", "n", age=-5.0), SECOND) == 0.0
    assert age_of(make_pod("a"), SECOND) == 0.0


def test_a_job_creates_its_next_pods_as_others_complete():
    job = ("batch/v1", "Job", "sum")
    world = world_of(running("sum-a", "a", age=0.0, cpu="3", owner=job), make_pod("new", cpu="4"))
    ends = Ends(**{"sum-a": 10.0, "sum-a+next-2": 20.0, "sum-a+next-1": 30.0})
    observers = [ends, JobCompletions({"default/sum": 2})]
    Rehearsal(world, BEGIN, observers, FIFO).run([TheWorldGoesOn()], 1e6)
    names = [line[2] for line in ends.lines if line[1] == "bound"]
    assert names == ["sum-a", "new"]  # the pod that waits comes first, and never ends
    world = world_of(running("sum-a", "a", age=0.0, cpu="3", owner=job))
    ends.lines.clear()
    Rehearsal(world, BEGIN, [ends, JobCompletions({"default/sum": 2})], FIFO).run([TheWorldGoesOn()], 1e6)
    assert [(line[2], round(line[0])) for line in ends.lines if line[1] == "gone"] == [
        ("sum-a", 10),
        ("sum-a+next-2", 30),
        ("sum-a+next-1", 60),
    ]
