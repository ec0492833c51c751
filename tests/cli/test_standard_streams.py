"""No command shows a traceback if its output can't be written, or after Ctrl-C; and its status is no answer then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.faces.cli import main
from bayplan.insight import Insight

FULL = Path("/dev/full")
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""
COMMANDS = {
    "help": ["--help"],
    "help of a command": ["when", "--help"],
    "text": ["manifests", "--insight"],
    "an answer": ["usage", "--from", "cluster.yaml"],
    "an answer in JSON": ["usage", "--from", "cluster.yaml", "-o", "json"],
    "a script": ["completion", "bash"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)


def run(arguments, shell):
    """Run a command behind what a shell does with its streams."""
    program = [sys.executable, "-m", "bayplan", *arguments]
    return subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *program], capture_output=True, text=True, check=False, env={**os.environ}
    )


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_full_disk_is_one_line(folder, arguments):
    done = run(arguments, f"> {FULL}")
    assert (done.returncode, done.stderr) == (2, "bayplan: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_change_nothing_else(folder, arguments, closed):
    done = run(arguments, closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is (">&-" not in closed.replace("2>&-", ""))


def test_what_cannot_be_encoded_is_escaped(folder, tmp_path):
    (tmp_path / "models.json").write_text('{"half \\ud800 a character": 1}')
    half = run(["when", "--all-pending", "--from", "cluster.yaml", "--durations", "models.json"], "")
    ascii_only = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-m", "bayplan", "explain", "--help"],
        capture_output=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    )

    assert (half.returncode, half.stderr) == (0, "")
    assert "note: durations: half \\ud800 a character: " in half.stdout
    assert (ascii_only.returncode, ascii_only.stderr) == (0, b"")


def test_errors_of_other_files_are_not_called_errors_of_the_output(folder, monkeypatch):
    def fails(*_, **__):
        raise OSError(28, "No space left on device", "elsewhere")

    monkeypatch.setattr(Insight, "usage", fails)
    assert isinstance(CliRunner().invoke(main, COMMANDS["an answer"]).exception, OSError)


@pytest.mark.parametrize("arguments", [["manifests", "--insight"], ["completion", "bash"], ["perf", "misc"]])
def test_ctrl_c_of_a_command_that_has_no_answer_exits_with_130(monkeypatch, arguments):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("click.Command.invoke", pressed)
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")
