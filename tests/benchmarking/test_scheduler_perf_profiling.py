"""Profiles of benchmarks."""

import json
import time

import pytest

from bayplan.benchmarking.profiling import main, profiling


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def work():
    spin(0.001)


def rest():
    spin(0.001)


def test_flame_graph_shows_what_takes_long_in_many_short_calls(tmp_path):
    with profiling(tmp_path / "a.json"):
        for _ in range(150):
            work()
            rest()
    profile = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    frames = [frame["name"] for frame in profile["shared"]["frames"]]
    opened = [frames[event["frame"]] for event in profile["profiles"][0]["events"] if event["type"] == "O"]
    assert (opened.count("work"), opened.count("rest")) == (1, 1)


def test_bayplan_runs_while_it_is_profiled(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest"])
    with pytest.raises(SystemExit):
        main(str(tmp_path / "a.html"), "--version")
    assert "bayplan" in capsys.readouterr().out
    assert (tmp_path / "a.html").exists()
