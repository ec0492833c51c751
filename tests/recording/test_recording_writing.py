"""What a recorder writes is private, and waits while the disk refuses it."""

import errno
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bayplan.running.recording import writing
from bayplan.running.recording.entries import Popped, Setting
from bayplan.running.recording.files import Recording, next_run, note_left_out, pack_recording, prepare_recording
from bayplan.running.recording.writing import FrameWriter, Keep

BEGAN = datetime(2026, 3, 2, 3, tzinfo=UTC)


class Disk:
    """A disk that refuses so many writes, after having taken a part of the first one."""

    def __init__(self, monkeypatch, refusals):
        self.refusals = refusals
        self.refused, self.has_room = threading.Event(), threading.Event()
        monkeypatch.setattr(writing, "open", self._open, raising=False)
        monkeypatch.setattr(writing, "FLUSH_SECONDS", 0.001)
        monkeypatch.setattr(writing, "RETRY_SECONDS", 0.001)
        self._part = True

    def _open(self, *arguments, **options):
        file = open(*arguments, **options)  # noqa: PTH123, SIM115 - what stands in for open has its arguments
        disk = self

        class Refusing:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            def write(self, data):
                if disk._part:
                    disk._part = False
                    return file.write(data[: len(data) // 2])
                if disk.refusals:
                    disk.refusals -= 1
                    disk.refused.set()
                    if not disk.refusals:
                        disk.has_room.set()
                    raise OSError(errno.ENOSPC, "No space left on device")
                return file.write(data)

        return Refusing()


def writer_of(folder, batches, problems):
    run = prepare_recording(folder, Setting(kubernetes="1.36"), BEGAN, 0.0)
    return FrameWriter(folder, run, Keep(), lambda: batches.pop(0) if batches else [], lambda: problems.append(1))


def popped(*times):
    return [Popped([], float(each), "") for each in times]


def read(folder):
    return [entry.at for entry in Recording.open(folder).entries()]


def test_frames_wait_while_the_disk_refuses_them(tmp_path, monkeypatch, caplog):
    disk, problems = Disk(monkeypatch, 3), []
    caplog.set_level("INFO", "bayplan.running.recording.writing")
    writer = writer_of(tmp_path / "run", [popped(1, 2), popped(3)], problems)
    writer.start()
    assert disk.has_room.wait(10)
    writer.close()
    assert (writer.problem, problems) == ("", [])
    assert read(tmp_path / "run") == [1.0, 2.0, 3.0]
    assert caplog.text.count("the recording waits, and scheduling goes on: cannot write") == 1
    assert "can be written again, and nothing of it is missing" in caplog.text


@pytest.mark.parametrize(("refusals", "kept"), [(1, True), (2, False)])
def test_the_last_frame_is_tried_once_more(tmp_path, monkeypatch, refusals, kept):
    Disk(monkeypatch, refusals)
    monkeypatch.setattr(writing, "FLUSH_SECONDS", 60.0)  # nothing is written before the end
    problems = []
    writer = writer_of(tmp_path / "run", [popped(1)], problems)
    writer.start()
    writer.close()
    assert ("No space left on device" in writer.problem) is not kept
    assert len(problems) == (not kept)
    if kept:
        assert read(tmp_path / "run") == [1.0]


def test_more_than_may_wait_ends_the_recording(tmp_path, monkeypatch):
    disk, problems = Disk(monkeypatch, 1 << 30), []
    monkeypatch.setattr(writing, "MOST_BYTES", 0)
    writer = writer_of(tmp_path / "run", [popped(1)], problems)
    writer.start()
    assert disk.refused.wait(10)
    writer.close()
    assert "decisions-000001.frames: No space left on device" in writer.problem


def modes(folder):
    return {str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777) for path in sorted(folder.rglob("*"))}


def test_recordings_and_packs_are_private(tmp_path):
    run = next_run(tmp_path / "night")
    writer = writer_of(run, [popped(1)], [])
    writer.start()
    writer.close()
    note_left_out(run, ["texts"])
    packed = tmp_path / "night.tar"
    packed.write_bytes(b"")
    packed.chmod(0o644)
    pack_recording(tmp_path / "night", packed)
    assert modes(tmp_path / "night") == {
        "run-000001": "0o700",
        "run-000001/decisions-000001.frames": "0o600",
        "run-000001/recording.json": "0o600",
    }
    assert oct(packed.stat().st_mode & 0o777) == "0o600"


def test_a_pack_has_the_recording_and_nothing_else(tmp_path):
    run = next_run(tmp_path / "night")
    writer = writer_of(run, [popped(1)], [])
    writer.start()
    writer.close()
    (tmp_path / "night" / "notes.txt").write_text("private")
    (tmp_path / "night" / "other.frames").symlink_to(Path(__file__))
    pack_recording(tmp_path / "night", tmp_path / "night.tar")
    (packed,) = Recording.runs(tmp_path / "night.tar")
    assert [entry.at for entry in packed.entries()] == [1.0]
    assert b"private" not in (tmp_path / "night.tar").read_bytes()
