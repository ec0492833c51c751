"""The notebook of the examples, run as a script and as an application."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "candidate.py"


@pytest.fixture(scope="module", autouse=True)
def _marimo():
    pytest.importorskip("marimo", reason="the notebook needs marimo: pip install marimo")


def test_it_runs_as_a_script():
    done = subprocess.run([sys.executable, NOTEBOOK], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    now, candidate, *notes = done.stdout.splitlines()
    assert now.startswith("now: ")
    assert candidate.startswith("candidate: ")
    assert "note: the history is synthetic: its arrivals are made up" in notes


def test_it_plots_what_the_commands_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(NOTEBOOK)])
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
