"""Recording the embedded API server: lists, changes, lost watches, restarts, a full disk, redaction."""

import asyncio
import errno
import os
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.support.waiting import PATIENCE, until

from bayplan.answers.history.events import NodeAdded, NodeRemoved, PodArrived, PodBound, PodEnded
from bayplan.answers.history.format import HistoryCounts, HistoryError, HistoryManifest
from bayplan.answers.history.journal import convert_journal
from bayplan.answers.history.metrics import HistoryCollector
from bayplan.answers.history.reading import History
from bayplan.answers.history.recording import HistoryRecorder
from bayplan.answers.history.recording_session import RecorderPace
from bayplan.answers.history.redacting import Redactor
from bayplan.core.api.kinds import DEPLOYMENT, NODE, PERSISTENT_VOLUME_CLAIM, POD, SECRET
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load, make_client
from bayplan_devcluster.apiserver import Fault
from bayplan_devcluster.in_memory import InMemoryClient

QUICK = RecorderPace(tick_seconds=0.01, retry_seconds=0.01)


@asynccontextmanager
async def recording(client: InMemoryClient, folder: Path, **options) -> AsyncIterator[HistoryRecorder]:
    recorder = HistoryRecorder(client, folder, "cluster test", **{"pace": QUICK, **options})
    task = asyncio.create_task(recorder.run())
    try:
        async with asyncio.timeout(10):
            await recorder.synced.wait()
        yield recorder
    finally:
        task.cancel()
        await asyncio.wait((task,))


def lines(folder: Path) -> str:
    """What the journal and the segments have about pods and nodes."""
    return " ".join(f"{row.event}:{row.name}" for row in History.open(folder).rows() if row.kind in {"Pod", "Node"})


async def bind(client: InMemoryClient, name: str, node: str) -> None:
    await client.bind("default", name, node)


async def test_a_cluster_is_recorded(tmp_path: Path) -> None:
    client = make_client(make_node("a"), make_pod("old", node="a"))
    async with recording(client, tmp_path / "h"):
        load(client.server, make_pod("new"), make_node("b"))
        await until(lambda: "pod_arrived:new" in lines(tmp_path / "h"))
        await bind(client, "new", "a")
        await until(lambda: "pod_bound:new" in lines(tmp_path / "h"))
        await client.delete(POD, "new", "default", grace_period_seconds=0)
        await client.delete(NODE, "b")
        await until(lambda: "node_removed:b" in lines(tmp_path / "h"))

    history = History.open(tmp_path / "h")
    assert (history.source, history.gaps, history.problems, history.pods) == ("cluster test", (), (), 2)
    start = history.start()
    assert list(start.of_kind(NODE)) == ["a"]
    assert start.document(POD, "default/old")["spec"]["nodeName"] == "a"
    kinds = [type(event) for event in history.events() if not type(event).__name__.startswith("Object")]
    assert sorted(kinds, key=str) == sorted([PodArrived, NodeAdded, PodBound, PodEnded, NodeRemoved], key=str)
    assert not list((tmp_path / "h").glob("journal-*"))
    assert not start.of_kind(SECRET)
    assert {sent.info.verb for sent in client.transport.requests if "old" not in str(sent)} <= {
        "list",
        "watch",
        "create",
        "delete",
    }


async def test_the_status_of_workloads_is_no_event(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app"}]},
            },
        },
    }
    load(client.server, deployment)
    async with recording(client, tmp_path / "h"):
        await client.patch(DEPLOYMENT, "web", {"status": {"observedGeneration": 1}}, "default", subresource="status")
        load(client.server, make_pod("after"))
        await until(lambda: "pod_arrived:after" in lines(tmp_path / "h"))
    rows = [row for row in History.open(tmp_path / "h").rows() if row.kind == "Deployment"]
    assert [(row.event, row.initial) for row in rows] == [("object_added", True)]


