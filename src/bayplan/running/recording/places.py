"""Where the files of a recording are, and whether a path is one. Imports no slow modules."""

from __future__ import annotations

from pathlib import Path

MANIFEST = "recording.json"
SEGMENT_SUFFIX = ".frames"
_MAGIC_AT, _MAGIC = 257, b"ustar"
"""Where a tar file says that it is one."""


def segment_file(folder: Path, number: int) -> Path:
    """The file of a segment. The first one has the number 1."""
    return folder / f"decisions-{number:06}{SEGMENT_SUFFIX}"


def is_recording(path: Path) -> bool:
    """Whether a path is a recording, also one that is damaged: a folder or a tar file with a manifest."""
    if path.is_dir():
        return (path / MANIFEST).exists() or any(path.glob(f"run-*/{MANIFEST}"))
    if not path.is_file():  # what can be read only once, such as a pipe, isn't looked at
        return False
    try:
        with path.open("rb") as file:
            if file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] != _MAGIC:
                return False  # most files: without importing anything
    except OSError:
        return False
    import tarfile

    try:
        with tarfile.open(path, "r:") as archive:
            return any(member.name.rpartition("/")[2] == MANIFEST for member in archive)
    except (OSError, tarfile.TarError, ValueError, OverflowError):
        return False
