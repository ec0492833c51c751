"""A recording of a scheduler that answers provisioning requests: its decisions are made again."""

import asyncio
import random

import msgspec
import pytest
from answering import answering
from click.testing import CliRunner
from test_claims import CLAIMS, add_class, add_devices

from bayplan.answers.replay.moments import decisions_of, snapshot_at_end
from bayplan.answers.replay.redaction import RecordingRedactor
from bayplan.answers.replay.replay import Replay
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS
from bayplan.core.config import default_profile
from bayplan.faces.cli import main
from bayplan.running.provisioning.options import CHECK_CAPACITY
from bayplan.running.recording.entries import Checkpoint, RequestDue, RequestsOpened, Setting
from bayplan.running.recording.files import Recording
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.recording.writing import Keep

OFTEN = Keep(segment_seconds=20, patience_seconds=1e9)
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SETTING = Setting(CONFIGURATION, "1.36", seed=0, answers=(CHECK_CAPACITY,))


def build(handle):
    return {"default-scheduler": default_profile("default-scheduler", handle, ())}


async def _live(here):
    """Requests are answered, taken, given back, preempted, revoked, and expire."""
    await here.story.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await add_class(here)
    for name in ("a", "b"):
        await here.story.add_node(name, cpu="4")
    await add_devices(here, "b", "gpu-0", "gpu-1")
    await here.story.attempt("other", cpu="3")
    await here.ask("early", cpu="2", count=9)
    await here.ask("train", cpu="2", count=2)
    await here.ask("devices", count=2, **CLAIMS)
    await here.add_template("late", "1")
    await here.add("short", ("late", 1), bookingSeconds="45")
    await here.add("missing", ("absent", 1))
    await here.settle()
    await here.story.delete("other")
    await here.settle()
    await here.take("train", "one", "two", cpu="2")
    await here.take("devices", "elsewhere", nodeSelector={"zone": "elsewhere"})
    await here.story.attempt("small", cpu="500m")
    await here.settle(60)
    await here.story.delete("elsewhere")
    await here.settle()
    await here.story.attempt("urgent", cpu="3", priorityClassName="high")
    await here.ask("node", cpu="1", count=1)
    await here.client.delete(NODE, "b")
    await here.settle(700)


@pytest.fixture
async def recording(tmp_path):
    return await _recorded(tmp_path / "run")


async def _recorded(folder, redaction=None):
    recorder = DecisionRecorder(folder, SETTING, asyncio.get_running_loop(), OFTEN, redaction)
    async with answering(recorder=recorder) as here:
        await _live(here)
    recorder.close()
    return Recording.open(folder)


async def test_every_decision_about_requests_is_made_again_from_each_segment(recording):
    entries = list(recording.entries())
    assert sum(isinstance(each, RequestsOpened) for each in entries) == 1
    assert any(isinstance(each, RequestDue) for each in entries)
    held = [each for each in entries if isinstance(each, Checkpoint) and each.requests]
    assert len(held) > 5
    placed = [pod for each in decisions_of(recording) for pod in each.pods if pod.node]
    assert any("~" in pod.key for pod in placed)
    assert any("~" not in pod.key for pod in placed)
    for segment in range(recording.segments):
        replayed = Replay(recording, build).run(segment=segment)
        assert (replayed.problem, replayed.difference, replayed.complete) == ("", None, True), segment


async def test_the_snapshot_of_a_moment_has_the_pods_that_there_are(recording):
    snapshot = snapshot_at_end(Replay(recording, build))
    assert "default/urgent" in snapshot.documents[POD]
    assert not any("~" in key for key in snapshot.documents[POD])  # all requests have ended


async def test_a_damaged_checkpoint_is_one_line(recording, monkeypatch):
    whole, rng = recording.entries, random.Random(0)

    def damaged(segment=0):
        for each in whole(segment):
            if isinstance(each, Checkpoint):
                raw = bytearray(each.requests)
                for _ in range(rng.randint(1, 4)):
                    raw[rng.randrange(len(raw))] = rng.randrange(256)
                each.requests = bytes(raw)
            yield each

    monkeypatch.setattr(type(recording), "entries", lambda _self, segment=0: damaged(segment))
    problems = [Replay(recording, build).run(segment=rng.randrange(2, recording.segments)).problem for _ in range(40)]
    assert any("provisioning requests can't be read" in each for each in problems)
    assert not any("\n" in each for each in problems)


async def test_the_command_says_how_a_request_was_decided(recording):
    source = str(recording.source)
    shown = CliRunner().invoke(main, ["why", "early~0-2", "--recording", source])
    assert "0/2 nodes are available: 2 Insufficient cpu." in shown.output
    assert (
        "a place of provisioningrequest default/early: room was found for 2 of its pods, not for all\n" in shown.output
    )
    assert shown.exit_code == 0
    shown = CliRunner().invoke(main, ["why", "train~0-0", "--recording", source])
    assert shown.output.endswith("provisioningrequest default/train: all of its pods had room\n")
    shown = CliRunner().invoke(main, ["replay", source])
    assert (shown.exit_code, "all are the same" in shown.output) == (0, True), shown.output


async def test_a_redacted_recording_names_nothing_and_is_replayed(tmp_path):
    recording = await _recorded(tmp_path / "run", RecordingRedactor(b"k" * 32))
    entries = list(recording.entries())
    written = b"".join(map(msgspec.msgpack.encode, entries))
    for name in (b"train", b"early", b"missing", b"absent", b"urgent", CHECK_CAPACITY.encode()):
        assert name not in written, name
    assert any(isinstance(each, RequestDue) for each in entries)
    assert sum(bool(each.requests) for each in entries if isinstance(each, Checkpoint)) > 5
    assert any("~" in pod.key for each in decisions_of(recording) for pod in each.pods if pod.node)
    assert not [line for line in recording.manifest.left_out if "request" in line or "template" in line]
    for segment in range(recording.segments):
        replayed = Replay(recording, build).run(segment=segment)
        assert (replayed.problem, replayed.difference, replayed.complete) == ("", None, True), segment
