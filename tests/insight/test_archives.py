"""Saved snapshots: they load as they were, and any other file is one clear error."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest
from bayplan_documents import document

from bayplan.api.kinds import NODE, STORAGE_CLASS, custom_kind
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


@pytest.mark.parametrize("read", [Snapshot.load, Snapshot.open], ids=["load", "open"])
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

    assert refusal(saved) == " is cut off: the snapshot was not written or copied completely"


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


@pytest.mark.parametrize(("damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_file_that_is_no_snapshot_is_reported(saved, damage, message):
    saved.write_bytes(damage(saved.read_bytes()))

    assert refusal(saved).startswith(message)


@pytest.mark.parametrize(
    "edit",
    [
        lambda header, lines: [json.dumps(header).encode(), *lines[:-1]],
        lambda header, lines: [json.dumps(header).encode(), *lines, b"{}"],
        lambda header, lines: [json.dumps(header).encode(), b"[]", *lines[1:]],
        lambda header, lines: [json.dumps(header).encode(), lines[0], b"{}", *lines[2:]],
        lambda header, lines: [json.dumps(header | {"taken": "soon"}).encode(), *lines],
    ],
    ids=["lost object", "extra object", "no kind", "no metadata", "no time"],
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
