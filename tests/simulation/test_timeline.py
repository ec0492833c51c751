"""The scheduler in virtual time: queue, backoff, hints, preemption, gangs and waits, and when they act."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tests.simulation.timelines import OWNED, pods_on, timeline_of

from bayplan import Plugin, Wait
from bayplan.answers.simulation.behaviour import Behaviour, Termination
from bayplan.answers.simulation.happenings import NodeComes, NodeGoes, ObjectChanges, PodArrives, PodEnds
from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, kind_of
from bayplan.core.api.objects import convert, decode
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.config import read_configuration
from bayplan.core.versions import gates_of, with_gangs
from bayplan.testing import make_node, make_pod

AT_ONCE = Behaviour(attempt_seconds=0.0)


def test_pods_are_placed_when_they_arrive_and_end_when_they_should():
    happenings = [
        PodArrives(5.0, make_pod("job", cpu="1"), runs=60.0),
        PodArrives(7.0, make_pod("web", cpu="1")),
        PodEnds(100.0, "default-web"),
    ]
    _, diary = timeline_of(happenings, nodes=["a"], behaviour=AT_ONCE)
    assert diary.lines == ["5.000 bound job a", "7.000 bound web a", "65.000 gone job a", "100.000 gone web a"]


def test_a_full_cluster_lets_a_pod_wait_for_the_end_of_another():
    happenings = [PodArrives(0.5, make_pod("first", cpu="3"), runs=120.0), PodArrives(1.0, make_pod("second", cpu="3"))]
    timeline, diary = timeline_of(happenings, nodes=["a"], behaviour=AT_ONCE)
    assert diary.lines == ["0.500 bound first a", "120.500 gone first a", "120.500 bound second a"]
    assert timeline.attempts == 3


class Held(Plugin):
    name = "Held"

    def permit(self, cycle, pod, node_name):
        return Wait(600.0)


def test_a_pod_that_waits_in_permit_has_a_node_and_needs_no_other():
    """It is none of those for which an autoscaler adds nodes."""
    happenings = [PodArrives(1.0, make_pod("held", cpu="1")), PodArrives(1.0, make_pod("large", cpu="9"))]
    timeline, _ = timeline_of(happenings, nodes=["a"], until=60.0, plugins=[Held], behaviour=AT_ONCE)
    assert [pod.name for pod in timeline.waiting()] == ["large"]
    assert timeline.any_waiting


def test_a_new_node_helps_only_pods_that_its_hints_name():
    happenings = [
        PodArrives(1.0, make_pod("small", cpu="3", node_selector={"disk": "ssd"})),
        PodArrives(1.0, make_pod("large", cpu="9")),
        NodeComes(50.0, make_node("b", labels={"disk": "ssd"})),
    ]
    timeline, diary = timeline_of(happenings, nodes=["a"], until=200.0, behaviour=AT_ONCE)
    assert diary.lines == ["50.000 bound small b"]
    assert timeline.attempts == 3


def test_what_no_event_helps_is_attempted_every_five_minutes():
    timeline, _ = timeline_of([PodArrives(0.0, make_pod("large", cpu="9"))], nodes=["a"], until=1000.0)
    assert timeline.attempts == 4  # at 0, 300, 600 and 900 seconds


def test_a_failed_pod_waits_for_its_backoff():
    """Each end of a pod helps the other ones in turn, and nobody fits: the backoff grows from 1 to 10 seconds."""
    fillers = [PodArrives(0.0, make_pod(f"f{n}", cpu="500m"), runs=20.0 + n) for n in range(8)]
    timeline, diary = timeline_of(
        [*fillers, PodArrives(1.0, make_pod("large", cpu="3500m"))], nodes=["a"], behaviour=AT_ONCE
    )
    assert diary.of("bound")[-1] == "26.000 bound large a"
    assert timeline.attempts < 8 + 1 + 7 + 1


def test_victims_terminate_before_the_preemptor_gets_their_room():
    happenings = [
        PodArrives(0.0, make_pod("low", cpu="3", owner=OWNED)),
        PodArrives(10.0, make_pod("high", cpu="3", priority=10)),
        NodeComes(60.0, make_node("b")),
    ]
    behaviour = Behaviour(attempt_seconds=0.0, termination=Termination(seconds=8.0))
    timeline, diary = timeline_of(happenings, nodes=["a"], behaviour=behaviour)
    assert diary.lines == [
        "0.000 bound low a",
        "10.000 preempted low a",
        "18.000 gone low a",
        "18.000 bound high a",
        "60.000 bound low+1 b",
    ]
    assert timeline.world.pod("default/low+1").labels == {}


def test_the_owner_of_an_evicted_pod_deletes_its_replacement():
    happenings = [
        PodArrives(0.0, make_pod("low", cpu="3", owner=OWNED)),
        PodArrives(10.0, make_pod("high", cpu="3", priority=10)),
        PodEnds(30.0, "default-low"),
        NodeComes(60.0, make_node("b")),
    ]
    timeline, _ = timeline_of(happenings, nodes=["a"])
    assert pods_on(timeline) == {"high": "a"}
    assert [life.key for life in timeline.lives.values()] == ["default/high"]


def test_a_removed_node_takes_its_pods_with_it_and_controllers_replace_them():
    happenings = [
        PodArrives(0.0, make_pod("web", cpu="3", owner=OWNED)),
        PodArrives(1.0, make_pod("bare", cpu="500m")),
        NodeGoes(10.0, "a"),
        NodeComes(20.0, make_node("b")),
    ]
    timeline, diary = timeline_of(happenings, nodes=["a", make_node("tiny", cpu="100m")], behaviour=AT_ONCE)
    assert pods_on(timeline) == {"web+1": "b"}
    assert diary.of("bound") == ["0.000 bound web a", "1.000 bound bare a", "20.000 bound web+1 b"]
    assert diary.of(DepartureReason.NODE_LOST.value.split()[0]) == ["10.000 node lost web a", "10.000 node lost bare a"]


def test_attempts_take_time_so_that_a_burst_of_pods_waits():
    burst = [PodArrives(1.0, make_pod(f"p{n:02}", cpu="10m")) for n in range(50)]
    _, diary = timeline_of(burst, nodes=["a"], behaviour=Behaviour(attempt_seconds=0.1))
    assert diary.lines[0].startswith("1.000 ")
    assert diary.lines[-1].startswith("5.900 ")


def test_a_name_that_is_used_again_ends_the_former_pod():
    second = make_pod("web-0", cpu="2")
    second.uid = "another"
    timeline, diary = timeline_of(
        [PodArrives(0.0, make_pod("web-0", cpu="3")), PodArrives(9.0, second), PodEnds(20.0, "default-web-0")],
        nodes=["a"],
    )
    assert diary.of("gone") == ["9.000 gone web-0 a"]
    assert list(timeline.lives) == ["another"]


def crew(number, **spec):
    return make_pod(f"crew-{number}", cpu="3", spec={"schedulingGroup": {"podGroupName": "crew"}, **spec})


BOUND_AT = {"1.36": "20.000", "1.37": "22.000"}
"""A node comes at 20 seconds. As 1.37, a gang is attempted at 3, 5, 8, 13 and 22 seconds."""


@pytest.mark.parametrize("version", BOUND_AT)
def test_a_gang_waits_until_all_of_it_fits(version):
    kind = kind_of(POD_GROUPS)
    group = {
        "metadata": {"name": "crew", "namespace": "default", "uid": "crew"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    happenings = [
        ObjectChanges(0.0, kind, "default/crew", decode(kind.type, json.dumps(group).encode())),
        *(PodArrives(1.0 + n, crew(n)) for n in range(3)),
        *(NodeComes(10.0 * n, make_node(f"n{n}")) for n in range(1, 4)),
    ]
    world = World(gates=with_gangs(gates_of(version)))
    _, diary = timeline_of(happenings, nodes=["n0"], world=world, behaviour=AT_ONCE)
    assert [line.split()[:3] for line in diary.lines] == [[BOUND_AT[version], "bound", f"crew-{n}"] for n in range(3)]


def test_every_profile_schedules_its_pods(tmp_path):
    (tmp_path / "two.yaml").write_text(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}
"""
    )
    happenings = [
        PodArrives(0.0, make_pod("here", cpu="2", node="a")),
        PodArrives(1.0, make_pod("usual", cpu="500m")),
        PodArrives(2.0, make_pod("packed", cpu="500m", scheduler_name="packing")),
        PodArrives(3.0, make_pod("other", cpu="500m", scheduler_name="elsewhere")),
    ]
    configuration = read_configuration(tmp_path / "two.yaml", ()).configuration
    timeline, _ = timeline_of(happenings, nodes=["a", "b"], configuration=configuration)
    assert pods_on(timeline) == {"here": "a", "usual": "b", "packed": "a", "other": ""}


