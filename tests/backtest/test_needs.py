"""Victims of a history and what replaced them: one need, that is placed once."""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backtest.histories import pool_node
from tests.support.tables import cases

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import FleetChoice, SimulationRun, open_history, simulate
from bayplan.answers.backtest.stream import Stream
from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import document_of
from bayplan.answers.history.format import Row
from bayplan.answers.history.writing import write_history
from bayplan.answers.simulation.happenings import PodArrives, PodEnds
from bayplan.answers.simulation.timeline import TimelineObserver
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import encode
from bayplan.testing import make_pod
from bayplan.testing.builders import CREATED

REPLICA_SET = ("apps/v1", "ReplicaSet", "web-1")
JOB = ("batch/v1", "Job", "train")
STATEFUL_SET = ("apps/v1", "StatefulSet", "db")
DAEMON_SET = ("apps/v1", "DaemonSet", "agent")
PREEMPTED, DRAINED = "PreemptionByScheduler", "EvictionByEvictionAPI"


class History:
    """Rows of a history of one node of 4 CPUs, written by hand."""

    def __init__(self, *nodes):
        self.changes = []
        for node in nodes or (pool_node("n"),):
            self._add(0.0, columns.NODE_ADDED, NODE, "", node.metadata.name, initial=True, obj=node)

    def _add(self, at, event, kind, namespace, name, *, initial=False, obj=None, **fields):
        document = None if obj is None else document_of(kind, msgspec.json.decode(encode(obj)))
        row = Row(
            CREATED + timedelta(seconds=at),
            event,
            initial,
            kind.api_version,
            kind.kind,
            namespace,
            name,
            document="" if document is None else document.document,
            **{"uid": f"uid-{name}"} | fields,
        )
        self.changes.append((row, document))

    def arrives(self, at, name, uid=None, *, initial=False, **options):
        pod = make_pod(name, **{"cpu": "4"} | options)
        owner = options.get("owner")
        fields = {"owner_kind": owner[1], "owner_name": owner[2]} if owner else {}
        self._add(
            at, columns.POD_ARRIVED, POD, "default", name, initial=initial, obj=pod.object, uid=uid or name, **fields
        )
        return self

    def bound(self, at, name, uid=None, *, node="n", initial=False):
        self._add(at, columns.POD_BOUND, POD, "default", name, initial=initial, node=node, uid=uid or name)
        return self

    def ends(self, at, name, reason, uid=None):
        self._add(at, columns.POD_ENDED, POD, "default", name, reason=reason, uid=uid or name)
        return self

    def write(self, folder, seconds):
        self.changes.sort(key=lambda each: each[0].time_utc)
        end = CREATED + timedelta(seconds=seconds)
        write_history(folder, self.changes, source="the test cluster", begin=CREATED, end=end)
        return open_history(folder)


def happenings(history, served=("default-scheduler",)):
    """When pods arrive and end, as `seconds what uid`."""
    ahead = Lookahead(history, lambda _: None)
    found = []
    for each in Stream(history, ahead, set(served)):
        if isinstance(each, PodArrives):
            runs = "" if each.runs is None else f" runs {each.runs:.0f}"
            found.append(f"{each.at:.0f} arrives {each.pod.uid}{runs}")
        elif isinstance(each, PodEnds):
            found.append(f"{each.at:.0f} ends {each.uid}")
    return found


def preempted(owner, replacement, at, **options):
    """A victim that runs from 2 to 70 s, and terminates from 60 s on; its replacement runs from 130 to 190 s."""
    history = History()
    history.arrives(1, "a", owner=owner, **options).bound(2, "a").ends(70, "a", PREEMPTED)
    if replacement:
        uid = f"{replacement}-again"
        history.arrives(at, replacement, uid, owner=owner, **options).bound(130, replacement, uid)
        history.ends(190, replacement, "Succeeded", uid)
    return history.arrives(60, "urgent", priority=1000).bound(71, "urgent").ends(129, "urgent", "Succeeded")


URGENT = "60 arrives urgent runs 58"


