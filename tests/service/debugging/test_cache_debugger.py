"""Dumps of the state, and comparison with the API server."""

import asyncio
import json
import logging
import re
from dataclasses import replace

import pytest
from tests.service.conftest import make_runtime
from tests.support.tables import cases

from bayplan.faces.cli.run_logging import REQUESTED, JsonLines
from bayplan.foundations import turns
from bayplan.running.service.debugging.debugger import SETTLE_SECONDS, CacheDebugger
from bayplan.running.service.services import Services
from bayplan.testing.builders import make_cluster, make_node, make_pod
from bayplan.testing.in_memory import make_client
from bayplan_devcluster.apiserver import Fault


class World:
    """A scheduler's state, and an API server."""

    def __init__(self, clock, *objects, plugins=()):
        self.client = make_client(*objects, retries=0)
        profile = replace(make_cluster(plugins=plugins).profile, scheduler_name="default-scheduler")
        self.runtime = make_runtime(Services.of(self.client, clock), profile)
        self.state, self.queue, self.waiting = self.runtime.state, self.runtime.queue, self.runtime.waiting
        self.intake, self.clock = self.runtime.intake, clock
        self.slept = []
        self.meanwhile = lambda: None
        self.synced = asyncio.Event()
        self.synced.set()
        self.debugger = CacheDebugger(self.runtime, self.client, self.synced, sleep=self.sleep)

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.meanwhile()

    def add(self, *objects):
        for each in objects:
            if not hasattr(each, "uid"):
                self.state.set_node(each)
            elif each.node_name:
                self.state.set_pod(each)
            else:
                self.queue.add(each, self.clock.monotonic())


@pytest.fixture
def logged(caplog):
    """Returns the lines that were logged since the last call."""
    caplog.set_level(logging.INFO, REQUESTED)

    def lines():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    lines.records = lambda: list(caplog.records)
    return lines


BOUND = make_pod("web", cpu="500m", memory="1Gi", node="a")
READY = make_pod("ready", priority=5)


async def test_dump_contains_nodes_and_their_pods(clock, logged):
    world = World(clock)
    world.add(make_node("a", resources={"example.com/gpu": "2"}), BOUND, READY)
    world.state.assume(make_pod("on-its-way", cpu="250m"), "a")
    world.state.set_pod(make_pod("left-behind", node="gone"))
    world.state.nominations.add(make_pod("preemptor"), "a")
    world.state.nominations.add(make_pod("dreamer"), "nowhere")
    world.waiting.add(world.state.pod("default-on-its-way"), {"Gang": 60.0})
    await world.debugger.dump()
    assert logged() == [
        "dump: 1 nodes, 3 pods on them, of which 1 are assumed; 2 nodes have nominated pods",
        (
            "dump: node a: requested cpu 750m, memory 1Gi, ephemeral-storage 0, pods 2; allocatable cpu 4000m, "
            "memory 16Gi, ephemeral-storage 0, pods 110, example.com/gpu 2; pods: "
            "default/web (Running, uid default-web), default/on-its-way (assumed, Pending, uid default-on-its-way); "
            "nominated: default/preemptor (Pending, uid default-preemptor)"
        ),
        (
            "dump: node gone (deleted): requested cpu 0m, memory 0, ephemeral-storage 0, pods 1; allocatable cpu 0m, "
            "memory 0, ephemeral-storage 0, pods 0; pods: default/left-behind (Running, uid default-left-behind); "
            "nominated: none"
        ),
        (
            "dump: node nowhere (deleted): requested nothing; allocatable nothing; pods: none; "
            "nominated: default/dreamer (Pending, uid default-dreamer)"
        ),
        "dump: queue: 1 active, 0 backoff, 0 unschedulable, 0 gated, 0 in flight",
        "dump: active: pod default/ready, uid default-ready, priority 5, attempts 0, ready for 0.0 s",
        "dump: pod default/on-its-way waits in Permit of Gang for node a",
        "dump: end",
    ]


