import sys
from pathlib import Path

import duckdb
import msgspec
import polars as pl
import pytest
from pyarrow import parquet
from tests.history.small_histories import BEGIN, at, node, pod, small_changes, write_small

from bayplan.answers.history.events import NodeChanged, NodeRemoved, Owner, PodArrived, PodBound, PodEnded
from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.history.format import EVENTS, HistoryError, MissingEvents, Row
from bayplan.answers.history.reading import History
from bayplan.answers.history.writing import write_history
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS, custom_kind


def test_a_history_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_small(tmp_path / "h")
    history = History.open(tmp_path / "h")

    assert (history.begin, history.end, history.source, history.synthetic) == (BEGIN, at(80), "a test", False)
    assert (history.pods, history.gaps, history.problems) == (2, (), ())
    arrived, *others = history.events()
    assert isinstance(arrived, PodArrived)
    assert (arrived.time, arrived.key, arrived.uid) == (at(10), "default/new", "uid-new")
    assert arrived.owner == Owner("ReplicaSet", "web")
    document = arrived.document
    assert (document["apiVersion"], document["kind"]) == ("v1", "Pod")
    assert document["metadata"]["name"] == "new"
    assert "nodeName" not in document["spec"]
    assert document["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m", "memory": "128Mi"}}
    bound, changed, ended, removed = others
    assert bound == PodBound(at(11), "default/new", "uid-new", "b")
    assert isinstance(changed, NodeChanged)
    assert changed.document["status"]["allocatable"]["cpu"] == "8"
    assert ended == PodEnded(at(70), "default/new", "uid-new", "Succeeded")
    assert removed == NodeRemoved(at(80), "a")


def test_the_start_is_a_snapshot(tmp_path: Path) -> None:
    write_small(tmp_path / "h")
    start = History.open(tmp_path / "h").start()
    assert (list(start.of_kind(NODE)), list(start.of_kind(PRIORITY_CLASS))) == (["a", "b"], ["high"])
    old = start.document(POD, "default/old")
    assert old is not None
    assert old["spec"]["nodeName"] == "a"
    assert old["status"] == {"phase": "Running", "startTime": "2026-03-02T07:59:05Z"}
    assert old["metadata"]["creationTimestamp"] == "2026-03-02T07:59:00Z"


def test_replicas_share_a_document(tmp_path: Path) -> None:
    write_small(tmp_path / "h")
    rows = [row for row in History.open(tmp_path / "h").rows() if row.kind == "Pod" and row.document]
    assert len(rows) == 2
    assert len({row.document for row in rows}) == 1
    assert (rows[0].cpu_millicores, rows[0].memory_bytes, rows[0].priority) == (500, 128 * 2**20, 7)


def test_a_heartbeat_is_no_event() -> None:
    following = Following()
    first, second = node("a"), node("a")
    second["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-03-02T08:00:10Z"
    second["metadata"]["resourceVersion"] = "18"
    assert len(list(following.put(NODE, first, at(0)))) == 1
    assert list(following.put(NODE, second, at(10))) == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed"}, "Failed"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}]},
            "PreemptionByScheduler",
        ),
    ],
)
def test_why_a_pod_ended(status: dict[str, str], reason: str) -> None:
    following = Following()
    list(following.put(POD, pod("p", on="a", phase="Running"), at(0)))
    (ended,) = following.put(POD, {**pod("p", on="a"), "status": status}, at(5))
    assert (ended.row.event, ended.row.reason) == ("pod_ended", reason)
    assert list(following.removed(POD, "default/p", at(6))) == []


def test_a_pod_that_replaces_another_of_its_name_ends_that_one() -> None:
    following = Following()
    list(following.put(POD, pod("p", on="a", phase="Running"), at(0)))
    second = pod("p")
    second["metadata"]["uid"] = "uid-2"
    rows = [change.row for change in following.put(POD, second, at(5))]
    assert [(row.event, row.uid) for row in rows] == [("pod_ended", "uid-p"), ("pod_arrived", "uid-2")]


