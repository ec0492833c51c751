import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.history.audit_logs import ROWS, SHAPES, Event, binding, event, lines, stored, story, whole
from tests.history.small_histories import BEGIN, at, node, pod

from bayplan.api.kinds import NODE, POD
from bayplan.cli import main
from bayplan.history.format import HistoryError
from bayplan.history.reading import History
from bayplan.history.sources.audit import _AS_SENT, import_audit
from bayplan.insight import Snapshot


def rows_of(folder: Path) -> list[tuple[str, str, float, str, str]]:
    rows = History.open(folder).rows()
    return [(r.event, r.name, (r.time_utc - BEGIN).total_seconds(), r.node, r.reason) for r in rows]


def imported(tmp_path: Path, events: Sequence[Event], **options) -> tuple[History, list[str]]:
    (tmp_path / "audit.log").write_bytes(lines(events))
    _, problems = import_audit([tmp_path / "audit.log"], tmp_path / "h", **options)
    return History.open(tmp_path / "h"), problems


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("responses", [True, False], ids=["RequestResponse", "Request"])
def test_every_shape_tells_the_same_story(shape: str, responses: bool, tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(SHAPES[shape](story(responses=responses)))
    _, problems = import_audit([tmp_path / "export"], tmp_path / "h")
    assert rows_of(tmp_path / "h") == ROWS
    assert problems == []
    notes = History.open(tmp_path / "h").notes
    assert len(notes) == (0 if responses else 1)


def test_rotated_and_compressed_files_that_overlap(tmp_path: Path) -> None:
    events = story()
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "audit-1.log.gz").write_bytes(gzip.compress(lines(events[:5])))
    (folder / "audit.log").write_bytes(lines(events[4:]))
    import_audit([folder], tmp_path / "h")
    assert rows_of(tmp_path / "h") == ROWS
    assert History.open(tmp_path / "h").source == "audit log of 2 files"


def test_objects_older_than_the_log_are_there_at_the_begin(tmp_path: Path) -> None:
    old = stored("old", -500, on="a", phase="Running")
    events = [
        event(0, "patch", "pods", "old", subresource="status", request={}, response=old),
        event(5, "patch", "nodes", "a", subresource="status", request={}, response=whole("Node", node("a"))),
        event(9, "delete", "pods", "old", request={"gracePeriodSeconds": 0}, response=old),
    ]
    history, problems = imported(tmp_path, events)
    assert list(history.start().of_kind(NODE)) == ["a"]
    assert history.start().document(POD, "default/old")["spec"]["nodeName"] == "a"
    assert [type(found).__name__ for found in history.events()] == ["PodEnded"]
    assert problems == []


def test_preempted_and_evicted_pods_say_so(tmp_path: Path) -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    events = [
        *story()[:1],
        *(event(n, "create", "pods", name, request=stored(name, n)) for n, name in enumerate(("victim", "evicted"), 2)),
        *(
            event(5, "create", "pods", name, subresource="binding", request=binding(name, "a"))
            for name in ("victim", "evicted")
        ),
        event(6, "patch", "pods", "victim", subresource="status", request={"status": {"conditions": conditions}}),
        event(7, "create", "pods", "evicted", subresource="eviction", request={"kind": "Eviction"}, code=201),
        *(event(9, "delete", "pods", n, request={"gracePeriodSeconds": 0}) for n in ("victim", "evicted")),
    ]
    imported(tmp_path, events)
    ends = {row[1]: row[4] for row in rows_of(tmp_path / "h") if row[0] == "pod_ended"}
    assert ends == {"victim": "PreemptionByScheduler", "evicted": "EvictionByEvictionAPI"}


def test_changes_at_level_request_are_applied(tmp_path: Path) -> None:
    events = [
        *story()[:1],
        event(2, "patch", "nodes", "a", request={"spec": {"unschedulable": True}}),
        event(3, "patch", "nodes", "a", request=[{"op": "add", "path": "/metadata/labels/zone", "value": "z1"}]),
        event(4, "delete", "nodes", "a"),
    ]
    history, problems = imported(tmp_path, events)
    _, cordoned, labelled, removed = history.events()
    assert cordoned.document["spec"]["unschedulable"] is True
    assert labelled.document["metadata"]["labels"] == {"zone": "z1"}
    assert type(removed).__name__ == "NodeRemoved"
    assert problems == []


def test_a_pod_without_a_name_that_was_never_bound_arrives(tmp_path: Path) -> None:
    sent = stored("x", 2)
    sent["metadata"] = {"generateName": "waits-"}
    imported(tmp_path, [*story()[:1], event(2, "create", "pods", "", request=sent)])
    assert [row[:2] for row in rows_of(tmp_path / "h")] == [("node_added", "a"), ("pod_arrived", "waits-unbound-0")]


def _cut(events: Sequence[Event]) -> bytes:
    return lines(events)[:-30]


def _jump(events: Sequence[Event]) -> bytes:
    late = [{**each, "stageTimestamp": at(number - 400).isoformat()} for number, each in enumerate(events[3:])]
    return lines([*events[:3], *late, {**events[0], "auditID": "end", "stageTimestamp": at(80).isoformat()}])


