import zipfile
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.history.small_histories import BEGIN, at, node, pod

from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.k8shark import import_k8shark, is_k8shark
from bayplan.core.api.times import rfc3339
from bayplan.faces.cli import main

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"


class Capture:
    """A capture that is being made."""

    def __init__(self, version: int = 2) -> None:
        self.version = version
        self.index: dict[str, dict] = {}
        self.watched: dict[str, dict] = {}
        self.records: dict[str, bytes] = {}

    def listed(self, seconds: float, path: str, *items: dict, version: int | None = None, code: int = 200) -> None:
        metadata = {} if version is None else {"resourceVersion": str(version)}
        self._record(self.index, seconds, path, {"kind": "List", "metadata": metadata, "items": list(items)}, code=code)

    def event(self, seconds: float, path: str, kind: str, obj: dict) -> None:
        self._record(self.watched, seconds, path, obj, event_type=kind)

    def _record(self, index, seconds, path, body, code=200, **more):
        entry = index.setdefault(path, {"api_path": path, "seqs": [], "times": []})
        seq = sum(len(each.get(path, {}).get("seqs", ())) for each in (self.index, self.watched))
        time = (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
        entry["seqs"].append(seq)
        entry["times"].append(time)
        record = {"id": "1", "captured_at": time, "api_path": path, "http_method": "GET", "response_code": code, **more}
        place = f"records/{sha256(path.encode()).hexdigest()[:16]}/{seq}.json.zst"
        self.records[place] = msgspec.json.encode({**record, "response_body": body})

    def save(self, path: Path, leave_out: tuple[str, ...] = (), **metadata: object) -> Path:
        header = {"format_version": self.version, "captured_at": rfc3339(BEGIN), "captured_until": rfc3339(at(100))}
        codec = pa.Codec("zstd")
        with zipfile.ZipFile(path, "w") as archive:
            indexes = {"index.json.zst": self.index, "watch-index.json.zst": self.watched}
            for name, index in indexes.items():
                if index:
                    found = {"entries": index} if self.version > 1 else index
                    self.records[name] = msgspec.json.encode(found)
            for name, content in self.records.items():
                if name not in leave_out:
                    archive.writestr(f"k8shark-capture/{name}", codec.compress(content, asbytes=True))
            watching = {"watch_enabled": bool(self.watched)}
            archive.writestr("k8shark-capture/metadata.json", msgspec.json.encode({**header, **watching, **metadata}))
        return path


def versioned(obj: dict, version: int, created: float | None = None) -> dict:
    metadata = {**obj["metadata"], "resourceVersion": str(version)}
    if created is not None:
        metadata["creationTimestamp"] = rfc3339(at(created))
    return {**obj, "metadata": metadata}


def happened(folder: Path) -> list[tuple[float, str, str]]:
    return [
        ((event.time - BEGIN).total_seconds(), type(event).__name__, getattr(event, "key", "") or event.name)
        for event in History.open(folder).events()
    ]


def polled() -> Capture:
    capture = Capture()
    capture.listed(0, NODES, node("a"))
    old, new = pod("old", on="a", phase="Running"), versioned(pod("new", on="a", phase="Running"), 20, created=12)
    new["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(at(14))}]
    capture.listed(1, PODS, versioned(old, 10), version=10)
    capture.listed(30, PODS, versioned(old, 10), new, version=25)
    capture.listed(60, PODS, new, version=40)
    capture.listed(0, "/api/v1/namespaces/default/pods?as=Table")
    capture.listed(0, "/openapi/v3")
    return capture


@pytest.mark.parametrize("version", [1, 2])
def test_lists_become_events(tmp_path: Path, version: int) -> None:
    capture = polled()
    capture.version = version
    path = capture.save(tmp_path / "c.kshrk")
    assert is_k8shark(path)
    _, problems = import_k8shark(path, tmp_path / "h")
    assert problems == []
    assert happened(tmp_path / "h") == [
        (12, "PodArrived", "default/new"),  # as its creationTimestamp says
        (14, "PodBound", "default/new"),
        (60, "PodEnded", "default/old"),
    ]
    history = History.open(tmp_path / "h")
    assert (history.begin, history.end) == (BEGIN, at(100))
    assert [line.partition(":")[0] for line in history.notes] == ["the capture has lists from time to time"]
    assert sum(len(known) for known in history.start().documents.values()) == 2


def test_events_of_watches_are_used_and_older_versions_are_not(tmp_path: Path) -> None:
    capture = Capture()
    capture.listed(0, NODES, node("a"))
    capture.listed(1, PODS, version=10)
    capture.event(5, PODS, "ADDED", versioned(pod("new"), 11))
    capture.event(7, PODS, "MODIFIED", versioned(pod("new", on="a"), 13))
    capture.listed(8, PODS, versioned(pod("new"), 11), version=12)  # it was asked before the binding
    capture.event(9, PODS, "ADDED", versioned(pod("more"), 15))
    capture.listed(10, PODS, versioned(pod("new", on="a"), 13), version=14)  # and this one before the pod came
    capture.event(20, PODS, "DELETED", versioned(pod("new", on="a"), 16))
    capture.listed(21, PODS, versioned(pod("new", on="a"), 13), versioned(pod("more"), 15), version=15)
    _, problems = import_k8shark(capture.save(tmp_path / "c"), tmp_path / "h")
    assert problems == []
    assert happened(tmp_path / "h") == [
        (5, "PodArrived", "default/new"),
        (7, "PodBound", "default/new"),
        (9, "PodArrived", "default/more"),
        (20, "PodEnded", "default/new"),
    ]
    assert History.open(tmp_path / "h").notes == ()


def test_faults_are_one_line_each_and_the_rest_is_used(tmp_path: Path) -> None:
    capture = polled()
    capture.listed(2, "/apis/apps/v1/deployments", code=403)
    capture.index["/api/v1/services"] = {"seqs": "none"}
    last = [name for name in capture.records if name.endswith("/2.json.zst")]
    _, problems = import_k8shark(capture.save(tmp_path / "c", leave_out=tuple(last)), tmp_path / "h")
    assert sorted(problems) == [
        "an entry is missing or damaged: left out (2 times, first at index: /api/v1/services)",
        "the API server refused a list: its objects are missing (/apis/apps/v1/deployments: 403)",
    ]
    assert happened(tmp_path / "h")[0] == (12, "PodArrived", "default/new")


def test_files_that_can_not_be_used_are_one_line(tmp_path: Path) -> None:
    newer = polled().save(tmp_path / "newer.kshrk", format_version=3)
    empty = polled().save(tmp_path / "empty.kshrk", leave_out=("index.json.zst",))
    encrypted = tmp_path / "secret.kshrk"
    encrypted.write_bytes(b"age-encryption.org/v1\n-> X25519 abc")
    later = polled().save(tmp_path / "later.kshrk")
    raw = later.read_bytes()
    members = raw.index(b"PK\x01\x02")
    later.write_bytes(raw[: members + 6] + b"\xff" + raw[members + 7 :])
    for path, message in (
        (newer, "has version 3 of the format"),
        (empty, "it has no index"),
        (encrypted, "it is encrypted"),
        (later, "no ZIP archive: zip file version 25.5"),
    ):
        assert is_k8shark(path)
        with pytest.raises(HistoryError, match=message):
            import_k8shark(path, tmp_path / "h")
        done = CliRunner().invoke(main, ["history", "import", str(path), "--to", str(tmp_path / "h")])
        assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("letter.txt", "dear")
    assert not is_k8shark(other)
    assert not is_k8shark(tmp_path)


def problem_of(path: Path, folder: Path) -> str:
    try:
        import_k8shark(path, folder)
    except HistoryError as error:
        return str(error)
    return ""


def test_any_changed_byte_of_the_list_of_members_is_one_line_at_most(tmp_path: Path) -> None:
    path = polled().save(tmp_path / "c.kshrk")
    whole = path.read_bytes()
    begin = whole.index(b"PK\x01\x02")
    for position in (*range(begin, begin + 50), *range(begin + 50, len(whole), 7)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xB0]) + whole[position + 1 :])
        assert is_k8shark(path) in {True, False}
        assert "\n" not in problem_of(path, tmp_path / f"h{position}")
