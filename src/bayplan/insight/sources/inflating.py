"""Reads compressed files up to a size that real clusters stay below, so that a small file can't fill the memory."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from bayplan.insight.sources.reading import SnapshotError

MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file."""
TAR, TAR_AT = b"ustar", 257
"""What a tar archive has at which byte."""
_BUFFER = 2**18
ALWAYS = 512 * 2**20
"""Bytes that any file may inflate to."""
RATIO = 100
"""How many times its size a larger file may inflate to. Real objects compress to a tenth, equal ones to a fiftieth."""


@contextmanager
def inflating(name: str, file: IO[bytes], size: int) -> Iterator[io.BufferedReader]:
    """Inflate a gzip file of `size` bytes while it is read. In the context, every fault of it is a SnapshotError.

    `name` is for messages.
    """
    limited = _Limited(name, gzip.GzipFile(fileobj=file), max(ALWAYS, RATIO * size))
    try:
        yield io.BufferedReader(limited, _BUFFER)
    except EOFError:
        raise SnapshotError(f"{name} is cut off: it was not written or copied completely") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise SnapshotError(f"{name} is damaged: {error}") from None


class _Limited(io.RawIOBase):
    def __init__(self, name: str, file: gzip.GzipFile, most: int) -> None:
        self._name = name
        self._file = file
        self._most = self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes a memoryview
        part = self._file.read(len(buffer))
        self._left -= len(part)
        if self._left < 0:
            raise SnapshotError(
                f"{self._name} inflates to more than {self._most / 2**20:,.0f} MiB, {RATIO} times its size: expected "
                "a snapshot or a dump of a cluster"
            )
        buffer[: len(part)] = part
        return len(part)
