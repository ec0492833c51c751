"""The walks of ARCHITECTURE.md lead through the code: a pod, a question, a recorded week and a replayed decision."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.backtest.histories import pool_node, record
from tests.support.stories import in_virtual_time, scheduling

from bayplan.answers.replay import policies
from bayplan.answers.simulation.happenings import PodArrives
from bayplan.faces.cli import main
from bayplan.running.recording.files import Recording
from bayplan.testing import make_pod
from bayplan.testing.builders import make_node
from bayplan_plugins.coscheduling.plugin import Coscheduling

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "data" / "recordings" / "version-1.tar"
_STAGE = re.compile(r"^([\w.]+) +(bayplan(?:\.\w+)+)\b", re.MULTILINE)
CLUSTER = """\
kind: Node
apiVersion: v1
metadata: {name: small}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
kind: Pod
apiVersion: v1
metadata: {name: web, namespace: default, uid: uid-web}
spec:
  schedulerName: default-scheduler
  containers: [{name: main, image: web, resources: {requests: {cpu: "4"}}}]
"""


def drawn():
    """The stages of each walk: (name, module), in the order of the document; those of a pod and of a gang first."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("\n## Walks", 1)[1].split("\n## ", 1)[0]
    return [_STAGE.findall(block) for block in section.split("```")[1::2]]


POD, GANG, QUESTION, WEEK, DECISION = WALKS = drawn()


class Gangs(Coscheduling):
    """Coscheduling next to the default plugins."""

    name = "Gangs"


@pytest.fixture
def called(monkeypatch):
    """The drawn functions, by name and module, in the order of their calls."""
    calls = []
    for stage in dict.fromkeys(stage for walk in WALKS for stage in walk):
        name, path = stage
        module = importlib.import_module(path)
        *owners, attribute = name.split(".")
        owner = getattr(module, owners[0]) if owners else module
        original = getattr(owner, attribute)

        def wrapped(*args, _stage=stage, _original=original, **kwargs):
            calls.append(_stage)
            return _original(*args, **kwargs)

        if owners:
            bound = getattr(original, "__self__", None) is owner  # a class method
            monkeypatch.setattr(owner, attribute, staticmethod(wrapped) if bound else wrapped)
            continue
        for each in [each for key, each in sys.modules.items() if key.startswith("bayplan")]:
            if vars(each).get(attribute) is original:  # where it was imported to
                monkeypatch.setattr(each, attribute, wrapped)
    return calls


def missing(calls, walk):
    """The first drawn function that is not called after those before it; None if all are, in the drawn order."""
    rest = iter(calls)
    return next((stage for stage in walk if stage not in rest), None)


def names(calls):
    return [name for name, _ in calls]


async def schedule(called, pods, least):
    """Schedule pods on a cluster with one node, and return the calls since they were created."""
    async with scheduling(make_node("a"), plugins=[Gangs]) as here:
        called.clear()
        await here.add(*pods, least=least)
        await here.settle(1)
        assert set(here.nodes()) == set(pods)
        return list(called)


def run(called, *pods, least=None):
    return in_virtual_time(schedule(called, pods, least))


def command(*arguments):
    done = CliRunner().invoke(main, [*map(str, arguments)], prog_name="bayplan")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done.stdout


def test_a_pod_takes_its_walk(called):
    calls = run(called, "web")
    assert missing(calls, POD) is None
    once = {"attempt", "SchedulingCycle.run", "Executor.carry_out", "ClusterState.assume", "BindingCycles.start"}
    assert {name: names(calls).count(name) for name in once} == dict.fromkeys(once, 1)


def test_a_gang_takes_its_walk(called):
    calls = run(called, "one", "two", least=2)
    assert missing(calls, GANG) is None
    turn = names(calls)[names(calls).index("GangAttempt.run") :]
    carried = turn.index("Executor.carry_out")
    assert turn[:carried].count("SchedulingCycle.run") == turn[:carried].count("StateWhatIf.place") == 2
    assert turn[carried:].count("ClusterState.assume") == turn[carried:].count("BindingCycles.start") == 2


def test_effects_follow_the_decision(called):
    calls = names(run(called, "web"))
    before = calls[: calls.index("Executor.carry_out")]
    assert not {"ClusterState.assume", "run_reserve", "run_permit", "BindingCycles.start"} & set(before)


def test_a_question_takes_its_walk(called, tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    assert "pod default/web: pending" in command("explain", "web", "--from", tmp_path / "cluster.yaml")
    assert missing(called, QUESTION) is None


def test_a_recorded_week_takes_its_walk(called, tmp_path):
    pods = [PodArrives(60.0 + n, make_pod(f"web-{n}", cpu="1")) for n in range(3)]
    folder = record(tmp_path / "week", pods, seconds=3600.0, nodes=[pool_node("a"), pool_node("b")])
    called.clear()
    pack = "default-scheduler/NodeResourcesFit.scoringStrategy.type=MostAllocated"
    assert "would differ in the same situation" in command("compare", "--history", folder, "--set", pack)
    assert missing(called, WEEK) is None
    assert names(called).count("SeenPlacements.judge") == 3


def test_a_replayed_decision_takes_its_walk(called):
    recording = Recording.open(RECORDING)
    found = policies.recorded_policy(recording).replay(recording).run()
    assert (found.complete, found.difference) == (True, None)
    assert missing(called, DECISION) is None
    assert names(called).count("summary_of") == found.decisions


def test_the_document_has_all_walks():
    assert [len(walk) for walk in WALKS] == [16, 14, 11, 14, 12]
