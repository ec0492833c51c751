"""`bayplan why` about the pods of a tree of groups: the level, the group and the pod that were in the way are named."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.stories import in_virtual_time, scheduling
from tests.support.tables import cases

from bayplan.answers.moments.steps import StepKind
from bayplan.answers.replay.recorded_moments import RecordingMoments
from bayplan.faces.cli import main
from bayplan.running.recording.entries import Setting
from bayplan.running.recording.files import Recording
from bayplan.running.recording.recorder import DecisionRecorder

GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SETTING = Setting(CONFIGURATION, "1.37", dict.fromkeys(GATES, True), seed=0)


async def night(folder):
    """A tree waits for a second node, and is placed. Another one evicts a pod of a lower priority."""
    recorder = DecisionRecorder(folder, SETTING, asyncio.get_running_loop())
    async with scheduling(version="1.37", gates=GATES, recorder=recorder) as here:
        await here.add_node("a", rack="1")
        await here.add_composite("job", 2)
        await here.add_group("driver", 1, parent="job", pods=["d-0"])
        await here.add_group("workers", 2, parent="job", pods=["w-0", "w-1"])
        await here.settle()
        await here.add_node("b", cpu="1", rack="2")
        await here.settle()
        await here.add_composite("urgent", 1, "rack", priority=10)
        await here.add_group("fast", 1, parent="urgent", pods=["f-0"], priority=10)
        await here.settle()
    recorder.close()


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording") / "run"
    in_virtual_time(night(folder))
    return str(folder)


def why(recording, *arguments):
    shown = CliRunner().invoke(main, ["why", *arguments, "--recording", recording, "-o", "wide"])
    return " ".join(shown.output.split())


EARLY = "--at", "2026-01-01T00:00:20Z"
WAITS = (
    "gang job: 1 of 2 groups fit; the next one: gang workers: 1 of 2 members fit; the next one: "
    "0/1 nodes are available: 1 Insufficient cpu."
)
QUESTIONS = {
    "the pod that found no node": (
        ("w-1", *EARLY),
        ["pending", WAITS, "gang workers: 0 pods placed, 2 more needed, 2 pending", "Insufficient cpu: lacks 1"],
    ),
    "a pod that found one": (
        ("d-0", *EARLY),
        ["it fits on node a, but its gang was not placed", "pending", WAITS, "w-1 is the member that finds no node"],
    ),
    "the first pod of a tree that was placed": (
        ("d-0",),
        ["it is a pod of gang driver, in gang job; it was the first one", "2 nodes are feasible"],
    ),
    "the last pod, whose node was the only one left": (
        ("w-1",),
        ["it is a pod of gang workers, in gang job; before it, these found a node: default/d-0", "1 node is feasible"],
    ),
    "a pod of a tree that evicts another one": (
        ("f-0", "--at", "2026-01-01T00:01:01Z"),
        ["it fits on node b once the pods are gone that its gang evicts (default/w-1)", "in gang urgent"],
    ),
    "the same once it has its room": (
        ("f-0",),
        ["it was placed on node b", "to get there, it evicted pod default/w-1 from node b"],
    ),
    "the evicted pod": (
        ("w-1", "--evicted"),
        ["pod default/w-1 was evicted from node b to make room for pod default/f-0"],
    ),
}


@cases("arguments, told", QUESTIONS)
def test_why(recording, arguments, told):
    answer = why(recording, *arguments)
    assert [text for text in told if text not in answer] == [], answer


def test_a_pod_whose_gang_was_refused_was_not_placed(recording):
    """Neither among the placements of the pod, nor in the steps of the recording."""
    assert why(recording, "d-0", "--moved").count("was placed on node") == 1
    moments = RecordingMoments([Recording.open(Path(recording))])
    steps = [each for each in moments.steps if each.subject == "default/d-0"]
    *earlier, last = [each.what for each in steps]
    assert (set(earlier), last) == ({StepKind.NOT_PLACED}, StepKind.PLACED)
    moments.close()
