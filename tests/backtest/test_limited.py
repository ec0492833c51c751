"""A candidate's plugin that fails, hangs or takes all memory costs itself: one line, in bounded time and memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.tables import cases

from bayplan.answers.backtest.sample import write_sample

_HEAD = "from bayplan.plugin import filter_plugin\n\n@filter_plugin\ndef candidate(pod, nodes):\n    "
PLUGINS = {
    "always raises": (f"{_HEAD}raise ValueError('no')\n", "plugin candidate in Filter failed .*: ValueError: no"),
    "raises SystemExit": (f"{_HEAD}raise SystemExit(3)\n", "plugin candidate in Filter failed .*: SystemExit: 3"),
    "hangs": (f"{_HEAD}while True: pass\n", r"candidate \(.*policy.py, line 5\) has not returned for 0.5 s"),
    "hangs and catches all": (
        f"{_HEAD}while True:\n        try:\n            raise ValueError\n        except BaseException: pass\n",
        r"candidate \(.*policy.py, line \d\) has not returned for 0.5 s",
    ),
    "takes all memory": (
        f"{_HEAD}taken = []\n    while True: taken.append(bytearray(2**20))\n",
        "(MemoryError|has not returned|needs more than 256 MiB)",
    ),
    "ends the process": (f"{_HEAD}import os; os._exit(0)\n", "the process with the candidate's plugins was ended"),
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limited") / "night"
    write_sample(folder, days=0.1)
    return folder


def run(*arguments: object, status: int) -> str:
    """What a command prints, without a traceback. A process of its own: only one without threads can fork."""
    ran = subprocess.run(
        [sys.executable, "-m", "bayplan", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == status, ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


LIMITS = ("--call-seconds", 0.5, "--memory", 256)


@cases("source, message", PLUGINS)
def test_compare_ends_with_one_line(tmp_path, history, source, message):
    (tmp_path / "policy.py").write_text(source)

    shown = run("compare", "--history", history, "--plugin", tmp_path / "policy.py", *LIMITS, status=2)

    assert len(shown.splitlines()) == 1

    assert re.search(f"bayplan compare: the candidate can't be simulated: .*{message}", shown), shown


def test_a_plugin_that_works_is_compared_with_the_same_result(tmp_path, history):
    (tmp_path / "policy.py").write_text(f"{_HEAD}return None\n")

    shown = run("compare", "--history", history, "--plugin", tmp_path / "policy.py", *LIMITS, status=0)

    assert "node-hours" in shown


def test_candidates_of_a_sweep_that_fail_cost_themselves(tmp_path, history):
    for name, (source, _) in PLUGINS.items():
        (tmp_path / f"{name.replace(' ', '_')}.py").write_text(source)
    plugins = [[f"{name.replace(' ', '_')}.py"] for name in PLUGINS]
    (tmp_path / "sweep.yaml").write_text(
        yaml.dump({"histories": [str(history)], "candidates": {"plugins": [*plugins, []]}})
    )

    shown = run("sweep", tmp_path / "sweep.yaml", "--to", tmp_path / "runs", "--jobs", 1, *LIMITS, status=0)

    assert "2 choices, 2 runs simulated now" in shown
    assert shown.count("note: ") == len(PLUGINS)


def test_placements_of_a_process_with_limits_are_complete(tmp_path, history):
    (tmp_path / "policy.py").write_text(f"{_HEAD}return None\n")
    placements = tmp_path / "placements.csv"

    options = "--history", history, "--plugin", tmp_path / "policy.py", "--placements", placements
    found = json.loads(run("simulate", *options, "-o", "json", *LIMITS[2:], status=0))

    assert len(placements.read_text().splitlines()) == found["placed"] + 1
