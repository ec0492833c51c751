import os
import subprocess
import sys
from shutil import which

import pytest
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.faces.cli import commands


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell):
    done = bayplan("completion", shell)
    assert f"_BAYPLAN_COMPLETE={shell}_complete" in done.output


def test_an_unknown_shell_is_rejected():
    done = bayplan("completion", "tcsh", status=2)
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["explan", "web"], "No such command 'explan'. Did you mean 'explain'?"),
        (["Run"], "No such command 'Run'. Did you mean 'run'?"),
        (["xyz"], "No such command 'xyz'."),
        (["explain", "--al-pending"], "No such option '--al-pending'. Did you mean '--all-pending'?"),
        (["run", "--scheduler-nam", "x"], "No such option '--scheduler-nam'. Did you mean '--scheduler-name'?"),
    ],
)
def test_a_misspelled_word_has_a_suggestion(arguments, problem):
    done = bayplan(*arguments, status=2)
    assert done.output.splitlines()[-1].startswith(f"Error: {problem}")


@cases(
    "words, expected",
    {
        "commands": ("bayplan ", {f"plain,{name}" for name in commands()}),
        "beginnings": ("bayplan co", {"plain,compare", "plain,conformance", "plain,completion"}),
        "options": ("bayplan --v", {"plain,--version"}),
        "options of a command": ("bayplan demo --k", {"plain,--keep"}),
    },
)
def test_words_are_completed(words, expected):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_BAYPLAN_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "from bayplan.faces.cli import main; main(prog_name='bayplan')"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected


@pytest.mark.skipif(which("bash") is None, reason="there is no bash on the PATH")
def test_the_bash_script_is_valid():
    script = bayplan("completion", "bash").output
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
