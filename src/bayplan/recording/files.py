"""The files of a recording: frames of entries in segments, each compressed and with a checksum.

    run-000001/                       what one process recorded
        recording.json                the manifest: version, how the scheduler was set up, when it began
        decisions-000001.frames       a segment: frames, one after the other

A frame is its length and the CRC-32 of what follows (4 bytes each, little-endian), and a zlib stream of entries in
MessagePack. The last frame may be cut, by a kill. A tar file of the folder is a recording, too.
"""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec

from bayplan.file_replacement import replace_text
from bayplan.recording.entries import (
    AnyEntry,
    RecordedEntry,
    RecordingRedaction,
    Setting,
    decode_entries,
    encode_entries,
)

FORMAT = "bayplan-recording"
VERSION = 1
MANIFEST = "recording.json"
_HEAD = struct.Struct("<II")
_LARGEST = 1 << 30
"""More bytes than a frame has, before and after it is inflated."""


class RecordingError(Exception):
    """A recording that can't be used. The message is one line for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class RecordingManifest(msgspec.Struct):
    """The contents of `recording.json`.

    `began`: when recording began, and `monotonic` is that moment on the scheduler's other clock. `redacted`: whether
    names and texts were replaced; `left_out` says what was left out then, one line each.
    """

    format: str = FORMAT
    version: int = VERSION
    bayplan: str = ""
    began: datetime | None = None
    monotonic: float = 0.0
    setting: Setting = msgspec.field(default_factory=Setting)
    redacted: bool = False
    left_out: list[str] = []


def encode_frame(entries: list[RecordedEntry]) -> bytes:
    """A frame of a segment."""
    body = zlib.compress(encode_entries(entries), 1)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def prepare_recording(
    folder: Path, setting: Setting, began: datetime, monotonic: float, redaction: RecordingRedaction | None = None
) -> None:
    """Create the folder of a recording, and write its manifest. Raises RecordingError."""
    manifest = RecordingManifest(bayplan=version("bayplan"), began=began, monotonic=monotonic, setting=setting)
    if redaction is not None:
        manifest.setting = redaction.setting(setting)
        manifest.redacted, manifest.left_out = True, redaction.left_out
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise RecordingError(f"{folder} is not empty: name another folder")
        _write_manifest(folder, manifest)
    except OSError as error:
        raise RecordingError(f"cannot write {folder}: {error.strerror or error}") from None


def note_left_out(folder: Path, left_out: list[str]) -> None:
    """Write into the manifest what a redaction has left out. Raises OSError or RecordingError."""
    manifest = _manifest(folder, (folder / MANIFEST).read_bytes())
    manifest.left_out = left_out
    _write_manifest(folder, manifest)


def _write_manifest(folder: Path, manifest: RecordingManifest) -> None:
    replace_text(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)).decode() + "\n")


def segment_file(folder: Path, number: int) -> Path:
    """The file of a segment. The first one has the number 1."""
    return folder / f"decisions-{number:06}.frames"


def next_run(folder: Path, *, redacted: bool = False) -> Path:
    """The folder of another run in the folder of a recording.

    `redacted`: whether it will be redacted. Raises RecordingError if the runs that are there are not like that.
    """
    runs = sorted(each for each in folder.glob("run-*") if each.name[4:].isdecimal())
    if runs and (runs[-1] / MANIFEST).exists() and Recording.open(runs[-1]).manifest.redacted != redacted:
        others, without = ("redacted", "without") if not redacted else ("not redacted", "with")
        raise RecordingError(
            f"the runs in {folder} are {others}, and can't be continued {without} --record-redact: name another folder"
        )
    numbers = [int(each.name[4:]) for each in runs]
    return folder / f"run-{max(numbers, default=0) + 1:06}"


@dataclass(frozen=True, slots=True)
class Recording:
    """What one process recorded, opened for reading. `source`: the path, for messages."""

    source: str
    manifest: RecordingManifest
    _segments: tuple[tuple[str, Callable[[], bytes]], ...]

    @classmethod
    def runs(cls, path: Path) -> list[Recording]:
        """Open all runs of a recording: of a folder, or of a file made of one by `pack_recording`.

        Raises RecordingError.
        """
        try:
            files = dict(_members(path) if path.is_file() else _contents(path))
        except (tarfile.TarError, EOFError):
            raise RecordingError(f"{path} is no recording: it is no folder, and no file that --pack wrote") from None
        except OSError as error:
            raise RecordingError(f"cannot read {path}: {error.strerror or error}") from None
        folders = sorted(name.rpartition("/")[0] for name in files if name.rpartition("/")[2] == MANIFEST)
        if not folders:
            raise RecordingError(f"{path} is no recording: it has no {MANIFEST}; `bayplan run --record DIR` makes one")
        return [cls._of(path, folder, files) for folder in folders]

    @classmethod
    def open(cls, path: Path) -> Recording:
        """Open a recording with a single run. Raises RecordingError."""
        runs = cls.runs(path)
        if len(runs) > 1:
            raise RecordingError(f"{path} has {len(runs)} runs: name one, such as {runs[-1].source}")
        return runs[0]

    @classmethod
    def _of(cls, path: Path, folder: str, files: Mapping[str, Callable[[], bytes]]) -> Recording:
        inside = f"{folder}/" if folder else ""
        source = f"{path}/{folder}" if folder else str(path)
        segments = sorted(
            (name.removeprefix(inside), read)
            for name, read in files.items()
            if name.startswith(f"{inside}decisions-") and name.endswith(".frames")
        )
        return cls(source, _manifest(path, files[f"{inside}{MANIFEST}"]()), tuple(segments))

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    def entries(self, first: int = 0) -> Iterator[AnyEntry]:
        """The entries of all segments from `first` on, in order.

        Raises RecordingError at a damaged frame. A frame that was cut at the end of the last segment ends it.
        """
        for number, (name, read) in enumerate(self._segments[first:], start=first + 1):
            try:
                data = read()
            except (OSError, EOFError, tarfile.TarError) as error:
                raise RecordingError(f"cannot read {self.source}/{name}: {error}") from None
            yield from _entries(f"{self.source}: {name}", data, last=number == len(self._segments))

    def moment(self, monotonic: float) -> datetime:
        """The date and time of a time on the scheduler's clock."""
        began = self.manifest.began or datetime.fromtimestamp(0, UTC)
        return began + timedelta(seconds=monotonic - self.manifest.monotonic)


