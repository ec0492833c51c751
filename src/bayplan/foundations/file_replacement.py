"""Replaces files as a whole: a reader, a full disk or a killed process never leaves a part of one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE, USUAL = 0o600, 0o666


@contextmanager
def replacing(path: str | Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file whose content replaces that of `path` when the context ends, and is dropped if it fails.

    The content is written to a new file in the same directory, flushed to the disk, and renamed. `private`: only the
    owner can read it; otherwise an existing file keeps its permissions. A symbolic link stays one. What isn't a regular
    file, such as /dev/stdout, is written to directly. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as file:
            yield file
        return
    beside = target.with_name(f".bayplan-{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE if private else USUAL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None and not private:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            beside.unlink()
        raise
    _flush_directory(target.parent)


def replace_text(path: str | Path, text: str, *, private: bool = False) -> None:
    """Replace the content of a file with a text in UTF-8, as `replacing` does. Raises OSError."""
    with replacing(path, private=private) as file:
        file.write(text.encode())


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _flush_directory(folder: Path) -> None:
    """Have the new name survive a crash of the machine. Some file systems can't; the file is complete there, too."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
