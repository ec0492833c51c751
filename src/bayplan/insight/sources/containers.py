"""The files in what people pass on: folders, compressed files and tar archives such as those of must-gather.

Nothing is unpacked to the disk.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import cast

from bayplan.insight.sources.inflating import MAGIC, TAR, TAR_AT, inflating
from bayplan.insight.sources.reading import SnapshotError
from bayplan.manifest_files import SUFFIXES, files_in

_FOREIGN = {
    b"PK\x03\x04": ("a zip archive", "unzip"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unzstd"),
    b"\xfd7zXZ\x00": ("compressed with xz", "unxz"),
    b"BZh": ("compressed with bzip2", "bunzip2"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unlz4"),
}
_COMPRESSED = tuple(f"{suffix}.gz" for suffix in SUFFIXES)
_LONGEST_MEMBER = 512 * 2**20


def files_of(path: Path) -> Iterator[tuple[str, bytes | SnapshotError]]:
    """The name and the content of every file that may have objects; in a folder, or why one can't be read.

    The name is the path for a file that has objects itself. Raises SnapshotError, ManifestError and OSError.
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
        except SnapshotError as error:
            yield str(each), error
        except OSError as error:
            yield str(each), SnapshotError(f"{each}: {error.strerror or error}")


def contents(name: str, file: BufferedReader, size: int) -> Iterator[tuple[str, bytes]]:
    """The name and the content of every file in an open one of `size` bytes. Raises SnapshotError."""
    start = file.peek(TAR_AT + len(TAR))
    for magic, (what, command) in _FOREIGN.items():
        if start.startswith(magic):
            raise SnapshotError(f"{name} is {what}: unpack it with `{command}`, and pass what is in it")
    if start.startswith(MAGIC):
        with inflating(name, file, size) as inflated:
            yield from contents(name, inflated, size)
    elif start[TAR_AT : TAR_AT + len(TAR)] == TAR:
        yield from _members(name, file)
    else:
        yield name, file.read()


def _members(name: str, file: BufferedReader) -> Iterator[tuple[str, bytes]]:
    found = False
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                if not member.isfile() or not member.name.endswith((*SUFFIXES, *_COMPRESSED)):
                    continue
                where = f"{name}: {member.name}"
                if member.size > _LONGEST_MEMBER:
                    raise SnapshotError(f"{where} has {member.size:,} bytes: expected at most {_LONGEST_MEMBER:,}")
                content, found = archive.extractfile(member), True
                if content is not None:
                    yield from contents(where, cast("BufferedReader", content), member.size)
    except tarfile.TarError as error:
        raise SnapshotError(f"{name} is damaged: {error}") from None
    if not found:
        raise SnapshotError(f"{name} has no file that ends in {', '.join(SUFFIXES)}")
