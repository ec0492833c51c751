"""The notebooks of the examples, run as scripts, and one as an application."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOK = NOTEBOOKS / "week_compared.py"


@pytest.fixture(scope="module", autouse=True)
def _marimo():
    pytest.importorskip("marimo", reason="the notebook needs marimo: pip install marimo")


def printed(name):
    """What a notebook prints as a script."""
    done = subprocess.run([sys.executable, NOTEBOOKS / name], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_policy_is_swept():
    lines = printed("policy_swept.py")
    found = [re.fullmatch(r"(.*): ([\d.]+) node-hours, \d+ evictions", line) for line in lines]
    hours = {match[1]: float(match[2]) for match in found if match}
    assert hours.keys() == {"now", "Fuller.weight=1", "Fuller.weight=20"}, lines
    assert hours["Fuller.weight=20"] < hours["now"]


def test_a_night_is_replayed():
    first, second = printed("night_replayed.py")
    assert re.fullmatch(r"\d+ decisions, [1-9]\d* evictions, first difference: None", first)
    same, asked = map(int, re.findall(r"\d+", second))
    assert 0 < same <= asked


def test_a_week_is_compared():
    now, candidate, *notes = printed("week_compared.py")
    assert now.startswith("now: ")
    assert candidate.startswith("candidate: ")
    assert "note: the history is synthetic: its arrivals are made up" in notes


def test_it_plots_what_the_commands_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(NOTEBOOK)])
    monkeypatch.syspath_prepend(NOTEBOOKS)  # as marimo does
    spec = spec_from_file_location("notebook", NOTEBOOK)
    assert spec is not None
    assert spec.loader is not None
    notebook = module_from_spec(spec)
    spec.loader.exec_module(notebook)
    _, found = notebook.app.run()
    assert sum(each["pods"] for each in found["arrivals"]) > 100
    assert {each["policy"] for each in found["nodes"]} == {"now", "candidate"}
    averages = {name: simulated["nodes"] for name, simulated in found["policies"].items()}
    assert averages["candidate"] < averages["now"]  # fuller nodes are fewer
    for name in ("arrivals", "nodes", "waits"):
        chart = found[f"{name}_chart"].to_dict()
        assert chart["data"]["values"] == found[name]
