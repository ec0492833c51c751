"""The comparison with recorded decisions, all of which `make conformance` compares, and what it prints."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.faces.cli.conformance import conformance
from bayplan.testing.conformance import replay
from bayplan.testing.scenarios import read_scenarios

ORACLE = Path(__file__).parents[1] / "data" / "oracle"


def made(kind, name, spec=None, **fields):
    metadata = {"name": name, "uid": name, **({"namespace": "default"} if kind == "Pod" else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": {**metadata, **fields.pop("metadata", {})}, **fields} | (
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **spec}} if spec else {}
    )


SMALL = made("Node", "n", status={"allocatable": {"cpu": "1", "pods": "10"}})
MINE, OTHERS = {"schedulerName": "default-scheduler"}, {"schedulerName": "another"}
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SHORT = {"n": {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu"]}}
PREEMPTS = {
    "outcome": "unschedulable",
    "rejected": SHORT,
    "unschedulablePlugins": ["NodeResourcesFit"],
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
    "nominated": "n",
}
NO_VICTIMS = {
    **PREEMPTS,
    "nominated": "",
    "postFilterMessage": (
        "no new claims to deallocate, preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    ),
}


@cases(
    "there, decision",
    {
        "a terminating victim is not evicted again": (
            made("Pod", "old", {**MINE, "nodeName": "n"}, metadata=TERMINATING),
            PREEMPTS,
        ),
        "a nominated pod has its room": (
            made("Pod", "old", {**MINE, "priority": 20}, status={"nominatedNodeName": "n"}),
            NO_VICTIMS,
        ),
    },
)
def test_recorded_preemptions_are_compared(tmp_path, there, decision):
    pod = made("Pod", "new", {**MINE, "priority": 10})
    scenario = {"name": "made", "objects": [SMALL, there], "pending": [pod]}
    (result,) = map(
        replay,
        read_scenarios(write(tmp_path, [{"scenario": scenario, "decisions": [{"pod": "default/new", **decision}]}])),
    )
    assert result.steps[0].differences == ()


def test_nominated_pods_of_other_schedulers_do_not_count(tmp_path):
    nominated = made("Pod", "old", {**OTHERS, "priority": 20}, status={"nominatedNodeName": "n"})
    scenario = {"name": "made", "objects": [SMALL, nominated], "pending": [made("Pod", "new", MINE)]}
    decision = {"pod": "default/new", "outcome": "scheduled", "feasible": ["n"], "best": ["n"], "chosen": "n"}
    (result,) = map(replay, read_scenarios(write(tmp_path, [{"scenario": scenario, "decisions": [decision]}])))
    assert {each.field.partition("[")[0] for each in result.steps[0].differences} == {"scores"}


def run(*arguments):
    return CliRunner().invoke(conformance, [str(argument) for argument in arguments])


def test_agreement():
    result = run(ORACLE, "--family", "taints", "--limit", 3)
    assert result.exit_code == 0
    assert "taints" in result.stdout
    assert "3 of 3" in result.stdout
    assert "Not implemented yet" not in result.stdout


@pytest.fixture
def lines():
    with gzip.open(ORACLE / "taints.jsonl.gz") as file:
        return [json.loads(line) for _, line in zip(range(3), file, strict=False)]


def write(tmp_path, lines, name="made.jsonl"):
    path = tmp_path / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_difference_is_reported_with_its_place_and_plugin(tmp_path, lines):
    step = next(step for step in lines[1]["decisions"] if step.get("scores"))
    node = next(iter(step["scores"]))
    step["scores"][node]["plugins"]["NodeResourcesFit"] += 1
    result = run(write(tmp_path, lines))
    assert result.exit_code == 1
    assert f"scores[{node}].NodeResourcesFit" in result.stdout
    assert "2 of 3" in result.stdout
    assert step["pod"] in result.stdout
    assert "made.jsonl:2" in result.stdout
    assert "look at NodeResourcesFit" in result.stdout


def test_json_output(tmp_path, lines):
    lines[0]["decisions"][0]["message"] = "something else"
    result = run(write(tmp_path, lines), "--format", "json", "--differences", "1")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["agrees"], report["total"]["scenarios"]) == (1, False, 3)
    assert report["differences"][0]["fields"][0]["field"] == "message"


@cases(
    "spoil, message",
    {
        "broken off": (lambda lines: lines.insert(1, '{"scenario": '), "made.jsonl:2: "),
        "no decisions": (lambda lines: lines[2].pop("decisions"), "made.jsonl:3: Object missing required"),
        "a bad quantity": (
            lambda lines: lines[0]["scenario"]["objects"][0]["status"]["allocatable"].update(cpu="lots"),
            "made.jsonl:1: 'lots' is not a quantity",
        ),
        "an unknown kind": (
            lambda lines: lines[0]["scenario"]["objects"][0].update(kind="Widget"),
            "made.jsonl:1: no such kind: v1 Widget",
        ),
        "an unknown pod": (
            lambda lines: lines[0]["decisions"][0].update(pod="default/stranger"),
            "made.jsonl:1: decision for pod default/stranger, which is not pending",
        ),
        "a bad configuration": (
            lambda lines: lines[0]["scenario"].update(config={"apiVersion": "v0"}),
            "made.jsonl:1: apiVersion: Unsupported value",
        ),
        "empty": (lambda lines: lines.clear(), "made.jsonl: no scenario in it"),
    },
)
def test_an_unreadable_file_is_named_with_the_line(tmp_path, lines, spoil, message):
    spoil(lines)
    result = run(write(tmp_path, lines))
    assert result.exit_code == 2
    assert message in result.stderr


@cases(
    "make, message",
    {
        "missing": (lambda path: path / "nonesuch.jsonl", "nonesuch.jsonl: No such file"),
        "an empty folder": (lambda path: path, "no file"),
        "not gzipped": (lambda path: write(path, ["{}"], "x.jsonl.gz"), "Not a gzipped file"),
    },
)
def test_other_files_are_rejected(tmp_path, make, message):
    result = run(make(tmp_path))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_truncated_archive_is_named(tmp_path):
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes((ORACLE / "taints.jsonl.gz").read_bytes()[:3000])
    result = run(path)
    assert result.exit_code == 2
    assert "the file ends or breaks off here" in result.stderr


GATED = ("storage-capacity", "volume-limits", "taint-comparison", "device-taint-rules")


@cases("family", {each: each for each in GATED})
def test_the_gates_of_a_scenario_count(family, tmp_path):
    path = ORACLE / f"gate-{family}.jsonl.gz"
    assert run(path, "--limit", 4).exit_code == 0
    with gzip.open(path) as file:
        recorded = [json.loads(line) for line in file]
    for each in recorded:
        each["scenario"]["gates"] = {}
    assert run(write(tmp_path, recorded)).exit_code != 0  # decisions differ, or a configuration needs the gate


@cases(
    "fields, message",
    {
        "unknown gate": ({"gates": {"Nonesuch": True}}, "unknown feature gate 'Nonesuch'"),
        "unknown version": ({"version": "1.99"}, "unknown version '1.99': expected one of 1.36, 1.37"),
        "of another version": (
            {"version": "1.37", "gates": {"GangScheduling": True}},
            "GangScheduling: Kubernetes 1.37 doesn't have this gate, 1.36 does",
        ),
    },
)
def test_gates_that_cannot_be_set(fields, message, tmp_path, lines):
    lines[0]["scenario"] |= fields
    result = run(write(tmp_path, lines))
    assert (result.exit_code, message in result.stderr) == (2, True)


DEVICES = ("mixed", "counters", "distinct", "list-attributes")


def first_lines(family, number=12):
    with gzip.open(ORACLE / f"devices-of-1.37-{family}.jsonl.gz") as file:
        return [json.loads(line) for _, line in zip(range(number), file, strict=False)]


@cases("family", {each: each for each in DEVICES})
def test_devices_of_1_37_are_compared(family, tmp_path):
    recorded = first_lines(family)
    assert run(write(tmp_path, recorded)).exit_code == 0
    step = next(step for line in recorded for step in line["decisions"] if step.get("allocations"))
    claim, allocation = next(iter(step["allocations"].items()))
    allocation["devices"]["results"][0]["device"] = "another"
    result = run(write(tmp_path, recorded))
    assert (result.exit_code, f"allocations[{claim}].devices" in result.stdout) == (1, True)


def test_configurations_of_devices_are_compared(tmp_path):
    recorded = first_lines("mixed", 40)
    step, claim = next(
        (step, claim)
        for line in recorded
        for step in line["decisions"]
        for claim, allocation in (step.get("allocations") or {}).items()
        if allocation["devices"].get("config")
    )
    del step["allocations"][claim]["devices"]["config"]
    result = run(write(tmp_path, recorded))
    assert (result.exit_code, f"allocations[{claim}].config" in result.stdout) == (1, True)


def test_a_change_that_came_later_counts(tmp_path):
    recorded = first_lines("counters", 60)
    for line in recorded:
        line["scenario"]["without"].append("CounterSlicesOfOtherNodes")
        line["scenario"]["without"].append("CountersOfRejectedCandidates")
    assert run(write(tmp_path, recorded)).exit_code == 1


def in_first_form(line):
    scenario = {key: line["scenario"][key] for key in ("name", "objects", "pending")}
    gates = {name: value for name, value in line["scenario"]["gates"].items() if name == "DRAListTypeAttributes"}
    steps = [
        {**step, "message": f"{step.get('message', '')} {step.get('postFilterMessage', '')}"}
        for step in line["decisions"]
    ]
    return {"scenario": {**scenario, **({"gates": gates} if gates else {})}, "decided": {"name": "x", "steps": steps}}


@cases("family", {each: each for each in DEVICES})
def test_the_first_form_of_these_recordings_is_read(family, tmp_path):
    result = run(write(tmp_path, map(in_first_form, first_lines(family)), f"{family}.jsonl"))
    assert (result.exit_code, "12 of 12" in result.stdout) == (0, True), result.stdout


def test_an_unknown_change_is_named(tmp_path, lines):
    lines[0]["scenario"]["without"] = ["Nonesuch"]
    result = run(write(tmp_path, lines))
    assert (result.exit_code, "unknown change 'Nonesuch'" in result.stderr) == (2, True)
