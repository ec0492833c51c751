"""Completion of the options of `bayplan run`."""

import os
import subprocess
import sys
from shutil import which

import pytest
from click.testing import CliRunner

from bayplan.faces.cli import main

FILES = ("config.yaml", "config.yml", "config.json", "policy.py", "notes.txt", ".hidden.yaml")


def completed(words, folder):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_BAYPLAN_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "from bayplan.faces.cli import main; main(prog_name='bayplan')"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.split()


@pytest.fixture
def folder(tmp_path):
    for name in FILES:
        (tmp_path / name).touch()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "inner.yaml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bayplan run --config ", ["plain,conf/", "plain,config.json", "plain,config.yaml", "plain,config.yml"]),
        ("bayplan run --config config.y", ["plain,config.yaml", "plain,config.yml"]),
        ("bayplan run --config conf/", ["plain,conf/inner.yaml"]),
        ("bayplan run --config .", ["plain,.hidden.yaml"]),
        ("bayplan run --config nowhere/", []),
        ("bayplan run --plugin ", ["plain,conf/", "plain,policy.py"]),
        ("bayplan run --kubeconfig ", ["file,"]),
        ("bayplan run --write-config-to ", ["file,"]),
        ("bayplan run --feat", ["plain,--feature-gates"]),
        ("bayplan run --conf", ["plain,--config"]),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_options_and_their_files_are_completed(words, expected, folder):
    assert completed(words, folder) == expected


@pytest.mark.skipif(which("bash") is None, reason="there is no bash on the PATH")
def test_bash_adds_no_space_after_a_directory():
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    assert "compopt -o nospace" in script
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