def test_duckdb_and_polars_read_it(tmp_path: Path) -> None:
    write_small(tmp_path / "h")
    events, documents = f"{tmp_path}/h/events-*.parquet", f"{tmp_path}/h/documents-*.parquet"
    query = f"""
        select name, cpu_millicores, epoch(time_utc - lag(time_utc) over (order by time_utc)) as seconds
        from '{events}' join '{documents}' using (document) where event = 'pod_arrived' order by time_utc"""
    assert duckdb.sql(query).fetchall() == [("old", 500, None), ("new", 500, 10.0)]
    frame = pl.read_parquet(events)
    assert frame.columns == list(Row.__struct_fields__)
    assert set(frame["event"]) <= set(EVENTS)
    assert frame.schema["time_utc"] == pl.Datetime("us", "UTC")


def test_the_number_of_rows_of_a_segment_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.answers.history.writing.ROWS", 3)
    manifest = write_small(tmp_path / "h")
    assert manifest.counts.segments == len(list((tmp_path / "h").glob("events-*.parquet"))) == 4
    monkeypatch.undo()
    write_small(tmp_path / "other")
    several, one = History.open(tmp_path / "h"), History.open(tmp_path / "other")
    assert list(several.events()) == list(one.events())
    assert list(several.start().objects()) == list(one.start().objects())


