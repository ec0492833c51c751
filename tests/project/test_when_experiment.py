"""The experiment of `make test-when` without a control plane: its jobs, its figures, and a small simulation."""

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield
    for name in [each for each in sys.modules if each.startswith(("truth_", "when_"))]:
        del sys.modules[name]


def test_the_same_seed_is_the_same_cluster():
    from when_jobs import cluster, told, truth

    documents, jobs = cluster(5, 20, 1, NOW)
    assert (documents, jobs) == cluster(5, 20, 1, NOW) != cluster(5, 20, 2, NOW)
    names = [each["metadata"]["name"] for each in documents]
    assert len(names) == len(set(names)) == 5 + len(jobs)
    assert truth(jobs).keys() == {f"job default/{job.name}" for job in jobs}
    assert len(told()) == 4


def test_figures_say_which_share_of_the_starts_was_between():
    from when_truth import Foretold, figures

    found = [Foretold("after 0 s", "a", 10.0, 20.0, 30.0, true) for true in (5.0, 15.0, 25.0, 29.0)]
    found += [Foretold("after 9 s", "b", 10.0, 20.0, None, 99.0), Foretold("after 9 s", "c", None, None, None, 9.0)]
    lines, share = figures(found)
    assert share == pytest.approx(4 / 6)
    assert lines[2:] == [
        "| after 0 s | 4 | 75% | 50% | 9.0 s |",
        "| after 9 s | 2 | 50% | 0% | 79.0 s |",
        "| all | 6 | 67% | 40% | 9.0 s |",
    ]


def test_eight_of_ten_true_starts_are_between_in_a_simulation():
    from when_jobs import covered
    from when_truth import simulated

    found = simulated(6, 40, 3, 4, runs=9)
    inside = list(covered([(each.p10, each.p90, each.true) for each in found]))
    assert len(inside) > 100
    assert 0.65 <= sum(inside) / len(inside) <= 0.95


def test_the_plot_shows_each_job():
    pytest.importorskip("altair")
    from when_plot import starts_plot
    from when_truth import Foretold

    found = [Foretold("now", "a", 10.0, 20.0, 30.0, 25.0), Foretold("now", "b", 10.0, 20.0, None, 5.0)]
    svg = starts_plot([asdict(each) for each in found])
    assert svg.startswith("<svg")
    assert "outside" in svg
