"""The files of recordings: what is written is read again, old versions too, and no more is kept than asked."""

import re
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bayplan.answers.replay.policies import recorded_policy
from bayplan.faces.cli import main
from bayplan.insight import Snapshot
from bayplan.running.recording import entries, writing
from bayplan.running.recording.checkpoints import DeferredCheckpoint
from bayplan.running.recording.entries import Checkpoint, Setting, decode_entries, encode_entries
from bayplan.running.recording.files import Recording, RecordingError, next_run, pack_recording, prepare_recording
from bayplan.running.recording.frames import FrameEncoder
from bayplan.running.recording.places import segment_file
from bayplan.running.recording.writing import FrameWriter, Keep

BEGAN = datetime(2026, 3, 2, 3, tzinfo=UTC)
VERSIONS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("version-*.tar"))
RUN = "0123456789abcdef"
NO_RANDOM = (3, (0,) * 625, None)


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.stem)
def test_recordings_of_each_version_can_be_replayed(path):
    recording = Recording.open(path)
    assert recording.manifest.version == int(path.stem.removeprefix("version-"))
    replayed = recorded_policy(recording).replay(recording).run()
    assert replayed.difference is None
    assert replayed.complete
    assert (replayed.decisions, replayed.nodes, replayed.pods) == (13, 2, 6)


def stepped(*words):
    done = CliRunner().invoke(
        main, ["replay", str(VERSIONS[0]), "--step"], input="".join(f"{each}\n" for each in words)
    )
    assert done.exit_code == 0, done.output
    shown = [int(each) for each in re.findall(r"decision (\d+) at", done.output)]
    return shown, done.output


def test_steps_go_forwards_and_backwards(tmp_path):
    shown, output = stepped("", "n", "p", "p", "12", "what", "", "")
    assert shown == [1, 2, 3, 2, 1, 12, 13]
    assert "the end, after 13 decisions" in output
    assert output.count("Enter: next") == 2
    saved = tmp_path / "before.bayplan"
    shown, output = stepped("5", f"s {saved}", "s /nowhere/x", "q")
    assert shown == [1, 5]
    assert f"--from {saved}" in output
    assert "/nowhere" in output
    assert Snapshot.open(saved).source.endswith(":" + output.split("decision 5 at ")[1][17:19])


numbers = st.floats(allow_nan=False, allow_infinity=False)
times = st.lists(numbers, max_size=3)
texts = st.text(max_size=8)
status = st.tuples(st.integers(0, 6), st.lists(texts, max_size=2).map(tuple), texts)
any_entry = st.one_of(
    st.builds(entries.Changed, times, texts, texts, st.none() | st.binary(max_size=20)),
    st.builds(entries.Popped, times, numbers, texts, st.booleans()),
    st.builds(entries.GaveWay, times),
    st.builds(entries.Began, times, st.integers(0, 1 << 40)),
    st.builds(entries.Permitted, times, st.integers(0, 9), status),
    st.builds(entries.Replied, times, st.integers(0, 9), st.none() | st.binary(max_size=9)),
    st.builds(entries.Bound, times, st.integers(0, 9), status),
    st.builds(
        entries.Evicted, times, st.integers(0, 9), st.booleans(), st.integers(0, 9), texts, st.lists(texts).map(tuple)
    ),
    st.builds(entries.Activated, times, st.lists(texts).map(tuple)),
    st.builds(entries.Answered, times, st.none() | st.lists(texts).map(tuple), st.dictionaries(texts, status)),
    st.builds(entries.RecordingEnded, times),
)


@given(st.lists(any_entry, max_size=20))
def test_entries_are_read_as_they_were_written(written):
    assert decode_entries(encode_entries(written)) == written


def recording_of(folder, *segments):
    """A recording of segments, each a list of frames, each a list of entries."""
    frames = FrameEncoder(prepare_recording(folder, Setting(kubernetes="1.36"), BEGAN, 100.0))
    for number, each in enumerate(segments, start=1):
        segment_file(folder, number).write_bytes(b"".join(map(frames.encode, each)))
    return Recording.open(folder)


def test_times_are_those_of_the_scheduler(tmp_path):
    assert recording_of(tmp_path / "run", []).date_of(160.5) == datetime(2026, 3, 2, 3, 1, 0, 500000, tzinfo=UTC)


def test_runs_are_numbered_and_packed_together(tmp_path):
    folder = tmp_path / "night"
    for _ in range(3):
        recording_of(next_run(folder), [])
    assert [Path(run.source).name for run in Recording.runs(folder)] == ["run-000001", "run-000002", "run-000003"]
    pack_recording(folder, tmp_path / "night.tar")
    assert len(Recording.runs(tmp_path / "night.tar")) == 3
    with tarfile.open(tmp_path / "night.tar") as archive:
        assert {member.uname for member in archive} == {""}
    with pytest.raises(RecordingError, match="is inside of"):
        pack_recording(folder, folder / "night.tar")
    with pytest.raises(RecordingError, match="3 runs: name one"):
        Recording.open(folder)


def a_checkpoint(number):
    made = Checkpoint([], float(number), number, 0, (), (), (), (), (), (), NO_RANDOM, 0)
    return DeferredCheckpoint([], lambda: made)


def written(folder, keep, batches, monkeypatch):
    """The numbers of the segments that are left after batches of entries were written."""
    monkeypatch.setattr(writing, "FLUSH_SECONDS", 0.001)
    left = list(batches)
    folder.mkdir()
    problems = []
    writer = FrameWriter(
        folder, RUN, keep, lambda: left.pop(0) if left else [], lambda: problems.append(writer.problem)
    )
    writer.start()
    while left and not problems:
        pass
    writer.close()
    assert problems == []
    return sorted(int(path.stem.removeprefix("decisions-")) for path in folder.glob("*.frames"))


def test_old_segments_are_deleted(tmp_path, monkeypatch):
    batches = [[entries.Popped([], 1.0, "")]]
    batches += [
        [entries.Popped([], 1.0, ""), a_checkpoint(number), entries.Popped([], 2.0, "")] for number in range(1, 6)
    ]
    assert written(tmp_path / "all", Keep(), batches, monkeypatch) == [1, 2, 3, 4, 5, 6]
    assert written(tmp_path / "bytes", Keep(bytes=1), batches, monkeypatch) == [6]
    assert written(tmp_path / "time", Keep(seconds=0.0), batches, monkeypatch) in ([5, 6], [6])


def test_two_checkpoints_at_once_begin_two_segments(tmp_path, monkeypatch):
    batch = [entries.Popped([], 0.0, ""), a_checkpoint(1), entries.Popped([], 1.0, ""), a_checkpoint(2)]
    assert written(tmp_path / "run", Keep(), [batch], monkeypatch) == [1, 2, 3]


def test_what_can_not_be_encoded_ends_the_recording_only(tmp_path):
    def fail():
        raise KeyError("odd")

    (tmp_path / "run").mkdir()
    problems = []
    batches = [[DeferredCheckpoint([], fail)]]
    writer = FrameWriter(
        tmp_path / "run",
        RUN,
        Keep(),
        lambda: batches.pop(0) if batches else [],
        lambda: problems.append(writer.problem),
    )
    writer.start()
    writer.close()
    assert problems == ["KeyError: 'odd'"]