async def test_dump_contains_the_queue_with_reasons(clock, logged):
    world = World(clock)
    world.add(make_pod("gated", spec={"schedulingGates": [{"name": "later"}]}))
    for name in ("unschedulable", "backoff", "in-flight"):
        world.add(make_pod(name))
        queued = world.queue.pop(clock.monotonic())
        if name == "in-flight":
            continue
        queued.message = "0/1 nodes are available."
        if name == "unschedulable":
            queued.unschedulable_plugins = frozenset({"NodeName", "NodeAffinity"})
        world.queue.add_unschedulable(queued, clock.monotonic())
    clock.seconds += 0.5
    await world.debugger.dump()
    assert logged()[1:-1] == [
        "dump: queue: 0 active, 1 backoff, 1 unschedulable, 1 gated, 1 in flight",
        (
            "dump: backoff: pod default/backoff, uid default-backoff, priority 0, attempts 1, backing off for another "
            "1.5 s: 0/1 nodes are available."
        ),
        (
            "dump: unschedulable: pod default/unschedulable, uid default-unschedulable, priority 0, attempts 1, "
            "waiting for 0.5 s for an event for NodeAffinity, NodeName: 0/1 nodes are available."
        ),
        (
            "dump: gated: pod default/gated, uid default-gated, priority 0, attempts 0, gated by SchedulingGates"
            ": waiting for scheduling gates: [later]"
        ),
        (
            "dump: in-flight: pod default/in-flight, uid default-in-flight, priority 0, attempts 1, in an attempt "
            "for 0.5 s"
        ),
    ]


class Together:
    """Puts pods with the same label into one group."""

    name = "Together"
    arguments = None

    def pre_enqueue(self, pod):
        return None

    def queued_with(self, pod):
        return pod.labels.get("crew")


async def test_dump_says_what_the_pods_of_groups_wait_for(clock, logged):
    world = World(clock, plugins=[Together()])
    for crew in ("backoff", "tried", "gated"):
        gates = [{"name": "later"}] if crew == "gated" else []
        world.add(make_pod(f"{crew}-1", labels={"crew": crew}), make_pod(f"{crew}-2", labels={"crew": crew}))
        world.add(make_pod(f"{crew}-3", labels={"crew": crew}, spec={"schedulingGates": gates}))
        if crew != "gated":
            queued = world.queue.pop(clock.monotonic())
            if crew == "backoff":
                world.queue.add_unschedulable(queued, clock.monotonic())
    clock.seconds += 0.5
    await world.debugger.dump()
    waits = {line.split("attempts ")[1].partition(", ")[2] for line in logged()[2:-1]}
    assert waits == {
        "backing off for another 1.5 s",
        "in an attempt for 0.5 s",
        "waiting for the end of an attempt of its group",
        "gated by SchedulingGates",
        "gated by SchedulingGates: waiting for scheduling gates: [later]",
    }


async def test_json_dump_has_fields(clock, logged):
    world = World(clock)
    world.add(make_node("a"), BOUND)
    await world.debugger.dump()
    line = json.loads(JsonLines().format(logged.records()[1]))
    assert line["node"] == {"name": "a"}
    assert line["requested"] == {"milliCPU": 500, "memory": 2**30, "ephemeralStorage": 0, "pods": 1}
    assert line["allocatable"] == {
        "milliCPU": 4000,
        "memory": 16 * 2**30,
        "ephemeralStorage": 0,
        "allowedPodNumber": 110,
    }
    assert line["pods"] == [{"name": "web", "namespace": "default", "uid": "default-web", "phase": "Running"}]


ELSEWHERE = make_pod("web", cpu="500m", memory="1Gi", node="b")
A, B = make_node("a"), make_node("b")


