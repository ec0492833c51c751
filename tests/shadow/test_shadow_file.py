"""The file that `bayplan shadow --state` keeps: who can read it, who may use it, and what a damaged one says."""

import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from shadowed import BEGIN, Shadowed, nodes

from bayplan.answers.shadow.record import MOST_BYTES, ShadowFileError, ShadowRecord
from bayplan.answers.shadow.report import write_shadow_report
from bayplan.answers.shadow.shown import ShadowReport
from bayplan.foundations.file_lock import locked

BAYPLAN = Path(sys.executable).with_name("bayplan")


@pytest.fixture
def record():
    cluster = Shadowed(*nodes(2))
    cluster.create("old", cpu="1", node="node-0")
    cluster.place("odd", "node-0", cpu="1")
    cluster.wait()
    cluster.place("good", "node-1", cpu="1")
    cluster.wait()
    record = ShadowRecord(["default-scheduler"], began=BEGIN, until=BEGIN, tally=cluster.shadow.tally)
    for each in cluster.found:
        record.add(each)
    return record


@pytest.fixture
def saved(record, tmp_path):
    record.save(tmp_path / "state")
    return tmp_path / "state"


def test_only_the_owner_can_read_what_is_written(record, saved, tmp_path):
    written = [saved, *(tmp_path / f"report.{ending}" for ending in ("html", "json", "parquet"))]
    for path in written[1:]:
        path.touch(mode=0o644)  # of an earlier version
        write_shadow_report(record, path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def loaded(path):
    try:
        return ShadowRecord.load(path), ""
    except ShadowFileError as error:
        return None, str(error)


def test_each_changed_byte_and_each_part_is_one_line(saved, record):
    """Where the change can be told, that is; a file whose checksum is gone has the same counts."""
    raw, rng = saved.read_bytes(), random.Random(3)
    damaged = [raw[:length] for length in range(len(raw))]
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 1 << rng.randrange(8)
        damaged.append(bytes(changed))
    read = 0
    for each in damaged:
        saved.write_bytes(each)
        found, message = loaded(saved)
        assert found is None or found == record
        assert (str(saved) in message and "\n" not in message) == (found is None)
        read += found is not None
    assert read <= len(b',"checksum":"')


@pytest.mark.parametrize(
    "content",
    {
        "empty": b"",
        "nothing": b"null",
        "deep": b'{"x":' * 100_000,
        "deep in a field": b'{"schedulers":[],"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
        "a huge count": b'{"tally":{"missed":1e308}',
        "a text in UTF-16": "{}".encode("utf-16"),
        "a long number": b'{"version":' + b"9" * 100_000 + b"}",
    }.values(),
    ids=lambda content: str(content[:20]),
)
def test_another_content_is_one_line(tmp_path, content):
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(ShadowFileError, match="name another"):
        ShadowRecord.load(tmp_path / "state")


@pytest.mark.parametrize(
    "change",
    [
        {"began": "0001-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59Z"},
        {"until": "2026-01-05T08:00:00"},
        {"tally": {"missed": -1}},
        {"tally": {"missed": 1e308}},
        {"agreement": {"seconds": 60, "intervals": [{"begin": "2026-03-02T08:00:00Z", "same": -5}]}},
        {"agreement": {"seconds": 60, "intervals": [{"begin": "2026-03-02T08:00:00Z"}] * 2}},
        {"guesses": [{"scheduler": "default-scheduler", "time": "2026-03-02T08:00:00Z", "bindings": -1, "known": 0}]},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_one_line(record, tmp_path, change):
    (tmp_path / "state").write_bytes(msgspec.json.encode({**msgspec.to_builtins(record), **change}))
    with pytest.raises(ShadowFileError, match="name another"):
        ShadowRecord.load(tmp_path / "state")


def test_a_file_without_a_checksum_is_one_of_an_earlier_version(record, tmp_path):
    (tmp_path / "state").write_bytes(msgspec.json.encode(record))
    found = ShadowRecord.load(tmp_path / "state")
    assert found == record
    assert "1 of 2 decisions equal" in ShadowReport(found).html()


def test_what_is_no_file_or_too_large_is_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    for name, message in (("pipe", "is not a file"), (".", "is not a file"), ("large", "is too large")):
        with pytest.raises(ShadowFileError, match=message):
            ShadowRecord.load(tmp_path / name)


def test_a_second_shadow_with_the_same_file_is_one_line(saved, tmp_path):
    (tmp_path / "link").symlink_to(saved)
    with locked(tmp_path / ".state.lock"):
        result = subprocess.run(
            [BAYPLAN, "shadow", "--state", tmp_path / "link", "--kubeconfig", "none"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert result.returncode == 2
    assert result.stderr == (
        f"bayplan shadow: {tmp_path / 'link'} is in use by process {os.getpid()} on {os.uname().nodename}: end that "
        "one, or name another file\n"
    )
