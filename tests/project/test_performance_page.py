"""The page about performance is made of the committed results, and no other page has figures."""

from __future__ import annotations

import importlib
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/performance.json"
MACHINE = {"cpu": "a CPU", "cores": 2, "memory_gib": 8, "python": "3.11.2", "date": "2026-01-01"}
FIGURE = re.compile(r"\d[\d,.]* (?:pods/s|pods per second|µs|ms\b)")

sys.path.insert(0, str(ROOT / "benchmarks"))
page = importlib.import_module("performance_page")


def rendered(**results):
    """The pages of results by part, which are of the same machine unless they name another one."""
    parts = {part: {name: {"machine": "A", **each} for name, each in found.items()} for part, found in results.items()}
    return page.rendered({"machines": {"A": MACHINE, "B": {**MACHINE, "cpu": "another CPU"}}, **parts})


def target(what, **results):
    """The cells of a target: measured, met."""
    lines = rendered(**results)[page.PAGE].splitlines()
    found = [line for line in lines if line.startswith("|") and what in line]
    assert len(found) == 1
    return [cell.strip() for cell in found[0].split("|")[3:5]]


@pytest.mark.parametrize("path", [page.PAGE, page.PLOT, page.README], ids=lambda path: path.name)
def test_pages_are_what_the_results_say(path):
    expected = page.rendered(json.loads(RESULTS.read_text(encoding="utf-8")))[path]
    assert path.read_text(encoding="utf-8") == expected, "run benchmarks/performance.py --render"


def test_other_pages_have_no_figures():
    readme = page.README.read_text(encoding="utf-8").split("<!-- from benchmarks/performance.py -->")
    texts = {"README.md": readme[0] + readme[2]}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md") if path != page.PAGE}
    assert {name: FIGURE.findall(text) for name, text in texts.items() if FIGURE.search(text)} == {}


def test_what_is_missing_is_named():
    assert target("of a new selector") == ["not measured", "-"]
    assert target("CSI, in-tree") == ["not measured", "-"]
    assert "not measured" in rendered()[page.PAGE]


def test_measurements_are_counted_by_revision_and_machine():
    rates = {"bayplan": 90.0, "null": 100.0}
    new = {**rates, "revision": "abc1234"}
    found = rendered(devcluster={"a": rates, "b": new, "c": new, "d": {**new, "machine": "B"}})[page.PAGE]
    expected = "2 at abc1234 on A, 1 at abc1234 on B, 1 at earlier revisions on A"
    assert f"| workloads on the embedded API server | {expected} |" in found
    assert "| B | another CPU | 2 |" in found


def test_readme_names_figures_of_another_machine():
    core = {page.BASE: {"pods_per_second": 5000.0, "p50_ms": 0.1}}
    real = {page.BASE: {"bayplan": 330.0, "null": 340.0, "kube-scheduler": 220.0, "machine": "B"}}
    text = rendered(core=core, apiserver=real)[page.README]
    assert "- With kube-apiserver, on another machine: 330 pods per second, 1.5 times" in text


@pytest.mark.parametrize(("rate", "count", "met"), [(1100.0, 2, "yes"), (900.0, 1, "no")])
def test_target_for_workloads_is_that_of_the_slowest(rate, count, met):
    fast, slow = "SchedulingCSIPVs/5000Nodes", "SchedulingInTreePVs/5000Nodes_2000Pods"
    rates = {page.BASE: 5000.0, fast: 4000.0, slow: rate}
    core = {name: {"pods_per_second": value} for name, value in rates.items()}
    measured = f"{count} of 2 workloads; the slowest {rate / 5000:.2f} ({slow})"
    assert target("CSI, in-tree", core=core) == [measured, met]


def test_ratio_of_paired_runs_counts_before_that_of_medians():
    name = "SchedulingCSIPVs/5000Nodes"
    core = {page.BASE: {"pods_per_second": 5000.0}, name: {"pods_per_second": 800.0, "of_base": 0.25}}
    assert target("CSI, in-tree", core=core) == [f"1 of 1 workloads; the slowest 0.25 ({name})", "yes"]