def test_a_claim_gets_a_volume_where_its_pod_is_placed():
    storage_class = {
        "metadata": {"name": "new", "uid": "new"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "metadata": {"name": "data", "namespace": "default", "uid": "data"},
        "spec": {
            "storageClassName": "new",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    happenings = [
        ObjectChanges(0.0, STORAGE_CLASS, "new", convert(STORAGE_CLASS.type, storage_class)),
        PodArrives(1.0, make_pod("db", cpu="1", spec={"volumes": [volume]})),
        ObjectChanges(9.0, PERSISTENT_VOLUME_CLAIM, "default/data", convert(PERSISTENT_VOLUME_CLAIM.type, claim)),
    ]
    timeline, diary = timeline_of(happenings, nodes=["a"], behaviour=AT_ONCE)
    assert diary.lines == ["9.000 bound db a"]
    assert timeline.world.state.objects[PERSISTENT_VOLUME_CLAIM]["default/data"].status.phase == "Bound"


SAME = """
import random, sys
sys.path.insert(0, {tests!r})
import pytest
from tests.simulation.timelines import OWNED, timeline_of
from bayplan.answers.simulation.happenings import NodeComes, NodeGoes, PodArrives
from bayplan.answers.simulation.world import World
from bayplan.testing import make_node, make_pod
from bayplan.core.versions import gates_of, with_gangs
rng = random.Random(1)
happenings = [
    PodArrives(
        float(n), make_pod(f"p{{n}}", cpu=f"{{rng.randint(1, 30)}}00m", priority=rng.choice([0, 0, 5]), owner=OWNED),
        runs=rng.choice([None, 90.0, 300.0]),
    )
    for n in range(100)
]
happenings += [NodeGoes(100.0, "n3"), NodeComes(200.0, make_node("n9"))]
happenings.sort(key=lambda each: each.at)
print("\\n".join(timeline_of(happenings, nodes=[f"n{{n}}" for n in range(5)], seed=3, until=250.0)[1].lines))
"""


def test_the_same_seed_gives_the_same_bytes_in_every_process():
    def run(hash_seed: str) -> bytes:
        code = SAME.format(tests=str(Path(__file__).parents[2]))
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True
        )
        return done.stdout

    first = run("1")
    assert first.count(b"preempted") > 3
    assert first == run("2")
    # On every machine, and in every version of Python: CI runs this with the oldest and the newest one.
    assert sha256(first).hexdigest() == "35eeec615362bd0d7b80bbd48f903df1906d211e6a3bc491d0298bd49f32ec6b"


def test_memory_does_not_grow_with_the_length():
    happenings = (PodArrives(float(n), make_pod(f"p{n}", cpu="1"), runs=2.0) for n in range(2000))
    timeline, diary = timeline_of(happenings, nodes=["a"], until=3000.0)
    assert len(diary.of("bound")) == 2000
    assert not timeline.lives
    assert not timeline._latest
    assert not timeline.world._undo
    assert not timeline.world._happened
    assert not timeline.world.state.objects[POD]
    assert len(timeline._queue) == 0
