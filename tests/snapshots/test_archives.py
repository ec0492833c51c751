"""Saved snapshots: they load as they were, and any other file is one clear error."""

import gzip
import json
import stat
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.insight.bayplan_documents import document
from tests.support.tables import cases

from bayplan.answers.snapshots import archive
from bayplan.core.api.kinds import NODE, STORAGE_CLASS, custom_kind
from bayplan.foundations import bounded_files
from bayplan.insight import Gap, Snapshot, SnapshotError

GROUP = document("PodGroup", "gang", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 2})
ZONE = document("Data", "one", "example.com/v1", namespace="")
ZONE["metadata"]["uid"] = "1234"
OBJECTS = [
    document("Node", "a", namespace=""),
    document("Pod", "web"),
    document("Pod", "web", namespace="b"),
    GROUP,
    ZONE,
]
TAKEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def snapshot():
    gaps = [Gap(STORAGE_CLASS, "no right", "no volumes"), Gap(custom_kind("things.v1.example.com"), "b", "c")]
    return Snapshot.of(OBJECTS, source="cluster dev", taken=TAKEN, gaps=gaps)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "dev.bayplan"
    snapshot().save(path)
    return path


@cases("read", {"load": Snapshot.load, "open": Snapshot.open})
def test_saved_snapshot_loads_as_it_was(saved, read):
    before, after = snapshot(), read(saved)

    assert list(after.documents) == list(before.documents)
    assert list(after.objects()) == OBJECTS
    assert (after.source, after.taken) == ("cluster dev", TAKEN)
    assert list(map(str, after.gaps)) == list(map(str, before.gaps))


def test_empty_snapshot_is_saved_and_loaded(tmp_path):
    Snapshot().save(tmp_path / "empty")

    assert len(Snapshot.load(tmp_path / "empty")) == 0


def test_same_snapshot_is_saved_as_the_same_bytes(saved, tmp_path):
    Snapshot.load(saved).save(tmp_path / "again")

    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def rewritten(path, edit):
    lines = gzip.decompress(path.read_bytes()).splitlines()
    header = json.loads(lines[0])
    path.write_bytes(gzip.compress(b"\n".join(edit(header, lines[1:]))))


def refusal(path):
    with pytest.raises(SnapshotError) as raised:
        Snapshot.load(path)
    message = str(raised.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_cut_off_snapshot_is_reported(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(len(content) * share)])

    assert refusal(saved) == " is cut off: it was not written or copied completely"


def test_newer_snapshot_is_reported(saved):
    newer = {"version": 2, "bayplan": "9.0", "source": {"other": "type"}}
    rewritten(saved, lambda header, lines: [json.dumps(header | newer).encode(), *lines])

    message = refusal(saved)
    assert message.startswith(" is a snapshot of version 2, written by bayplan 9.0; this is bayplan ")
    assert message.endswith(", which reads snapshots up to version 1: upgrade it")


DAMAGED = {
    "flipped bytes": (lambda content: content[:40] + bytes(4) + content[44:], " is damaged: "),
    "text": (lambda _: b"hello", " is not a saved snapshot: it is not compressed"),
    "nothing": (lambda _: b"", " is not a saved snapshot: it is not compressed"),
    "other compressed text": (
        lambda _: gzip.compress(b"hello"),
        " is not a saved snapshot: the compressed file has other contents",
    ),
    "other compressed JSON": (
        lambda _: gzip.compress(b'{"kind": "List"}'),
        " is not a saved snapshot: the compressed file has other contents",
    ),
}


@cases("damage, message", DAMAGED)
def test_file_that_is_no_snapshot_is_reported(saved, damage, message):
    saved.write_bytes(damage(saved.read_bytes()))

    assert refusal(saved).startswith(message)


@cases(
    "edit",
    {
        "lost object": lambda header, lines: [json.dumps(header).encode(), *lines[:-1]],
        "extra object": lambda header, lines: [json.dumps(header).encode(), *lines, b"{}"],
        "no kind": lambda header, lines: [json.dumps(header).encode(), b"[]", *lines[1:]],
        "no metadata": lambda header, lines: [json.dumps(header).encode(), lines[0], b"{}", *lines[2:]],
        "no time": lambda header, lines: [json.dumps(header | {"taken": "soon"}).encode(), *lines],
    },
)
def test_damaged_contents_are_reported(saved, edit):
    rewritten(saved, edit)

    assert refusal(saved).startswith(" is damaged: ")


def test_missing_file_is_reported(tmp_path):
    assert refusal(tmp_path / "none") == ": No such file or directory"


def test_path_that_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(SnapshotError, match=r"cannot write .*: No such file or directory"):
        snapshot().save(tmp_path / "none" / "file")


def test_changed_snapshot_is_saved_with_its_changes(tmp_path):
    snapshot().but(remove=[(NODE, "a")]).save(tmp_path / "changed")

    assert not Snapshot.load(tmp_path / "changed").of_kind(NODE)


@cases("redact, mode", {"whole": (False, 0o600), "redacted": (True, 0o644)})
def test_only_a_redacted_snapshot_can_be_read_by_others(tmp_path, redact, mode):
    path = tmp_path / "dev.bayplan"
    path.touch(mode=0o644)
    snapshot().save(path, redact=redact)

    assert stat.S_IMODE(path.stat().st_mode) == mode


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(inside=True, changes=[(0.003, 0x80)])  # a field's name that is not UTF-8
@given(inside=st.booleans(), changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=3))
def test_changed_bytes_are_one_clear_error_or_do_no_harm(saved, inside, changes):
    whole = saved.read_bytes()
    content = bytearray(gzip.decompress(whole) if inside else whole)
    for place, byte in changes:
        content[int(place * len(content))] = byte
    path = saved.with_name("damaged")
    path.write_bytes(gzip.compress(content, 1) if inside else content)

    with suppress(SnapshotError):
        Snapshot.open(path)


UTF_8 = "'utf-8' codec can't decode byte"


@cases("line", {"header": 0, "kind": 1, "object": 2})
def test_text_that_is_not_utf_8_is_reported(saved, line):
    lines = gzip.decompress(saved.read_bytes()).splitlines()
    lines[line] = lines[line].replace(b'"a"', b'"\xff"').replace(b"Node", b"N\xffde").replace(b"dev", b"\xff")
    saved.write_bytes(gzip.compress(b"\n".join(lines)))

    assert UTF_8 in (message := refusal(saved)) or "other contents" in message


BOMBS = {
    "one line": b"[" + b" " * 190_000,
    "objects": b"\n".join(
        [
            b'{"format":"bayplan-snapshot","version":1,"kinds":1}',
            b'{"kind":{"group":"","version":"v1","kind":"Node","plural":"nodes","namespaced":false},"objects":900000}',
            *(b'{"metadata":{"name":"a"}}' for _ in range(9_000)),
        ]
    ),
}


@cases("content", BOMBS)
def test_small_file_cannot_fill_the_memory(tmp_path, monkeypatch, content):
    monkeypatch.setattr(archive, "LONGEST_LINE", 100_000)
    monkeypatch.setattr(bounded_files, "ALWAYS", 200_000)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(content))

    assert refusal(path).startswith((" is not a saved snapshot: a line is longer than", " inflates to more than 0 MiB"))
