"""The files of a recording: a manifest, and segments of frames. See `frames.py`.

    run-000001/                       what one process recorded
        recording.json                the manifest: version, how the scheduler was set up, when it began, a checksum
        decisions-000001.frames       a segment: frames, one after the other

The last frame may be cut, by a kill. A tar file of the folder is a recording, too. What files say comes from anyone:
nothing in them is ever imported.
"""

from __future__ import annotations

import hashlib
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec

from bayplan.foundations.bounded_files import UnusableFileError, check_member, read_whole
from bayplan.foundations.file_replacement import replace_text, replacing
from bayplan.running.recording.entries import AnyEntry, RecordingRedaction, Setting
from bayplan.running.recording.frames import RUN_BYTES, FrameReader, RecordingError
from bayplan.running.recording.places import MANIFEST, SEGMENT_SUFFIX

__all__ = ["Recording", "RecordingError"]

FORMAT = "bayplan-recording"
VERSION = 2
FIRST_NUMBERED = 2
"""The first version of the format with numbered frames, and with a checksum of the manifest."""
_NO_CHECKSUM = "0" * 64


class RecordingManifest(msgspec.Struct):
    """The contents of `recording.json`.

    `id`: that of the run, in hexadecimal, which its frames have, too. `began`: when recording began, and `monotonic` is
    that moment on the scheduler's other clock. `redacted`: whether names and texts were replaced; `left_out` says what
    was left out then, one line each. `checksum`: the SHA-256 of the file with 64 zeros in this place.
    """

    format: str = FORMAT
    version: int = VERSION
    bayplan: str = ""
    id: str = ""
    began: datetime | None = None
    monotonic: float = 0.0
    setting: Setting = msgspec.field(default_factory=Setting)
    redacted: bool = False
    left_out: list[str] = []
    checksum: str = ""


def prepare_recording(
    folder: Path, setting: Setting, began: datetime, monotonic: float, redaction: RecordingRedaction | None = None
) -> str:
    """Create the folder of a recording, and write its manifest. Returns the id of the run. Raises RecordingError."""
    manifest = RecordingManifest(
        bayplan=version("bayplan"),
        id=secrets.token_hex(RUN_BYTES),
        began=began,
        monotonic=monotonic,
        setting=setting,
    )
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
    return manifest.id


def note_left_out(folder: Path, left_out: list[str]) -> None:
    """Write into the manifest what a redaction has left out. Raises OSError or RecordingError."""
    manifest = _manifest(folder, (folder / MANIFEST).read_bytes())
    manifest.left_out = left_out
    _write_manifest(folder, manifest)


def _write_manifest(folder: Path, manifest: RecordingManifest) -> None:
    manifest.checksum = _NO_CHECKSUM
    data = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
    manifest.checksum = hashlib.sha256(data).hexdigest()
    replace_text(folder / MANIFEST, _with(data, _NO_CHECKSUM, manifest.checksum).decode(), private=True)


def _with(data: bytes, checksum: str, other: str) -> bytes:
    """A manifest with another checksum, which is its last field."""
    before, _, after = data.rpartition(checksum.encode())
    return before + other.encode() + after


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
        except UnusableFileError as error:
            raise RecordingError(str(error)) from None
        except (tarfile.TarError, EOFError, ValueError, OverflowError):
            raise RecordingError(f"{path} is no recording: it is no folder, and no file that --pack wrote") from None
        except OSError as error:
            raise RecordingError(f"cannot read {path}: {error.strerror or error}") from None
        folders = sorted(name.rpartition("/")[0] for name in files if name.rpartition("/")[2] == MANIFEST)
        if not folders:
            raise RecordingError(f"{path} is no recording: it has no {MANIFEST}; `bayplan run --record DIR` makes one")
        runs = [cls._of(path, folder, files) for folder in folders]
        by_id: dict[str, Recording] = {}
        for run in runs:
            first = by_id.setdefault(run.manifest.id or run.source, run)
            if first is not run:
                raise RecordingError(f"{run.source} and {first.source} are copies of one run: delete one of them")
        return runs

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
            if name.startswith(f"{inside}decisions-") and name.endswith(SEGMENT_SUFFIX)
        )
        return cls(source, _manifest(path, files[f"{inside}{MANIFEST}"]()), tuple(segments))

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    def entries(self, first: int = 0) -> Iterator[AnyEntry]:
        """The entries of all segments from `first` on, in order.

        Raises RecordingError at a frame that is damaged, or doesn't follow the one before, and if there is no entry. A
        frame that was cut at the end of the last segment ends it.
        """
        reader, empty = FrameReader(self.manifest.id), True
        for number, (name, read) in enumerate(self._segments[first:], start=first + 1):
            try:
                data = read()
            except (OSError, EOFError, tarfile.TarError, UnusableFileError) as error:
                raise RecordingError(f"cannot read {self.source}/{name}: {error}") from None
            for entry in reader.read(f"{self.source}: {name}", data, last=number == len(self._segments)):
                empty = False
                yield entry
        if empty:
            what = "its segments have no entries" if self._segments else "its segments (decisions-*.frames) are missing"
            raise RecordingError(f"{self.source} is empty: {what}, or the scheduler was killed in its first second")

    def date_of(self, monotonic: float) -> datetime:
        """The date and time of a time on the scheduler's clock."""
        began = self.manifest.began or datetime.fromtimestamp(0, UTC)
        return began + timedelta(seconds=monotonic - self.manifest.monotonic)


def pack_recording(folder: Path, target: Path) -> None:
    """Write a recording to one file, which can be mailed. Raises RecordingError."""
    Recording.runs(folder)
    if folder.is_file():
        raise RecordingError(f"{folder} is one file already: it can be mailed as it is")
    if target.resolve().is_relative_to(folder.resolve()):
        raise RecordingError(f"{target} is inside of {folder}: name a file elsewhere")
    try:
        with replacing(target, private=True) as file, tarfile.open(fileobj=file, mode="w") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and (path.name == MANIFEST or path.suffix == SEGMENT_SUFFIX):
                    archive.add(path, arcname=str(path.relative_to(folder)), filter=_anonymous)
    except OSError as error:
        raise RecordingError(f"cannot write {target}: {error.strerror or error}") from None


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the user of the machine."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _contents(folder: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)), partial(read_whole, path)


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            check_member(str(path), member, path.stat().st_size)
            if member.isfile():
                yield member.name, partial(_read_member, path, member)


def _read_member(path: Path, member: tarfile.TarInfo) -> bytes:
    with tarfile.open(path, "r:") as archive:
        file = archive.extractfile(member)
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
            f"{path} has version {manifest.version} of the format, and this Bayplan, {version('bayplan')}, reads up to "
            f"{VERSION}: use a newer one ({MANIFEST} says that Bayplan {manifest.bayplan} wrote it)"
        )
    if manifest.version >= FIRST_NUMBERED or manifest.checksum:
        _verify(path, data, manifest)
    return manifest


def _verify(path: Path, data: bytes, manifest: RecordingManifest) -> None:
    """Raise RecordingError if a manifest isn't the one that was written."""
    found = hashlib.sha256(_with(data, manifest.checksum, _NO_CHECKSUM)).hexdigest() if manifest.checksum else ""
    if not found or found != manifest.checksum:
        raise RecordingError(
            f"{path}: {MANIFEST} was changed or damaged after it was written: its checksum is wrong; use the recording "
            "as it was written"
        )
    if len(manifest.id) != 2 * RUN_BYTES or not set(manifest.id) <= set("0123456789abcdef"):
        raise RecordingError(f"{path}: {MANIFEST} is damaged: it has no id of the run")
