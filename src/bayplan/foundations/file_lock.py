"""A lock that one process holds at a time, as a file. It ends with the process, also after kill -9."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HELD = frozenset({errno.EWOULDBLOCK, errno.EACCES})
_UNSUPPORTED = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""What filesystems without locks reply: there, each process has to take care itself."""


class AlreadyLocked(Exception):
    """Another process holds the lock. `holder`: that process, for messages, as in `process 17 on node-3`."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by {holder}")
        self.holder = holder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that is the file `path`, which exists while it is held, or after a kill.

    The file says which process holds it; only the lock on it counts. Raises AlreadyLocked, and OSError if the file
    can't be created.
    """
    descriptor = _held(path)
    try:
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # the disk may be full, and the lock holds without the text
            os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        with suppress(OSError):
            if _is(path, descriptor):
                path.unlink()  # before the lock ends, so that it isn't the file of the next process
        os.close(descriptor)


def _held(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 400, 0).decode(errors="replace").strip()
            if error.errno not in _UNSUPPORTED:
                os.close(descriptor)
                if error.errno in _HELD:
                    raise AlreadyLocked(path, holder or "another process") from None
                raise
        if _is(path, descriptor):
            return descriptor
        os.close(descriptor)  # its holder has just ended and removed the file


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