@cases(
    "server, known, expected",
    {
        "no differences": ([A, BOUND, READY], [A, BOUND, READY], []),
        "node missing": ([A, B], [A], ["node b is missing"]),
        "node redundant": ([A], [A, B], ["node b is redundant"]),
        "pod missing": ([A, BOUND], [A], ["pod default/web is missing"]),
        "pod redundant": ([A], [A, BOUND], ["pod default/web is redundant"]),
        "missing in the queue": ([READY], [], ["pod default/ready is missing"]),
        "redundant in the queue": ([], [READY], ["pod default/ready is redundant"]),
        "moved": ([A, B, BOUND], [A, B, ELSEWHERE], ["pod default/web is misplaced: it is on node a, not on b"]),
        "unbound": ([A, make_pod("web")], [A, BOUND], ["pod default/web is misplaced: it is on no node, not on a"]),
        "pod of another scheduler": ([make_pod("other", scheduler_name="theirs")], [], []),
        "terminating pending pod": ([make_pod("going", terminating=True)], [], []),
    },
)
async def test_differences_are_logged(server, known, expected, clock, logged):
    world = World(clock, *server)
    world.add(*known)
    await world.debugger.compare()
    *lines, last = logged()
    assert [re.sub(r"comparison: |(: it is in the .*)", "", line) for line in lines] == expected
    nodes = sum(not hasattr(each, "uid") for each in server)
    assert (
        last
        == f"comparison: {nodes} nodes and {len(server) - nodes} pods of the API server: {len(expected)} differences"
    )
    assert world.slept == ([SETTLE_SECONDS] if expected else [])


async def test_assumed_pod_is_not_a_difference(clock, logged):
    world = World(clock, A, READY)
    world.add(A)
    world.state.assume(READY, "a")
    await world.debugger.compare()
    assert logged() == ["comparison: 1 nodes and 1 pods of the API server: 0 differences"]


async def test_change_reported_by_the_watch_is_not_a_difference(clock, logged):
    world = World(clock, A, BOUND)
    world.add(A)
    world.meanwhile = lambda: world.add(BOUND)
    await world.debugger.compare()
    assert logged() == ["comparison: 1 nodes and 1 pods of the API server: 0 differences"]


@cases(
    "fault, error",
    {
        "forbidden": (
            {"resource": "nodes", "answer": 403, "reason": "Forbidden", "message": "you may not"},
            "403 Forbidden: you may not",
        ),
        "unreachable": ({"resource": "pods", "drop": "before"}, "GET /api/v1/pods: the server closed the connection"),
    },
)
async def test_failed_list_is_logged(fault, error, clock, logged):
    world = World(clock, A)
    world.client.server.faults.add(Fault(verb="list", **fault))
    await world.debugger.compare()
    assert logged() == [f"comparison: cannot list from the API server: {error}"]


async def test_nothing_is_compared_before_the_initial_lists(clock, logged):
    world = World(clock, A)
    world.synced.clear()
    await world.debugger.compare()
    assert logged() == ["comparison: the initial lists have not been received yet"]
    assert world.client.transport.requests == []


async def test_other_tasks_run_between_lines(clock, logged, monkeypatch):
    monkeypatch.setattr(turns, "LONGEST_TURN", -1.0)
    world = World(clock)
    world.add(*(make_node(f"node-{number}") for number in range(3)))
    dumping = asyncio.create_task(world.debugger.dump())
    await asyncio.sleep(0)
    counts = []
    while not dumping.done():
        counts.append(len(logged.records()))
        await asyncio.sleep(0)
    assert counts == [1, 2, 3, 4, 5]


async def test_what_if_is_not_dumped(clock, logged):
    world = World(clock)
    world.add(A)
    with world.intake.held(), world.state.what_if() as what_if:
        what_if.place(READY, "a")
        dumping = asyncio.create_task(world.debugger.dump())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert logged() == []
    await dumping
    assert logged()[0] == "dump: 1 nodes, 0 pods on them, of which 0 are assumed; 0 nodes have nominated pods"


async def test_failed_dump_is_logged_and_the_next_one_succeeds(clock, logged, monkeypatch):
    world, requested, broken, dumped = World(clock), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fail():
        broken.set()
        raise RuntimeError("broken")

    async def succeed():
        dumped.set()

    monkeypatch.setattr(world.debugger, "dump", fail)
    running = asyncio.create_task(world.debugger.run(requested))
    requested.set()
    await broken.wait()
    monkeypatch.setattr(world.debugger, "dump", succeed)
    requested.set()
    await dumped.wait()
    running.cancel()
    assert logged() == ["the state could not be dumped"]