def test_median_ratio_to_null_counts_before_the_ratio_of_medians():
    rates = {"bayplan": 900.0, "null": 1000.0, "writes": 1.0}
    devcluster = {"a/1": rates, "b/1": {**rates, "of_null": 0.8, "rounds": 3}}
    assert target("embedded API server, by", devcluster=devcluster) == ["1 of 2 workloads; the slowest 80% (b/1)", "no"]
    text = rendered(devcluster=devcluster)[page.PAGE]
    assert "| b/1 | 900 | 1,000 | 80% | 1.0 | 40% |" in text
    assert "1 of the 2 workloads have medians of 3 runs." in text


def test_workload_that_failed_misses_its_target_and_stays_in_the_table():
    core = {page.BASE: {"pods_per_second": 5000.0}, "PreemptionPVs/1000Nodes": {"problem": "stopped after 60 s"}}
    assert target("| preemption, core", core=core) == ["PreemptionPVs/1000Nodes: stopped after 60 s", "no"]
    assert "| PreemptionPVs/1000Nodes | stopped after 60 s |" in rendered(core=core)[page.PAGE]


def test_workloads_on_an_api_server_are_compared_with_the_null_scheduler():
    devcluster = {"A/1": {"bayplan": 95.0, "null": 100.0}, "B/1": {"bayplan": 50.0, "null": 100.0}}
    measured = ["1 of 2 workloads; the slowest 50% (B/1)", "no"]
    assert target("on the embedded API server, by", devcluster=devcluster) == measured
    apiserver = {**devcluster, "A/1": {**devcluster["A/1"], "kube-scheduler": 38.0}, "C/1": {"problem": "timed out"}}
    assert target("on kube-apiserver, by", apiserver=apiserver) == measured
    text = rendered(apiserver=apiserver)[page.PAGE]
    assert "| A/1 | 95 | 100 | 95% |  |  | 38 | 250% |  |" in text
    assert "| C/1 |  |  |  |  |  |  |  | timed out |" in text


def test_writes_per_second_are_compared_with_those_of_the_null_scheduler():
    devcluster = {"A/1": {"bayplan": 30.0, "null": 100.0, "writes": 5.0}, "B/1": {"bayplan": 7.0, "problem": "422"}}
    text = rendered(devcluster=devcluster)[page.PAGE]
    assert "| A/1 | 30 | 100 | 30% | 5.0 | 75% |  |  |" in text
    assert "| B/1 | 7 |  |  |  |  |  | 422 |" in text


def test_growth_is_a_ratio_and_a_plot():
    growth = {
        str(nodes): {
            **{f"{kind}_us": 100.0 + nodes / 1000 for kind in page.KINDS},
            "memory_mib": 100.0,
            "longest_pause_ms": 1.0,
            "build_seconds": 1.0,
        }
        for nodes in page.GROWTH
    }
    assert target("at 5,000, plain", growth=growth) == ["1.9", "yes"]
    plot = ET.fromstring(rendered(growth=growth)[page.PLOT])
    lines = plot.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [len(page.GROWTH)] * len(page.KINDS)


def test_readme_quotes_three_figures():
    growth = {"100000": {f"{kind}_us": 500.0 for kind in page.KINDS}}
    growth["100000"] |= {"memory_mib": 1.0, "longest_pause_ms": 1.0, "build_seconds": 1.0}
    core = {page.BASE: {"pods_per_second": 5000.0, "p50_ms": 0.1}}
    devcluster = {page.BASE: {"bayplan": 900.0, "null": 1000.0}}
    assert "90% of a null scheduler" in quoted(growth=growth, core=core, devcluster=devcluster)
    real = {page.BASE: {"bayplan": 330.0, "null": 340.0, "kube-scheduler": 220.0}}
    assert "1.5 times those of kube-scheduler" in quoted(
        growth=growth, core=core, devcluster=devcluster, apiserver=real
    )


def quoted(**results):
    """What the README quotes: three figures."""
    text = rendered(**results)[page.README].split("<!-- from benchmarks/performance.py -->")[1]
    assert text.count("\n- ") == 3
    return text
