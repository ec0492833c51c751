"""Profiles of benchmarks."""

from __future__ import annotations

import json
import time

import pytest

from bayplan.testing.scheduler_perf.profiling import main, profiling


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_flame_graph_shows_what_takes_long_in_many_short_calls(tmp_path):
    with profiling(tmp_path / "a.json"):
        for _ in range(200):
            spin(0.001)
    profile = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    frames = [frame["name"] for frame in profile["shared"]["frames"]]
    assert frames.count("spin") == 1
    opened = [frames[event["frame"]] for event in profile["profiles"][0]["events"] if event["type"] == "O"]
    assert opened.count("spin") == 1


def test_bayplan_runs_while_it_is_profiled(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["pytest"])
    with pytest.raises(SystemExit):
        main(str(tmp_path / "a.html"), "--version")
    assert "bayplan" in capsys.readouterr().out
    assert (tmp_path / "a.html").exists()