def pack_recording(folder: Path, target: Path) -> None:
    """Write a recording to one file, which can be mailed. Raises RecordingError."""
    Recording.runs(folder)
    if target.resolve().is_relative_to(folder.resolve()):
        raise RecordingError(f"{target} is inside of {folder}: name a file elsewhere")
    unfinished = target.with_name(target.name + ".partial")
    try:
        with tarfile.open(unfinished, "w") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.add(path, arcname=str(path.relative_to(folder)), filter=_anonymous)
        unfinished.replace(target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise RecordingError(f"cannot write {target}: {error.strerror or error}") from None


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the user of the machine."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _contents(folder: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            if member.isfile():
                yield member.name, partial(_read_member, path, member.name)


def _read_member(path: Path, name: str) -> bytes:
    with tarfile.open(path, "r:") as archive:
        file = archive.extractfile(name)
        return b"" if file is None else file.read()


def _manifest(path: Path, data: bytes) -> RecordingManifest:
    try:
        manifest = msgspec.json.decode(data, type=RecordingManifest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordingError(f"{path}: {MANIFEST} is damaged: {error}") from None
    if manifest.format != FORMAT:
        raise RecordingError(f"{path} is no recording of decisions: its format is {manifest.format}")
    if manifest.version > VERSION:
        raise RecordingError(
            f"{path} has version {manifest.version} of the format, and this Bayplan reads up to {VERSION}: use "
            f"Bayplan {manifest.bayplan} or newer"
        )
    return manifest


def _entries(place: str, data: bytes, *, last: bool) -> Iterator[AnyEntry]:
    position, number = 0, 0
    while position < len(data):
        number += 1
        where = f"{place} is damaged in frame {number}, at byte {position}"
        if position + _HEAD.size > len(data):
            break
        length, checksum = _HEAD.unpack_from(data, position)
        body = data[position + _HEAD.size : position + _HEAD.size + length]
        if len(body) < length:
            if last and length < _LARGEST:
                return
            raise RecordingError(f"{where}: it is cut")
        if zlib.crc32(body) != checksum:
            raise RecordingError(f"{where}: its checksum is wrong; what is before it can be replayed")
        try:
            inflated = zlib.decompressobj().decompress(body, _LARGEST)
            yield from decode_entries(inflated)
        except (zlib.error, msgspec.MsgspecError) as error:
            raise RecordingError(f"{where}: {error}") from None
        position += _HEAD.size + length
