"""How much of a file is read: the limits of all readers, so that no file fills the memory or takes forever.

Files come from anyone. A compressed file may inflate to many times its size, an archive may say that a member has any
size, and a device never ends. What is beyond the limits is an UnusableFileError, whose message is one line.

    with path.open("rb") as file, inflating(str(path), file, Allowance(str(path), path.stat().st_size)) as inflated:
        for line in inflated: ...
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""
TAR, TAR_AT = b"ustar", 257
"""What a tar archive has at which byte."""
ALWAYS = 64 * 2**20
"""Bytes that any file may inflate to."""
RATIO = 100
"""How many times its size a larger file may inflate to. Real objects compress to a tenth, equal ones to a fiftieth."""
MOST_BYTES = 2 * 2**30
"""The largest file that is read as a whole: a dump of more pods than Kubernetes supports."""
MOST_ROWS = 2_000_000
"""The most rows of a Parquet file."""
_BUFFER = 2**18
_MOST_VALUES, _SHORTEST = 1_000_000, 12
"""A larger number of values has at least so many bytes for each, on average: those of Kubernetes objects are longer."""


class UnusableFileError(Exception):
    """A file that is beyond a limit, or is damaged. The message is one line that names the file."""


class Allowance:
    """How many bytes a file may still inflate to, with all that is inside of it. `size`: its own."""

    def __init__(self, name: str, size: int) -> None:
        self.most = self.left = max(ALWAYS, RATIO * size)
        self._name = name

    def take(self, count: int) -> None:
        """Count bytes. Raises UnusableFileError if they are too many."""
        self.left -= count
        if self.left < 0:
            raise UnusableFileError(
                f"{self._name} inflates to more than {self.most / 2**20:,.0f} MiB, {RATIO} times its size: expected a "
                "snapshot, a dump or a log of a cluster"
            )


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file of at most `most` bytes. Raises UnusableFileError and OSError."""
    with path.open("rb") as file:
        return read_rest(str(path), file, most)


def read_rest(name: str, file: IO[bytes], most: int = MOST_BYTES) -> bytes:
    """What is left of an open file, in at most `most` bytes. Raises UnusableFileError and OSError."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError):
        return file.read()  # inside of another file, whose limit counts
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return file.read()
    most = min(most, ALWAYS) if stat.S_ISCHR(status.st_mode) else most  # a device, such as /dev/zero, has no end
    parts, left = [], most
    while left >= 0 and status.st_size <= most and (part := file.read(min(_BUFFER, left + 1))):
        parts.append(part)
        left -= len(part)
    if left < 0 or status.st_size > most:
        raise UnusableFileError(f"{name} has more than {most / 2**20:,.0f} MiB: that is the most that is read of it")
    return b"".join(parts)


def is_dense(content: bytes) -> bool:
    """Whether JSON has more values than objects of that size: as Python objects, they would fill the memory."""
    return content.count(b",") > max(_MOST_VALUES, len(content) // _SHORTEST)


@contextmanager
def inflating(name: str, file: IO[bytes], allowance: Allowance) -> Iterator[io.BufferedReader]:
    """Inflate a gzip file while it is read. In the context, every fault of it is an UnusableFileError."""
    limited = _Limited(gzip.GzipFile(fileobj=file), allowance)
    try:
        yield io.BufferedReader(limited, _BUFFER)
    except EOFError:
        raise UnusableFileError(f"{name} is cut off: it was not written or copied completely") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UnusableFileError(f"{name} is damaged: {error}") from None


class _Limited(io.RawIOBase):
    def __init__(self, file: gzip.GzipFile, allowance: Allowance) -> None:
        self._file = file
        self._allowance = allowance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes a memoryview
        part = self._file.read(len(buffer))
        self._allowance.take(len(part))
        buffer[: len(part)] = part
        return len(part)


def inflated(data: bytes, allowance: Allowance) -> bytes:
    """A zlib stream as a whole. Raises UnusableFileError if it is too large, and zlib.error if it is damaged."""
    inflate = zlib.decompressobj()
    content = inflate.decompress(data, allowance.left + 1)
    allowance.take(len(content))
    return content


def drained(stream: IO[bytes], allowance: Allowance) -> bytes:
    """All of a stream that inflates. Raises UnusableFileError, and what the stream raises."""
    parts = []
    while part := stream.read(_BUFFER):
        allowance.take(len(part))
        parts.append(part)
    return b"".join(parts)


@contextmanager
def opened_zip(path: Path) -> Iterator[ZipFile]:
    """An open ZIP archive. Raises BadZipFile, also where its list of members can't be read, and OSError."""
    try:
        archive = ZipFile(path)
    except (NotImplementedError, ValueError, struct.error) as error:  # what zipfile raises for a damaged list
        raise BadZipFile(str(error)) from None
    with archive:
        yield archive


def read_member(archive: ZipFile, name: str, allowance: Allowance) -> bytes:
    """A member of a ZIP archive. Raises UnusableFileError, KeyError if there is none, and BadZipFile."""
    try:
        with archive.open(name) as file:
            return drained(file, allowance)
    except (EOFError, zlib.error, NotImplementedError, RuntimeError) as error:  # or it is encrypted
        raise BadZipFile(f"{name}: {error}") from None


def check_member(name: str, member: tarfile.TarInfo, most: int) -> None:
    """Check that a member of a tar archive can be inside of it. Raises UnusableFileError.

    `tarfile` reads on for as many bytes as the header says, also after the end of the file.
    """
    if not 0 <= member.size <= most:
        raise UnusableFileError(
            f"{name} is damaged: {member.name[:200]} would have {member.size:,} bytes, and the archive has at most "
            f"{most:,}"
        )