@cases(
    "history, expected",
    {
        "a ReplicaSet replaces at once": (preempted(REPLICA_SET, "b", 60.2), ["1 arrives a runs 60", URGENT]),
        "a Job replaces later": (preempted(JOB, "b", 82.0), ["1 arrives a runs 60", URGENT]),
        "a StatefulSet's pod returns with its name": (
            preempted(STATEFUL_SET, "a", 70.3),
            ["1 arrives a runs 60", URGENT],
        ),
        "another name of a StatefulSet is another need": (
            preempted(STATEFUL_SET, "b", 70.3),
            ["1 arrives a runs 68", URGENT, "70 arrives b-again runs 60"],
        ),
        "a bare pod is created again": (preempted(None, "a", 75.0), ["1 arrives a runs 60", URGENT]),
        "another bare pod is another need": (
            preempted(None, "b", 75.0),
            ["1 arrives a runs 68", URGENT, "75 arrives b-again runs 60"],
        ),
        "an owner that doesn't replace it": (preempted(REPLICA_SET, None, 0), ["1 arrives a", URGENT, "70 ends a"]),
        "the kubelet's preemption is an input": (
            History()
            .arrives(1, "a", owner=REPLICA_SET)
            .bound(2, "a")
            .ends(70, "a", "Preempting")
            .arrives(70.1, "b", owner=REPLICA_SET),
            ["1 arrives a", "70 ends a", "70 arrives b"],
        ),
        "a drain is an input": (
            History()
            .arrives(1, "a", owner=REPLICA_SET)
            .bound(2, "a")
            .ends(70, "a", DRAINED)
            .arrives(70.1, "b", owner=REPLICA_SET),
            ["1 arrives a", "70 ends a", "70 arrives b"],
        ),
        "a chain ends with its last pod": (
            History()
            .arrives(1, "a", owner=REPLICA_SET)
            .bound(2, "a")
            .arrives(60, "b", owner=REPLICA_SET)
            .ends(70, "a", PREEMPTED)
            .bound(80, "b")
            .arrives(100, "c", owner=REPLICA_SET)
            .ends(110, "b", PREEMPTED)
            .bound(120, "c")
            .ends(170, "c", "Deleted"),
            ["1 arrives a", "170 ends a"],
        ),
        "a victim whose replacement is never placed": (
            History()
            .arrives(1, "a", owner=REPLICA_SET)
            .bound(2, "a")
            .arrives(60, "b", owner=REPLICA_SET)
            .ends(70, "a", PREEMPTED)
            .ends(150, "b", "Deleted"),
            ["1 arrives a", "150 ends a"],
        ),
        "a victim that was there at the start": (
            History()
            .arrives(0, "a", owner=REPLICA_SET, initial=True)
            .bound(0, "a", initial=True)
            .arrives(60, "b", owner=REPLICA_SET)
            .ends(70, "a", PREEMPTED),
            ["0 arrives a"],
        ),
        "pods created with the victim are no replacements": (
            History()
            .arrives(1, "a", owner=JOB)
            .arrives(1.1, "sibling", owner=JOB)
            .bound(1.05, "a")
            .arrives(12, "b", owner=JOB)
            .ends(10, "a", PREEMPTED),
            ["1 arrives a", "1 arrives sibling"],
        ),
        "victims that end in another order than they were evicted": (
            History()
            .arrives(1, "a", owner=JOB, cpu="1")
            .arrives(1, "b", owner=JOB, cpu="1")
            .bound(2, "a")
            .bound(2, "b")
            .arrives(10, "for a", "a2", owner=JOB, cpu="1")
            .bound(11, "for a", "a2")
            .arrives(13, "for b", "b2", owner=JOB, cpu="1")
            .bound(14, "for b", "b2")
            .ends(15, "b", PREEMPTED)
            .ends(16, "a", PREEMPTED)
            .arrives(17, "for a2", "a3", owner=JOB, cpu="1")
            .ends(18, "for a", PREEMPTED, "a2"),
            ["1 arrives a", "1 arrives b"],
        ),
        "a victim that was evicted at once": (
            History()
            .arrives(1, "a", owner=JOB)
            .bound(1.05, "a")
            .arrives(1.4, "b", owner=JOB)
            .ends(8, "a", PREEMPTED)
            .bound(8.1, "b"),
            ["1 arrives a"],
        ),
        "a victim of a workload whose pods are known to run for 100 s": (
            History()
            .arrives(1, "a", owner=JOB)
            .bound(2, "a")
            .ends(102, "a", "Succeeded")
            .arrives(110, "b", owner=JOB)
            .bound(111, "b")
            .ends(150, "b", PREEMPTED),
            ["1 arrives a runs 100", "110 arrives b runs 100"],
        ),
    },
)
def test_what_a_scheduler_caused_is_no_input(tmp_path, history, expected):
    assert happenings(history.write(tmp_path / "history", 200.0)) == expected


