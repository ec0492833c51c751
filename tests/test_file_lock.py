"""A lock is held by one process at a time, and ends with it, however it ends."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan.foundations.file_lock import AlreadyLocked, locked

_HOLD = """
import sys
from pathlib import Path
from bayplan.foundations.file_lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_and_the_message_names_the_first(tmp_path: Path) -> None:
    with hold(tmp_path / ".lock") as process:
        with pytest.raises(AlreadyLocked, match=rf"process {process.pid} on "), locked(tmp_path / ".lock"):
            pass
        process.communicate("")
    with locked(tmp_path / ".lock"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_second_holder_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path / ".lock"), pytest.raises(AlreadyLocked), locked(tmp_path / ".lock"):
        pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with hold(tmp_path / ".lock") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / ".lock").exists()
    with locked(tmp_path / ".lock"):
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")


def test_the_file_of_another_lock_stays(tmp_path: Path) -> None:
    with locked(tmp_path / ".lock"):
        (tmp_path / ".lock").unlink()
        (tmp_path / ".lock").write_text("another")
    assert (tmp_path / ".lock").read_text() == "another"


def test_a_file_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked(tmp_path / "none" / ".lock"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ELOOP), locked(tmp_path / "link"):
        pass


def test_a_filesystem_without_locks_is_used_without_them(tmp_path: Path, monkeypatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr("fcntl.flock", unsupported)
    with locked(tmp_path / ".lock"):
        pass
