"""What former versions wrote is read, with the same answers; and docs/upgrading.md says which formats there are."""

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.answers.history import format as history_format
from bayplan.answers.shadow import record as shadow_file
from bayplan.answers.snapshots import archive
from bayplan.faces.cli import main
from bayplan.running.recording import files as recording_files

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SNAPSHOT = DATA / "versions" / "snapshot-0.1.0.bayplan"
HISTORY = DATA / "versions" / "history-0.1.0"
RECORDING = DATA / "recordings" / "version-1.tar"


def asked(*arguments):
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_snapshot_of_0_1_0_has_the_answer_that_0_1_0_gave():
    answer = asked("explain", "web-1", "--from", SNAPSHOT)
    assert "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)." in " ".join(
        answer.split()
    )
    assert re.search(r"^1 +NodeResourcesFit +Insufficient cpu: lacks 500m +node-a$", answer, re.MULTILINE)
    assert "let the pod request only 500m cpu -> node-a" in answer


def test_a_history_of_0_1_0_has_what_happened():
    pytest.importorskip("pyarrow")
    assert msgspec.json.decode((HISTORY / "history.json").read_bytes())["bayplan"] == "0.1.0"
    shown = asked("history", "show", HISTORY)
    assert "from 2026-03-02 08:00:01 to 2026-03-02 08:01:15 UTC" in shown
    assert "2 pods" in shown
    usage = asked("usage", "--from", HISTORY, "--at", "08:00:30")
    assert re.search(r"^default +2 +0 +1 \(25%\) +256Mi \(2%\)$", usage, re.MULTILINE)


def test_a_recording_of_0_1_0_is_replayed():
    manifest = recording_files.Recording.open(RECORDING).manifest
    assert (manifest.bayplan, manifest.version) == ("0.1.0", 1)
    assert "13 decisions" in (said := asked("replay", RECORDING))
    assert "all are the same" in said


@cases(
    "file, versions",
    {
        "snapshot": ("snapshot", {archive.VERSION}),
        "history": ("history", {history_format.VERSION}),
        "recording": ("recording", {1, recording_files.VERSION}),
        "what a shadow found": ("what a shadow found", shadow_file._READ),
    },
)
def test_the_page_lists_the_formats(file, versions):
    page = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {file} |"))
    assert {int(number) for number in line.split("|")[3].split(",")} == versions