def test_the_same_changes_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_small(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_gaps_come_back(tmp_path: Path) -> None:
    gaps = [
        MissingEvents(at(30), at(40), "pods: the connection was lost"),
        MissingEvents(at(50), None, "the recorder was killed"),
    ]
    write_history(tmp_path / "h", small_changes(), source="a test", gaps=gaps)
    history = History.open(tmp_path / "h")
    assert list(history.gaps) == gaps
    assert str(history.gaps[0]) == (
        "no events from 2026-03-02 08:00:30 UTC to 2026-03-02 08:00:40 UTC: pods: the connection was lost"
    )


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _three_segments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.answers.history.writing.ROWS", 4)
    write_small(folder)


BROKEN = {
    "truncated": (_truncate, "events-000002.parquet: it is truncated or damaged"),
    "empty": (lambda path: path.write_bytes(b""), "events-000002.parquet: it is truncated or damaged"),
    "other columns": (
        lambda path: pl.DataFrame({"a": [1]}).write_parquet(path),
        "events-000002.parquet: it has no column time_utc",
    ),
    "bytes in the middle": (
        lambda path: path.write_bytes((raw := path.read_bytes())[:200] + b"\xff" * 200 + raw[400:]),
        "events-000002.parquet: it is truncated or damaged",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_segment_costs_only_itself(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _three_segments(tmp_path / "h", monkeypatch)
    spoil, message = BROKEN[case]
    spoil(tmp_path / "h" / "events-000002.parquet")
    history = History.open(tmp_path / "h")
    (problem,) = history.problems
    assert problem.startswith(message)
    assert problem.endswith("this segment is left out")
    assert "\n" not in problem
    assert len(list(history.events())) == 2
    assert len(history.start()) == 4


def test_missing_documents_cost_only_their_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _three_segments(tmp_path / "h", monkeypatch)
    (tmp_path / "h" / "documents-000002.parquet").unlink()
    history = History.open(tmp_path / "h")
    assert history.problems == ("documents-000002.parquet: there is no such file: this segment is left out",)


def test_a_newer_version_names_the_remedy(tmp_path: Path) -> None:
    write_small(tmp_path / "h")
    manifest = msgspec.json.decode((tmp_path / "h" / "history.json").read_bytes())
    (tmp_path / "h" / "history.json").write_bytes(msgspec.json.encode(manifest | {"version": 2, "bayplan": "9.0"}))
    with pytest.raises(HistoryError, match=r"of version 2, written by bayplan 9.0; .* up to version 1: upgrade it"):
        History.open(tmp_path / "h")


@pytest.mark.parametrize(
    "content", [None, b"{", b"[]", b'{"format":"bayplan-history","version":1,"begin":"2026-03-02T08:00:00"}']
)
def test_without_a_manifest_the_source_is_unknown(content: bytes | None, tmp_path: Path) -> None:
    write_small(tmp_path / "h")
    if content is None:
        (tmp_path / "h" / "history.json").unlink()
    else:
        (tmp_path / "h" / "history.json").write_bytes(content)
    history = History.open(tmp_path / "h")
    assert len(history.problems) == 1
    assert "the source is unknown" in history.problems[0]
    assert len(list(history.events())) == 5


def test_clocks_that_go_back_are_said_and_clamped(tmp_path: Path) -> None:
    following = Following()
    changes = [
        *following.put(NODE, node("a"), at(0), initial=True),
        *following.put(POD, pod("p"), at(100)),
        *following.put(POD, pod("q"), at(40)),
    ]
    write_history(tmp_path / "h", changes[:2], source="a test")
    write_history(tmp_path / "later", changes[2:], source="a test")
    for name in ("events", "documents"):
        (tmp_path / "later" / f"{name}-000001.parquet").rename(tmp_path / "h" / f"{name}-000002.parquet")
    history = History.open(tmp_path / "h")
    assert history.problems == (
        "the clock went back by 60.0 s after 2026-03-02 08:01:40 UTC: later events count as if it had stood still",
    )
    assert [event.time for event in history.events()] == [at(100), at(100)]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: None, "there is no such folder"),
        (Path.mkdir, "is an empty history: it has no events"),
        (lambda folder: folder.write_text("x"), "there is no such folder"),
    ],
)
def test_no_history_is_one_line(prepare, message: str, tmp_path: Path) -> None:
    prepare(tmp_path / "h")
    with pytest.raises(HistoryError, match=message):
        History.open(tmp_path / "h")


def test_an_empty_source_is_no_history(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no history to write"):
        write_history(tmp_path / "h", iter(()), source="nothing")


def test_a_history_never_replaces_another(tmp_path: Path) -> None:
    write_small(tmp_path)
    with pytest.raises(HistoryError, match="has a history already"):
        write_small(tmp_path)


def test_unknown_events_and_kinds_are_counted(tmp_path: Path) -> None:
    rows = [Row(at(95), "pod_sneezed", kind="Pod", api_version="v1"), Row(at(95), "object_added", kind="Pot")]
    document = next(small_changes()).document
    assert document is not None
    rows[1].document, rows[1].api_version = document.document, "v1"
    write_history(tmp_path / "h", [*small_changes(), *(HistoryChange(row) for row in rows)], source="a test")
    history = History.open(tmp_path / "h")
    assert len(history.problems) == 2
    assert "1 events 'pod_sneezed' are unknown" in history.problems[0]
    assert "1 events about v1 Pot are unknown" in history.problems[1]
    assert len(list(history.events())) == 5


def test_without_pyarrow_one_line_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_small(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HistoryError, match=r"pip install 'bayplan\[history\]'"):
        History.open(tmp_path)


def test_the_schema_of_the_files_is_that_of_the_rows(tmp_path: Path) -> None:
    write_small(tmp_path)
    assert parquet.read_schema(tmp_path / "events-000001.parquet").names == list(Row.__struct_fields__)


def test_custom_objects_keep_their_kind(tmp_path: Path) -> None:
    following, kind = Following(), custom_kind("podgroups.v1alpha1.scheduling.x-k8s.io")
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}
    changes = [
        *following.put(kind, group, at(0), initial=True),
        *following.put(kind, {**group, "kind": "PodGroup", "spec": {"minMember": 3}}, at(5)),
        *following.removed(kind, "default/g", at(6)),
    ]
    write_history(tmp_path / "h", changes, source="a test")
    history = History.open(tmp_path / "h")
    assert history.problems == ()
    assert list(history.start().of_kind(kind)) == ["default/g"]
    assert [(type(event).__name__, event.kind, event.key) for event in history.events()] == [
        ("ObjectChanged", kind, "default/g"),
        ("ObjectRemoved", kind, "default/g"),
    ]
