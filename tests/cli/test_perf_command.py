"""`bayplan perf`: selection of workloads, output, skipped workloads and errors."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.faces.cli.perf import perf

WORKLOADS = Path(__file__).parents[1] / "benchmarking" / "workloads"


def run(*arguments, place=WORKLOADS):
    environment = {"BAYPLAN_SCHEDULER_PERF": str(place) if place else ""}
    return CliRunner().invoke(perf, [str(each) for each in arguments], env=environment)


def test_table_has_a_line_for_each_measurement():
    result = run("misc", "Basic/Small", "Preemption")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert " ".join(lines[0].split()) == "workload seconds pods pods/s p50 p90 p95 p99 attempt p50 p99 attempts/pod"
    assert [(line.split()[0], line.split()[2]) for line in lines[1:3]] == [
        ("Basic/Small/namespace-4", "20"),
        ("Preemption/Any/namespace-2", "2"),
    ]
    assert lines[3].startswith("On core: decode")
    assert result.stderr.splitlines() == ["Basic/Small ...", "Preemption/Any ..."]


def test_json_has_the_data_items_of_scheduler_perf():
    result = run("misc", "Preemption", "--format", "json")
    document = json.loads(result.stdout)
    assert document["version"] == "v1"
    found = {(item["labels"]["Metric"], item["labels"]["result"]): item for item in document["dataItems"]}
    assert {key: item["unit"] for key, item in found.items()} == {
        ("SchedulingThroughput", "not applicable"): "pods/s",
        ("scheduler_scheduling_attempt_duration_seconds", "scheduled"): "ms",
        ("scheduler_scheduling_attempt_duration_seconds", "unschedulable"): "ms",
        ("SchedulerAttempts", "not applicable"): "1/pod",
        ("SchedulingDuration", "not applicable"): "s",
    }
    assert {item["labels"]["Name"] for item in found.values()} == {"Preemption/Any/namespace-2"}
    throughput = found["SchedulingThroughput", "not applicable"]["data"]
    assert list(throughput) == ["Average", "Perc50", "Perc90", "Perc95", "Perc99"]
    assert all(value > 0 for value in throughput.values())


def test_csv_has_a_row_for_each_run():
    rows = list(csv.DictReader(io.StringIO(run("misc", "Basic/Small", "--repeat", 2, "--format", "csv").stdout)))
    assert [(row["workload"], row["scheduler"], row["pods"]) for row in rows] == [
        ("Basic/Small/namespace-4", "bayplan", "20")
    ] * 2
    assert float(rows[0]["pods/s"]) > 0


def test_workloads_behind_disabled_gates_are_skipped_by_name():
    result = run("misc", "Behind")
    assert result.exit_code == 0
    assert "Skipped Behind/Alpha: needs SchedulerAsyncAPICalls, which Kubernetes disables by default." in result.stderr
    assert "Behind/Beta" in result.stdout


def test_labels_and_expressions_select_workloads():
    result = run("misc", "--label", "short,-odd", "--match", "Beh/", "--format", "csv")
    assert [line.split(",")[0] for line in result.stdout.splitlines()[1:]] == ["Behind/Beta/namespace-1"]


def test_workloads_are_listed_if_nothing_selects_any():
    listed = run(WORKLOADS).stdout.splitlines()
    assert listed[:3] == ["Basic/Small", "Basic/Tight", "Sets/Any"]
    assert listed[-3:] == ["Unknown/Any", "Custom/Fit", "Custom/Full"]


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("Basic/Tight", "Error: Basic/Tight: createPods: not within 600 s: 0 of 5 pods"),
        ("Unknown", "Error: Unknown/Any: needs the operation explode, which Bayplan does not support"),
    ],
)
def test_failing_workload_is_reported_after_the_others(workload, message):
    result = run("misc", workload, "Basic/Small")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Basic/Small/namespace-4" in result.stdout


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("node.yaml", None, None, "node.yaml: No such file"),
        ("zone-pod.yaml", "cpu: 100m", "cpu: one", "Basic/Small: createPods: 'one' is not a quantity"),
    ],
)
def test_broken_template_is_reported(tmp_path, file, old, new, message):
    folder = shutil.copytree(WORKLOADS, tmp_path / "copy")
    path = folder / "templates" / file
    if old is None:
        path.unlink()
    else:
        path.write_text(path.read_text().replace(old, new))
    result = run("misc", "Basic/Small", place=folder)
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "place", "message"),
    [
        (["misc", "Basic"], None, "BAYPLAN_SCHEDULER_PERF does not say where topics are"),
        (["odd", "Basic"], WORKLOADS, "topics there: misc"),
        ([WORKLOADS / "templates/pod.yaml", "Basic"], WORKLOADS, "Expected `array`"),
        (["misc", "Odd"], WORKLOADS, "no workload Odd"),
        (["misc", "Basic", "--label", "none"], WORKLOADS, "no workload matches; there are workloads of Basic, Sets"),
        (["misc", "Basic", "--on", "core", "--kubeconfig", "f"], WORKLOADS, "--on and --kubeconfig exclude each other"),
        (["misc", "Basic", "--compare", "null"], WORKLOADS, "--compare needs an API server"),
        (["misc", "Basic", "--on", "devcluster", "--compare", "odd"], WORKLOADS, "expected null or external:NAME"),
        (["misc", "Basic", "--on", "devcluster", "--compare", "external:a"], WORKLOADS, "needs --kubeconfig"),
        (["misc", "Basic", "--profile", "a.html"], WORKLOADS, "--profile needs a single workload, and 2 are selected"),
        (["misc", "Sets", "--profile", "a.svg"], WORKLOADS, "expected a file name that ends with .html or .json"),
    ],
)
def test_wrong_usage_is_reported(arguments, place, message):
    result = run(*arguments, place=place)
    assert result.exit_code == 2
    assert message in result.stderr


def test_profile_needs_pyinstrument(monkeypatch):
    monkeypatch.setattr("bayplan.faces.cli.perf.find_spec", lambda _: None)
    result = run("misc", "Sets", "--profile", "a.html")
    assert result.exit_code == 2
    assert "install bayplan[perf]" in result.stderr


@pytest.mark.parametrize(("file", "start"), [("a.html", "<!DOCTYPE html>"), ("a.json", '{"$schema"')])
def test_profile_is_written(tmp_path, file, start):
    result = run("misc", "Behind/Beta", "--profile", tmp_path / file)
    assert result.exit_code == 0, result.output
    assert (tmp_path / file).read_text(encoding="utf-8").lstrip().startswith(start)