@given(
    pods=st.integers(1, 6),
    evictions=st.lists(
        st.tuples(st.integers(0, 9), st.floats(0.1, 9), st.floats(0.1, 14.9), st.floats(0, 20)), max_size=25
    ),
)
def test_each_victim_of_a_job_has_one_replacement(pods, evictions):
    """However long victims take to end, as many needs remain as there were pods at the start."""
    history, now = History(), 2.0
    running = {f"p{number}": 1.0 for number in range(pods)}
    for name in running:
        history.arrives(1.0, name, owner=JOB, cpu="0").bound(1.01, name)
    for number, (which, after, ends, waits) in enumerate(evictions):
        now += after
        victim = sorted(running)[which % pods]
        begun = running.pop(victim)
        if begun > now - 1.1:  # not in the first second, in which other pods may be created, too
            now = begun + 1.1
        history.ends(now + ends, victim, PREEMPTED)
        name = f"r{number}"
        history.arrives(now + 0.01, name, owner=JOB, cpu="0").bound(now + 0.02 + waits, name)
        running[name] = now + 0.02 + waits
    with TemporaryDirectory() as folder:
        found = happenings(history.write(Path(folder) / "history", 1000.0))
    assert found == [f"1 arrives p{number}" for number in range(pods)]


def test_ends_of_pods_that_other_schedulers_decide_are_inputs(tmp_path):
    history = preempted(REPLICA_SET, "b", 60.2, scheduler_name="another").write(tmp_path / "history", 200.0)
    assert happenings(history) == ["1 arrives a", URGENT, "60 arrives b-again runs 60", "70 ends a"]


class Names(TimelineObserver):
    def __init__(self):
        self.arrivals = []

    def begin(self, timeline):
        self.begun = True

    def arrived(self, pod, life):
        self.arrivals.append(pod.name)


@pytest.mark.parametrize(
    ("owner", "replacement", "at"),
    [(REPLICA_SET, "b", 60.2), (JOB, "b", 75.0), (STATEFUL_SET, "a", 70.3), (None, "a", 75.0)],
)
def test_a_victim_is_replaced_once(tmp_path, owner, replacement, at):
    """Three pods, one eviction, none that is never placed: as it was recorded."""
    history = preempted(owner, replacement, at).write(tmp_path / "history", 200.0)
    ahead, names = Lookahead(history, lambda _: None), Names()
    found = simulate(history, ahead, SimulationRun(fleet=FleetChoice("none")), also=(names,)).summary
    for summary in (ahead.recorded, found):
        assert (summary.placed, summary.evictions, summary.never_placed) == (3, {"preempted": 1}, 0)
    assert len(names.arrivals) == 3


def test_a_victim_of_the_history_that_the_simulation_spares_runs_on(tmp_path):
    """With a second node, nothing has to go: two pods are placed, and nothing else arrives."""
    history = preempted(REPLICA_SET, "b", 60.2)
    history.changes[:0] = History(pool_node("m")).changes
    found = simulate(
        opened := history.write(tmp_path / "history", 200.0),
        Lookahead(opened, lambda _: None),
        SimulationRun(fleet=FleetChoice("none")),
    ).summary
    assert (found.placed, found.evicted, found.never_placed) == (2, 0, 0)


def test_delays_are_those_of_the_history(tmp_path):
    """The victim terminated for 9.8 s after its replacement had come."""
    history = preempted(REPLICA_SET, "b", 60.2)
    history.arrives(3, "quick", cpu="0").bound(3.02, "quick")
    delays = Lookahead(history.write(tmp_path / "history", 200.0), lambda _: None).delays
    assert delays.binding == pytest.approx(0.02)
    assert delays.terminations(0.1)["replicaset default/web-1"] == [pytest.approx(9.9)]
    assert delays.replacement is None
