"""The manifest of a recording has a checksum: a changed one is named, and one of another version, too."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bayplan.faces.cli import main
from bayplan.running.recording.entries import Popped, RecordedPlugin, Setting
from bayplan.running.recording.files import Recording, RecordingError, note_left_out, prepare_recording
from bayplan.running.recording.frames import FrameEncoder
from bayplan.running.recording.places import MANIFEST, segment_file

BEGAN = datetime(2026, 3, 2, 3, tzinfo=UTC)
FORMER = Path(__file__).parents[1] / "data" / "recordings" / "version-1.tar"
ZEROS = "0" * 64
SETTING = Recording.open(FORMER).manifest.setting


@pytest.fixture
def run(tmp_path):
    """The folder of a run whose manifest has what looks like an empty checksum elsewhere, too."""
    plugins = (RecordedPlugin(f'"checksum": "{ZEROS}"', ("only",), ZEROS),)
    folder = tmp_path / "run"
    frames = FrameEncoder(prepare_recording(folder, Setting(kubernetes="1.36", plugins=plugins), BEGAN, 100.0))
    segment_file(folder, 1).write_bytes(frames.encode([Popped([], 101.0, "")]))
    return folder


def problem_of(folder):
    try:
        list(Recording.open(folder).entries())
    except RecordingError as error:
        return str(error)
    return ""


def test_every_changed_byte_is_named(run):
    path = run / MANIFEST
    whole = path.read_bytes()
    assert problem_of(run) == ""
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1 << position * 3 % 8
        path.write_bytes(changed)
        problem = problem_of(run)
        assert problem, (position, bytes(changed[max(position - 20, 0) : position + 20]))
        assert "\n" not in problem


@pytest.mark.parametrize(
    ("change", "problem"),
    {
        "another seed": (lambda text: text.replace('"seed": 0', '"seed": 1'), "was changed or damaged"),
        "no checksum": (lambda text: text.replace('"checksum"', '"nothing"'), "was changed or damaged"),
        "former version": (lambda text: text.replace('"version": 2', '"version": 1'), "was changed or damaged"),
        "newer version": (
            lambda text: text.replace('"version": 2', '"version": 3'),
            f"has version 3 of the format, and this Bayplan, {version('bayplan')}, reads up to 2: use a newer one",
        ),
        "cut": (lambda text: text[: len(text) // 2], "recording.json is damaged"),
        "empty": (lambda _: "", "recording.json is damaged"),
        "another format": (lambda text: text.replace("bayplan-recording", "x"), "is no recording of decisions"),
    }.values(),
)
def test_changes_are_named(run, change, problem):
    path = run / MANIFEST
    path.write_text(change(path.read_text()))
    assert problem in problem_of(run)
    for command in (
        ["replay", run],
        ["why", "p", "--recording", run],
        ["usage", "--from", run],
        ["history", "show", run],
    ):
        done = CliRunner().invoke(main, [str(each) for each in command])
        assert (done.exit_code, problem in done.output) == (2, True), (command, done.output)


def test_former_version_has_no_checksum_and_is_read():
    recording = Recording.open(FORMER)
    assert (recording.manifest.version, recording.manifest.checksum) == (1, "")
    assert len(list(recording.entries())) > 13


def test_what_is_left_out_is_noted_with_a_new_checksum(run):
    note_left_out(run, ["names of ports"])
    assert Recording.open(run).manifest.left_out == ["names of ports"]
    assert msgspec.json.decode((run / MANIFEST).read_bytes())["checksum"] != ZEROS


def test_a_copy_of_a_run_is_named(run, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in run.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    with pytest.raises(RecordingError, match="are copies of one run: delete one of them"):
        Recording.runs(tmp_path)


@pytest.mark.parametrize("frames", [None, b""], ids=["no segment", "empty segment"])
def test_an_empty_run_is_named(tmp_path, frames):
    run = tmp_path / "run"
    prepare_recording(run, SETTING, BEGAN, 100.0)
    if frames is not None:
        segment_file(run, 1).write_bytes(frames)
    commands = (
        "replay {}",
        "replay {} --list",
        "why p --recording {}",
        "usage --from {}",
        "history show {}",
        "explain --from {}",
    )
    for command in commands:
        done = CliRunner().invoke(main, command.format(run).split())
        assert done.exit_code == 2, done.output
        assert done.output.count(f"{run} is empty: its segments") == 1, (command, done.output)
        assert done.output.count("\n") == 1, (command, done.output)


def test_a_run_without_decisions_has_no_equal_ones(tmp_path):
    frames = FrameEncoder(prepare_recording(tmp_path / "run", SETTING, BEGAN, 100.0))
    segment_file(tmp_path / "run", 1).write_bytes(frames.encode([Popped([], 101.0, "")]))
    done = CliRunner().invoke(main, ["replay", str(tmp_path / "run")])
    assert done.output.startswith("no decision was made from 2026-03-02 03:00:00 to 03:00:01 UTC")
    assert "the same" not in done.output
