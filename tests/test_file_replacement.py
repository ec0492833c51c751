"""Replacing files: an old file is there until the new one is complete, whatever happens."""

import errno
import os
import resource
import signal
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.tables import cases

from bayplan.foundations.file_replacement import replace_text, replacing


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    return path


def alone(path):
    """Whether nothing was left beside a file."""
    return list(path.parent.iterdir()) == [path]


def test_content_is_replaced_at_the_end(old):
    with replacing(old) as file:
        file.write(b"new")
        file.flush()
        assert old.read_text() == "old"

    assert old.read_text() == "new"
    assert alone(old)


def test_error_keeps_the_old_content(old):
    with suppress(KeyError), replacing(old) as file:
        file.write(b"new")
        raise KeyError

    assert old.read_text() == "old"
    assert alone(old)


def test_full_disk_keeps_the_old_content(old):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as raised:
            replace_text(old, "new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert raised.value.errno == errno.EFBIG
    assert old.read_text() == "old"
    assert alone(old)


def test_killed_process_keeps_the_old_content(old):
    child = os.fork()
    if not child:
        with replacing(old) as file:
            file.write(b"new")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)

    assert old.read_text() == "old"


MODES = {
    "a new file": (None, False, 0o640),
    "a new private file": (None, True, 0o600),
    "an old file": (0o755, False, 0o755),
    "an old file that becomes private": (0o644, True, 0o600),
}


@cases("before, private, after", MODES)
def test_permissions(tmp_path, before, private, after):
    path = tmp_path / "file"
    if before is not None:
        path.touch()
        path.chmod(before)
    mask = os.umask(0o027)
    try:
        replace_text(path, "new", private=private)
    finally:
        os.umask(mask)

    assert stat.S_IMODE(path.stat().st_mode) == after


def test_symbolic_link_stays_one(old, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(old)
    replace_text(link, "new")

    assert link.is_symlink()
    assert old.read_text() == "new"


def test_device_is_written_to():
    replace_text("/dev/null", "new")

    assert Path("/dev/null").is_char_device()


def test_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        replace_text(tmp_path / "none" / "file", "new")