def _without(*left_out: int) -> Callable[[Sequence[Event]], bytes]:
    return lambda events: lines([each for number, each in enumerate(events) if number not in left_out])


BAD: dict[str, tuple[Callable[[Sequence[Event]], bytes], str]] = {
    "a line that is cut off": (_cut, "a line is cut off: left out (/"),
    "a line in the middle that is cut off": (
        lambda events: lines(events[:2]) + b'{"kind":"Ev\n' + lines(events[2:]),
        "a line is not JSON: left out",
    ),
    "text": (lambda events: b"E0302 panic\n" + lines(events), "a line is not JSON: left out"),
    "other JSON": (lambda events: b'{"level":"info"}\n' + lines(events), "not an audit event of audit.k8s.io/v1"),
    "a clock that jumps": (_jump, "the clock goes back: time counts as if it had stood still"),
    "a creation that is missing": (
        lambda events: lines([{k: v for k, v in e.items() if k != "responseObject"} for e in _less(events, 3)]),
        "the creation of a pod is not in the log",
    ),
    "a node that is missing": (_without(0), "the log shows no node"),
    "an event without time": (
        lambda events: lines(
            [*events, {**events[0], "auditID": "x", "stageTimestamp": 3, "requestReceivedTimestamp": ""}]
        ),
        "an event has no valid stageTimestamp: left out",
    ),
    "level Metadata": (
        lambda events: lines([*events, event(80, "create", "pods", "meta")]),
        "an event of level Metadata has no object",
    ),
    "a deletion of many": (
        lambda events: lines([*events, event(80, "deletecollection", "pods")]),
        "a deletion of many objects names none of them",
    ),
    "a last deletion that is missing": (
        lambda events: lines([*events[:-1], event(200, "update", "nodes", "a", request=whole("Node", node("a")))]),
        "the last deletion of a pod is not in the log",
    ),
}


def _less(events: Sequence[Event], number: int) -> list[Event]:
    return [each for index, each in enumerate(events) if index != number]


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_the_rest_is_used(case: str, tmp_path: Path) -> None:
    spoil, message = BAD[case]
    (tmp_path / "audit.log").write_bytes(spoil(story()))
    result = CliRunner().invoke(
        main, ["history", "import", str(tmp_path / "audit.log"), "--to", str(tmp_path / "h")], catch_exceptions=False
    )
    assert result.exit_code == 0
    warnings = [line for line in result.output.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1, warnings
    assert message in warnings[0]
    history = History.open(tmp_path / "h")
    assert len(list(history.events())) >= 4
    assert any(message.removesuffix(" (/") in note for note in history.notes)


def test_a_compressed_file_that_is_cut_off(tmp_path: Path) -> None:
    whole_file = gzip.compress(lines(story()))
    (tmp_path / "audit.log.gz").write_bytes(whole_file[:-20])
    _, problems = import_audit([tmp_path / "audit.log.gz"], tmp_path / "h")
    assert any("is cut off: its rest is missing" in problem for problem in problems)
    assert rows_of(tmp_path / "h")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is no audit event about pods or nodes"),
        (b"hello\n", "there is no audit event about pods or nodes: a line is not JSON"),
        (lines([event(1, "get", "pods", "x")]), "there is no audit event about pods or nodes"),
        (b"\x1f\x8bnot gzip", "there is no audit event about pods or nodes: "),
    ],
)
def test_a_log_of_nothing_is_one_line_and_writes_nothing(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(content)
    result = CliRunner().invoke(main, ["history", "import", str(tmp_path / "audit.log"), "--to", str(tmp_path / "h")])
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert message in result.output
    assert not (tmp_path / "h").exists()


def test_a_snapshot_fills_in_what_the_log_does_not_have(tmp_path: Path) -> None:
    older = whole("Pod", pod("old", on="a", phase="Running"))
    later = stored("later", 20, on="a", phase="Running")
    snapshot = Snapshot.of([whole("Node", node("a")), older, later])
    events = [
        event(1, "patch", "nodes", "a", subresource="status", request={"status": {"conditions": []}}),
        event(5, "delete", "pods", "old", request={"gracePeriodSeconds": 0}),
    ]
    history, problems = imported(tmp_path, events, snapshot=snapshot)
    assert problems == []
    assert sorted(history.start().of_kind(POD)) == ["default/old"]
    assert [(type(found).__name__, found.time) for found in history.events()] == [("PodEnded", at(5))]


def test_show_says_what_a_history_has(tmp_path: Path) -> None:
    imported(tmp_path, story(responses=False))
    result = CliRunner().invoke(main, ["history", "show", str(tmp_path / "h")])
    assert result.output.splitlines() == [
        "audit log of 1 file",
        "  from 2026-03-02 08:00:01 to 2026-03-02 08:01:15 UTC (0:01:14)",
        "  2 pods in 1 segments",
        "  at the begin: nothing",
        f"  {_AS_SENT}",
    ]


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["history", "show", str(tmp_path / "none")])
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    with pytest.raises(HistoryError):
        History.open(tmp_path / "none")
