"""Loads in a running scheduler: decisions follow them, recordings have them, and replays and snapshots see the same."""

import asyncio

import pytest
from tests.support.stories import NAME, in_virtual_time, scheduling

from bayplan.answers.replay.replay import Replay
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profiles, parse_configuration
from bayplan.insight import Insight, Snapshot
from bayplan.running.recording.entries import Changed, Setting
from bayplan.running.recording.files import Recording
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.recording.writing import Keep
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.sources import LoadReport, LoadSource, NodeLoad, SourceError

CONFIGURATION = parse_configuration(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": NAME,
                "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 100}]}},
                "pluginConfig": [{"name": "TargetLoadPacking", "args": {"watcherAddress": "http://watcher"}}],
            }
        ],
    }
)


def build(handle):
    return build_profiles(CONFIGURATION, handle)


async def run(folder):
    """The load moves from one node to the other, and is unknown in the end. Pods follow it."""
    recorder = DecisionRecorder(folder, Setting(seed=0), asyncio.get_running_loop(), Keep(segment_seconds=60))
    async with scheduling(recorder=recorder, build=build) as here:
        for name in ("a", "b"):
            await here.add_node(name, "40", **{"kubernetes.io/hostname": name})
        for number in range(20):
            await here.attempt(f"p{number:02}", cpu="100m")
    recorder.close()
    return here.nodes()


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording, and where its pods went."""

    async def report(source):
        seconds = asyncio.get_running_loop().time()
        busy = "a" if seconds < 200 else "b"
        if seconds > 400:
            raise SourceError("it is gone")
        now = int(source._handle.now().timestamp())
        return LoadReport(now, {name: NodeLoad(30.0 if name == busy else 5.0) for name in ("a", "b")})

    monkeypatch.setattr(LoadSource, "report", report)
    nodes = in_virtual_time(run(tmp_path / "run"))
    monkeypatch.undo()
    return Recording.open(tmp_path / "run"), nodes


def test_pods_follow_the_load_and_a_replay_sees_the_same(recorded):
    recording, nodes = recorded
    assert [nodes[f"p{number:02}"] for number in range(13)] == ["a"] * 7 + ["b"] * 6
    kinds = [entry.kind for entry in recording.entries() if isinstance(entry, Changed)]
    assert kinds.count("loadreports.v1alpha1.bayplan.dev") > 10
    assert recording.segments > 3
    for segment in range(recording.segments):
        replayed = Replay(recording, build).run(segment=segment)
        assert (replayed.problem, replayed.difference) == ("", None), segment


def document(api_version, kind, name, **fields):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name}, **fields}


def cluster_with(*reports):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [document("v1", "Node", name, status={"allocatable": room, "capacity": room}) for name in "abc"]
    pod = document("v1", "Pod", "new", spec={"containers": [{"name": "c", "image": "i"}]})
    return Insight(Snapshot.of([*nodes, pod, *reports]), configuration=CONFIGURATION)


def test_a_snapshot_with_a_report_answers_questions_with_it():
    source = LoadSource(TrimaranArgs(watcherAddress="http://watcher"), OfflineHandle(ClusterState()))
    loads = {"end": 1_790_000_000, "nodes": {"a": [5.0], "b": [15.0], "c": [90.0]}}
    answer = cluster_with(document("bayplan.dev/v1alpha1", "LoadReport", source.key, **loads)).explain("default/new")
    assert answer.node == "b"
    assert answer.scores is not None
    found = {each.node: each.plugins["TargetLoadPacking"] for each in answer.scores.nodes}
    assert found == {"b": 10_000, "a": 8_500, "c": 0}


def test_a_snapshot_without_loads_has_no_opinion():
    assert cluster_with().explain("default/new").node in {"a", "b", "c"}