async def test_segments_are_begun_when_they_are_full(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    async with recording(client, tmp_path / "h", pace=RecorderPace(segment_rows=2, tick_seconds=0.01)):
        for number in range(6):
            load(client.server, make_pod(f"p{number}"))
            await until(lambda number=number: f"pod_arrived:p{number}" in lines(tmp_path / "h"))
            await until(lambda number=number: len(list((tmp_path / "h").glob("events-*"))) > number // 3)
    assert len(list((tmp_path / "h").glob("events-*"))) >= 3
    history = History.open(tmp_path / "h")
    assert history.pods == 6
    assert history.problems == ()
    manifest = msgspec.json.decode((tmp_path / "h" / "history.json").read_bytes(), type=HistoryManifest)
    assert (manifest.counts.pods, manifest.counts.segments) == (6, len(history.segments))


async def test_a_recorder_that_stops_in_a_conversion_counts_all_segments(tmp_path: Path, monkeypatch) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def slowly(folder: Path, segment: int, counts: HistoryCounts) -> None:
        begun.set()
        stopped.wait(PATIENCE)
        convert_journal(folder, segment, counts)

    monkeypatch.setattr("bayplan.answers.history.recording_session.convert_journal", slowly)
    client = make_client(make_node("a"), make_pod("p"))
    async with recording(client, tmp_path / "h", pace=RecorderPace(segment_rows=2, tick_seconds=0.01)):
        await until(begun.is_set)
        asyncio.get_running_loop().call_soon(stopped.set)  # once the recorder is being stopped
    manifest = msgspec.json.decode((tmp_path / "h" / "history.json").read_bytes(), type=HistoryManifest)
    segments = History.open(tmp_path / "h").segments
    assert (manifest.counts.pods, manifest.counts.segments) == (1, len(segments))


async def test_a_restart_is_a_gap_and_what_changed_in_between_is_known(tmp_path: Path) -> None:
    client = make_client(make_node("a"), make_pod("stays", node="a"), make_pod("goes", node="a"))
    async with recording(client, tmp_path / "h"):
        pass
    await client.delete(POD, "goes", "default", grace_period_seconds=0)
    load(client.server, make_pod("comes"))
    async with recording(client, tmp_path / "h"):
        await until(lambda: "pod_arrived:comes" in lines(tmp_path / "h"))

    history = History.open(tmp_path / "h")
    (gap,) = history.gaps
    assert (gap.reason, gap.end is not None) == ("the recorder was not running", True)
    assert sorted(history.start().of_kind(POD)) == ["default/goes", "default/stays"]
    found = {(type(event).__name__, event.key) for event in history.events() if hasattr(event, "uid")}
    assert found == {("PodEnded", "default/goes"), ("PodArrived", "default/comes")}
    assert history.problems == ()


def measured(recorder: HistoryRecorder) -> dict[str, float]:
    """The metrics of a recorder by their names, without what all of them begin with."""
    families = HistoryCollector(recorder).collect()
    return {each.name.removeprefix("bayplan_history_"): each.value for family in families for each in family.samples}


async def test_a_lost_watch_is_a_gap(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    async with recording(client, tmp_path / "h") as recorder:
        before = measured(recorder)
        assert (before["recording"], before["missed_kinds"], before["gaps_total"]) == (1, 0, 0)
        assert before["rows_total"] == len(list(History.open(tmp_path / "h").rows()))
        client.transport.reachable = False
        client.transport.end_streams(broken=True)
        await until(lambda: History.open(tmp_path / "h").gaps)
        await until(lambda: measured(recorder)["missed_kinds"] > 20)
        client.transport.reachable = True
        load(client.server, make_pod("late"))
        await until(lambda: "pod_arrived:late" in lines(tmp_path / "h"))
        await until(lambda: all(gap.end is not None for gap in History.open(tmp_path / "h").gaps))
        after = measured(recorder)
    (gap,) = History.open(tmp_path / "h").gaps
    assert gap.reason == "connection refused"
    assert gap.kinds[:2] in {("pods", "nodes"), ("nodes", "pods")}
    assert len(gap.kinds) > 20
    assert (after["recording"], after["missed_kinds"], after["gaps_total"]) == (1, 0, len(gap.kinds))
    assert re.match(r"no events of (pods, nodes|nodes, pods), \S+, \S+ and \d\d more kinds from ", str(gap))


async def test_an_expired_watch_is_a_gap(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    async with recording(client, tmp_path / "h"):
        client.transport.faults.add(Fault(verb="watch", resource="pods", answer=410, reason="Expired", times=1))
        client.transport.end_streams()
        await until(lambda: any("pods" in gap.kinds for gap in History.open(tmp_path / "h").gaps))


class Disk:
    """A disk that can be full: journals fail in the middle of a line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = os.write
        monkeypatch.setattr("bayplan.answers.history.journal.os.write", self.write)

    def write(self, file: int, data: bytes) -> int:
        if not self.full:
            return self._write(file, data)
        if len(data) > 10:
            return self._write(file, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_full_disk_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, disk = make_client(make_node("a")), Disk(monkeypatch)
    async with recording(client, tmp_path / "h") as recorder:
        disk.full = True
        load(client.server, make_pod("lost"))
        await until(lambda: "cannot write to" in recorder.problem)
        assert measured(recorder)["recording"] == 0
        disk.full = False
        await until(lambda: "pod_arrived:lost" in lines(tmp_path / "h"))
        await until(lambda: not recorder.problem)
        await until(lambda: all(gap.end is not None for gap in History.open(tmp_path / "h").gaps))
    history = History.open(tmp_path / "h")
    assert [gap.reason for gap in history.gaps] == ["nothing could be written (No space left on device)"]
    assert history.problems == ()
    assert "retrying in" in caplog.text


async def test_what_may_not_be_read_is_noted(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    client.transport.faults.add(
        Fault(resource="persistentvolumeclaims", answer=403, reason="Forbidden", message="no right")
    )
    async with recording(client, tmp_path / "h"):
        pass
    (note,) = History.open(tmp_path / "h").notes
    assert note.startswith("persistentvolumeclaims: ")
    assert note.endswith("pods with persistent volume claims seem unschedulable")
    assert not History.open(tmp_path / "h").start().of_kind(PERSISTENT_VOLUME_CLAIM)


async def test_a_redacted_recording_has_no_names(tmp_path: Path) -> None:
    secret = make_pod("payroll-db", labels={"team": "payroll-team"}, node="node-of-payroll")
    client = make_client(make_node("node-of-payroll"), secret)
    for _ in range(2):  # a restart goes on with the same names
        async with recording(client, tmp_path / "h", redaction=Redactor(b"k" * 32)):
            pass
    history = History.open(tmp_path / "h")
    assert history.redacted
    stored = b" ".join(path.read_bytes() for path in (tmp_path / "h").iterdir())
    assert b"payroll" not in stored
    assert not any("payroll" in str(row) for row in history.rows())
    (pod,) = (document for document in history.start().objects() if document["kind"] == "Pod")
    (node,) = history.start().of_kind(NODE)
    assert pod["spec"]["nodeName"] == node
    assert list(history.events()) == []


async def test_a_redacted_recording_cannot_go_on_with_names(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    async with recording(client, tmp_path / "h", redaction=Redactor(b"k" * 32)):
        pass
    with pytest.raises(HistoryError, match="can't be continued without --redact"):
        await HistoryRecorder(client, tmp_path / "h", "cluster test", pace=QUICK).run()


async def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(HistoryError, match="a history needs a folder of its own"):
        await HistoryRecorder(make_client(), tmp_path, "cluster test").run()


def events_of_pods(folder: Path) -> list[tuple[str, str]]:
    """What happened to pods after the start."""
    rows = History.open(folder).rows()
    return sorted((row.event, row.name) for row in rows if row.kind == "Pod" and not row.initial)


async def finish(client: InMemoryClient, name: str) -> None:
    await client.patch(POD, name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")


async def test_pods_that_had_completed_before_never_come_however_often_the_recorder_restarts(tmp_path: Path) -> None:
    client = make_client(make_node("a"), make_pod("before", node="a"), make_pod("runs", node="a"))
    await finish(client, "before")
    for number in range(3):
        async with recording(client, tmp_path / "h"):
            load(client.server, make_pod(f"p{number}", node="a"))
            await until(lambda number=number: f"pod_bound:p{number}" in lines(tmp_path / "h"))
            await finish(client, f"p{number}")
            await until(lambda number=number: f"pod_ended:p{number}" in lines(tmp_path / "h"))
    expected = [(event, f"p{n}") for event in ("pod_arrived", "pod_bound", "pod_ended") for n in range(3)]
    assert events_of_pods(tmp_path / "h") == expected
    assert History.open(tmp_path / "h").pods == 4


async def test_what_ended_while_the_recorder_was_down_ended_in_the_gap(tmp_path: Path) -> None:
    pods = [make_pod(name, node="a") for name in ("completes", "is-deleted", "is-replaced", "stays")]
    client = make_client(make_node("a"), make_node("goes"), make_node("is-replaced"), *pods, make_pod("waits"))
    async with recording(client, tmp_path / "h"):
        pass
    await finish(client, "completes")
    for name in ("is-deleted", "is-replaced"):
        await client.delete(POD, name, "default", grace_period_seconds=0)
    for name in ("goes", "is-replaced"):
        await client.delete(NODE, name)
    await bind(client, "waits", "a")
    for kind, document in (as_sent(make_node("is-replaced")), as_sent(make_pod("is-replaced", node="a"))):
        document["metadata"].pop("uid", None)
        await client.create(kind, document)
    load(client.server, make_pod("comes-and-completes", node="a"))
    await finish(client, "comes-and-completes")
    async with recording(client, tmp_path / "h"):
        pass
    history = History.open(tmp_path / "h")
    assert events_of_pods(tmp_path / "h") == [
        ("pod_arrived", "is-replaced"),
        ("pod_bound", "is-replaced"),
        ("pod_bound", "waits"),
        ("pod_ended", "completes"),
        ("pod_ended", "is-deleted"),
        ("pod_ended", "is-replaced"),
    ]
    nodes = [(row.event, row.name) for row in history.rows() if row.kind == "Node" and not row.initial]
    assert sorted(nodes) == [("node_added", "is-replaced"), ("node_removed", "goes"), ("node_removed", "is-replaced")]
    (gap,) = history.gaps
    assert gap.end is not None
    assert all(gap.begin <= row.time_utc <= gap.end for row in history.rows() if not row.initial)


async def test_a_second_recorder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    client = make_client(make_node("a"))
    async with recording(client, tmp_path / "h"):
        with pytest.raises(HistoryError, match=r"is being recorded to by process \d+ on .*: name another folder"):
            await HistoryRecorder(client, tmp_path / "h", "cluster test", pace=QUICK).run()
        load(client.server, make_pod("later"))
        await until(lambda: "pod_arrived:later" in lines(tmp_path / "h"))
    async with recording(client, tmp_path / "h"):
        pass
    assert [gap.reason for gap in History.open(tmp_path / "h").gaps] == ["the recorder was not running"]
    assert not (tmp_path / "h" / ".lock").exists()


@pytest.mark.parametrize("freed", [True, False], ids=["the disk has room again", "the disk is full"])
async def test_a_recorder_that_is_stopped_while_the_disk_is_full_tries_once_more(
    freed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, disk = make_client(make_node("a")), Disk(monkeypatch)
    async with recording(client, tmp_path / "h", pace=RecorderPace(tick_seconds=0.01, retry_seconds=3600)) as recorder:
        disk.full = True
        load(client.server, make_pod("meanwhile"))
        await until(lambda: "cannot write to" in recorder.problem)
        assert measured(recorder)["recording"] == 0
        disk.full = not freed
    disk.full = False
    history = History.open(tmp_path / "h")
    assert history.problems == ()
    manifest = msgspec.json.decode((tmp_path / "h" / "history.json").read_bytes(), type=HistoryManifest)
    if freed:
        assert recorder.problem == ""
        assert "pod_arrived:meanwhile" in lines(tmp_path / "h")
        assert [gap.reason for gap in history.gaps] == ["nothing could be written (No space left on device)"]
        assert manifest.end is not None
    else:
        assert recorder.problem == f"cannot write to {tmp_path / 'h'}: No space left on device"
        assert manifest.end is None


async def test_a_recorder_that_is_stopped_just_after_the_disk_was_full_tries_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, disk = make_client(make_node("a")), Disk(monkeypatch)
    async with recording(client, tmp_path / "h", pace=RecorderPace(tick_seconds=0.01, retry_seconds=3600)) as recorder:
        disk.full = True
        load(client.server, make_pod("meanwhile"))
        await asyncio.sleep(0)
        disk.full = False
    assert recorder.problem == ""
    history = History.open(tmp_path / "h")
    assert "pod_arrived:meanwhile" in lines(tmp_path / "h")
    assert history.problems == ()
