"""The files in what people pass on: folders, compressed files and tar archives such as those of must-gather.

Nothing is unpacked to the disk.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import cast

from bayplan.answers.snapshots.reading import SnapshotError
from bayplan.foundations.bounded_files import (
    GZIP,
    TAR,
    TAR_AT,
    Allowance,
    UnusableFileError,
    check_member,
    inflating,
    read_rest,
)
from bayplan.foundations.manifest_files import SUFFIXES, files_in

_FOREIGN = {
    b"PK\x03\x04": ("a zip archive", "unzip"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unzstd"),
    b"\xfd7zXZ\x00": ("compressed with xz", "unxz"),
    b"BZh": ("compressed with bzip2", "bunzip2"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unlz4"),
}
_COMPRESSED = tuple(f"{suffix}.gz" for suffix in SUFFIXES)
_MOST_MEMBERS = 200_000
"""The most members of a tar archive: those of must-gather have some thousands."""
_DEEPEST = 4
"""How many archives and compressed files may be inside of one another."""


def files_of(path: Path) -> Iterator[tuple[str, bytes | SnapshotError]]:
    """The name and the content of every file that may have objects; in a folder, or why one can't be read.

    The name is the path for a file that has objects itself. Raises SnapshotError, UnusableFileError, ManifestError and
    OSError.
    """
    if not path.is_dir():
        with path.open("rb") as file:
            yield from contents(str(path), file, path.stat().st_size)
        return
    compressed = {each for suffix in _COMPRESSED for each in path.rglob(f"*{suffix}") if each.is_file()}
    plain = {each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file()}
    for each in sorted(compressed | plain) or files_in(path):
        try:
            yield from files_of(each)
        except (SnapshotError, UnusableFileError) as error:
            yield str(each), SnapshotError(str(error))
        except OSError as error:
            yield str(each), SnapshotError(f"{each}: {error.strerror or error}")


def contents(name: str, file: BufferedReader, size: int) -> Iterator[tuple[str, bytes]]:
    """The name and the content of every file in an open one of `size` bytes.

    Raises SnapshotError and UnusableFileError.
    """
    yield from _Container(Allowance(name, size)).contents(name, file, size, 0)


class _Container:
    """A file, and all that is inside of it. `allowance`: how much that may be."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._members = 0

    def contents(self, name: str, file: BufferedReader, most: int, depth: int) -> Iterator[tuple[str, bytes]]:
        """What is in a file of at most `most` bytes, which is `depth` levels inside."""
        start = file.peek(TAR_AT + len(TAR))
        for magic, (what, command) in _FOREIGN.items():
            if start.startswith(magic):
                raise SnapshotError(f"{name} is {what}: unpack it with `{command}`, and pass what is in it")
        if depth > _DEEPEST:
            raise SnapshotError(f"{name} is packed into more than {_DEEPEST} archives: pass what is in it")
        if start.startswith(GZIP):
            with inflating(name, file, self._allowance) as inflated:
                yield from self.contents(name, inflated, self._allowance.most, depth + 1)
        elif start[TAR_AT : TAR_AT + len(TAR)] == TAR:
            yield from self._tar(name, file, most, depth + 1)
        else:
            yield name, read_rest(name, file)

    def _tar(self, name: str, file: BufferedReader, most: int, depth: int) -> Iterator[tuple[str, bytes]]:
        found = False
        try:
            with tarfile.open(fileobj=file, mode="r|") as archive:
                for member in archive:
                    check_member(name, member, most)
                    self._count(name)
                    if not member.isfile() or not member.name.endswith((*SUFFIXES, *_COMPRESSED)):
                        continue
                    where = f"{name}: {member.name}"
                    content, found = archive.extractfile(member), True
                    if content is not None:
                        yield from self.contents(where, cast("BufferedReader", content), member.size, depth)
        except (tarfile.TarError, OverflowError, ValueError) as error:
            raise SnapshotError(f"{name} is damaged: {error}") from None
        if not found:
            raise SnapshotError(f"{name} has no file that ends in {', '.join(SUFFIXES)}")

    def _count(self, name: str) -> None:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise SnapshotError(f"{name} has more than {_MOST_MEMBERS:,} files: expected a dump of a cluster")
