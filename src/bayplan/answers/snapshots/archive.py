"""Saved snapshots: one gzip file of JSON lines, which `zcat` shows.

The first line is a header, with the version of the format. Then, for each kind, there is a line with the kind and the
number of its objects, and one line per object. gzip is in the standard library, and reads and writes as fast as the
objects are decoded; its checksum detects damaged files.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from bayplan.answers.snapshots.documents import stored
from bayplan.answers.snapshots.reading import Documents, Gap, Reading, SnapshotError
from bayplan.core.api.kinds import TYPED_KINDS, Kind
from bayplan.core.api.objects import encode
from bayplan.foundations.bounded_files import GZIP, Allowance, UnusableFileError, inflating
from bayplan.foundations.file_replacement import replacing

T = TypeVar("T")

FORMAT = "bayplan-snapshot"
VERSION = 1
LONGEST_LINE = 32 * 2**20
"""Bytes of one object: an API server stores at most a few MiB."""
SAVED = b'{"format":'
"""How a saved snapshot begins, inflated."""
_COMPRESSION = 3
"""The level of gzip: level 6 needs three times as long for a tenth less."""


class _Kind(msgspec.Struct):
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool


class _Gap(msgspec.Struct):
    kind: _Kind
    reason: str
    effect: str


class _Header(msgspec.Struct, omit_defaults=True):
    format: str = ""
    version: int = 0
    bayplan: str = ""
    source: str = ""
    taken: datetime | None = None
    gaps: list[_Gap] = []
    kinds: int = 0
    kubernetes: str = ""


class _Section(msgspec.Struct):
    """A kind, which as many objects follow as it counts."""

    kind: _Kind
    objects: int


def is_archive(path: str | Path) -> bool:
    """Whether a file is a saved snapshot, which may be damaged. Other compressed files have lists of objects."""
    if not _is_compressed(path):
        return False
    try:
        with gzip.open(path) as file:
            return file.read(len(SAVED)) == SAVED
    except (OSError, EOFError, zlib.error):
        return False  # the reader says what is wrong


def _is_compressed(path: str | Path) -> bool:
    """Whether a file begins as gzip does. What can be read only once, such as a pipe, isn't looked at."""
    if not Path(path).is_file():
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(len(GZIP)) == GZIP
    except OSError:
        return False


def write_archive(path: str | Path, reading: Reading, *, private: bool = True) -> None:
    """Write a snapshot to a file, which replaces an existing one when it is complete. Raises SnapshotError.

    `private`: only the owner can read it.
    """
    header = _Header(
        FORMAT,
        VERSION,
        _own_version(),
        reading.source,
        reading.taken,
        [_Gap(_described(gap.kind), gap.reason, gap.effect) for gap in reading.gaps],
        len(reading.documents),
        reading.version or "",
    )
    try:
        with replacing(path, private=private) as raw, gzip.GzipFile("", "wb", _COMPRESSION, raw, mtime=0) as file:
            for line in _lines(header, reading.documents):
                file.write(line)
                file.write(b"\n")
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error


def _lines(header: _Header, documents: Documents) -> Iterator[bytes]:
    yield encode(header)
    for kind, objects in documents.items():
        yield encode(_Section(_described(kind), len(objects)))
        yield from objects.values()


def read_archive(path: str | Path) -> Reading:
    """A saved snapshot. Raises SnapshotError for a file that is none, is damaged, or has a newer version."""
    try:
        if not _is_compressed(path):
            Path(path).open("rb").close()
            raise SnapshotError(f"{path} is not a saved snapshot: it is not compressed")
        with Path(path).open("rb") as raw, inflating(str(path), raw, _allowance(path)) as file:
            return _read(path, file)
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror or error}") from None
    except UnusableFileError as error:
        raise SnapshotError(str(error)) from None


def _allowance(path: str | Path) -> Allowance:
    return Allowance(str(path), Path(path).stat().st_size)


def _read(path: str | Path, file: BinaryIO) -> Reading:
    header = _header_of(path, _line(path, file))
    documents: dict[Kind, dict[str, bytes]] = {}
    for _ in range(header.kinds):
        section = _decoded(path, _line(path, file), _Section)
        kind = _kind_of(section.kind)
        known = documents[kind] = {}
        for _ in range(section.objects):
            line = _line(path, file)
            try:
                key, raw = stored(kind, line.rstrip())
            except SnapshotError as error:
                raise SnapshotError(f"{path} is damaged: {error}") from None
            known[key] = raw
    if file.read(1):
        raise SnapshotError(f"{path} is damaged: more follows after its last object")
    gaps = tuple(Gap(_kind_of(gap.kind), gap.reason, gap.effect) for gap in header.gaps)
    return Reading(documents, header.source, header.taken, gaps, version=header.kubernetes)


def _own_version() -> str:
    from importlib.metadata import version  # imports a parser of mail

    return version("bayplan")


def _line(path: str | Path, file: BinaryIO) -> bytes:
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise SnapshotError(f"{path} is not a saved snapshot: a line is longer than {LONGEST_LINE / 2**20:.0f} MiB")
    return line


def _header_of(path: str | Path, line: bytes) -> _Header:
    try:
        found = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = {}
    if found.get("format") != FORMAT:
        raise SnapshotError(f"{path} is not a saved snapshot: the compressed file has other contents")
    number = found.get("version")
    if isinstance(number, int) and number > VERSION:
        raise SnapshotError(
            f"{path} is a snapshot of version {number}, written by bayplan {found.get('bayplan', '?')}; "
            f"this is bayplan {_own_version()}, which reads snapshots up to version {VERSION}: upgrade it"
        )
    return _decoded(path, line, _Header)


def _decoded(path: str | Path, line: bytes, cls: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=cls)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{path} is damaged: {error}") from None


def _described(kind: Kind) -> _Kind:
    return _Kind(kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)


_BUILT_IN = {(kind.group, kind.version, kind.kind): kind for kind in TYPED_KINDS}


def _kind_of(kind: _Kind) -> Kind:
    """The built-in kind, or the custom one with the same fields."""
    known = _BUILT_IN.get((kind.group, kind.version, kind.kind))
    if known is not None:
        return known
    return Kind(kind.group, kind.version, kind.kind, kind.plural, kind.plural, kind.namespaced, model="")
