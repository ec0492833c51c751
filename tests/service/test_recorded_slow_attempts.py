"""A recording of attempts that give way can be replayed from each of its segments."""

import asyncio

import pytest
from test_slow_attempts import add_devices, claiming
from tests.support.slow_selectors import slow_selectors
from tests.support.stories import NAME, in_virtual_time, scheduling

from bayplan.answers.replay.replay import Replay
from bayplan.core.api.kinds import DEVICE_CLASS
from bayplan.core.config import default_profile
from bayplan.running.recording.entries import GaveWay, Setting
from bayplan.running.recording.files import Recording
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.recording.writing import Keep

pytestmark = pytest.mark.feature("attempts that take long give way")

OFTEN = Keep(segment_seconds=0.02, patience_seconds=1e9)
"""A segment begins whenever it can."""


async def run(folder):
    """Attempts of pods with claims take long, and pods of higher priority come in between."""
    loop = asyncio.get_running_loop()
    recorder = DecisionRecorder(folder, Setting(seed=0), loop, OFTEN)
    async with scheduling(recorder=recorder) as here:
        await here.add_node("node-0", "8", **{"kubernetes.io/hostname": "node-0"})
        await here.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}})
        await add_devices(here, 3)
        with slow_selectors(loop, 0.06):
            for number in range(3):
                await claiming(here, f"claiming-{number}", 0, least=number)
                for other in range(4):
                    await here.add(f"other-{number}-{other}", cpu="100m", priority=10)
                    await asyncio.sleep(0.05)
            await here.settle()
        assert len(here.nodes()) == 15
    recorder.close()


def test_no_segment_begins_between_two_turns_of_an_attempt(tmp_path):
    in_virtual_time(run(tmp_path / "run"))
    recording = Recording.open(tmp_path / "run")
    assert any(isinstance(entry, GaveWay) for entry in recording.entries())
    assert recording.segments > 2
    for segment in range(recording.segments):
        replayed = Replay(recording, build).run(segment=segment)
        assert (replayed.problem, replayed.difference) == ("", None), segment


def build(handle):
    return {NAME: default_profile(NAME, handle, ())}
