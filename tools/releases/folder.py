"""The files of a release: their names, and their checksums."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.problems import Problem

SUMS = "SHA256SUMS"
STATEMENT = "provenance.intoto.json"
ENVELOPE = "provenance.intoto.jsonl"
NOTES = "NOTES.md"
KREW = "bayplan.krew.yaml"


@dataclass(frozen=True)
class Release:
    """The places of what a release has."""

    folder: Path
    version: str

    @property
    def wheel(self) -> Path:
        """What pip installs."""
        return self.folder / f"bayplan-{self.version}-py3-none-any.whl"

    @property
    def sources(self) -> Path:
        """What the wheel is built of."""
        return self.folder / f"bayplan-{self.version}.tar.gz"

    @property
    def requirements(self) -> Path:
        """The libraries that it was tested with, with their hashes."""
        return self.folder / f"bayplan-{self.version}-requirements.txt"

    @property
    def chart(self) -> Path:
        """The chart, as helm names its package."""
        return self.folder / f"bayplan-{self.version}.tgz"

    @property
    def binary(self) -> Path:
        """The command as one file, for this kind of machine."""
        return self.folder / f"bayplan-{self.version}-{system()}.pex"

    @property
    def plugin(self) -> Path:
        """What krew installs, for this kind of machine."""
        return self.folder / f"kubectl-bayplan-{self.version}-{system()}.tar.gz"

    @property
    def images(self) -> list[Path]:
        """The archives of images that are there."""
        return sorted(self.folder.glob("*.oci.tar"))

    def bill(self, of: Path) -> Path:
        """Return the place of the bill of materials of a wheel or an image."""
        return of.with_name(f"{of.name}.cdx.json")

    def artifacts(self) -> list[Path]:
        """Return all files but those that are about the others."""
        about = {SUMS, STATEMENT, ENVELOPE}
        return [path for path in sorted(self.folder.iterdir()) if path.name not in about]

    def write_sums(self) -> None:
        """Write the checksums of all files, in the form of sha256sum."""
        files = [path for path in sorted(self.folder.iterdir()) if path.name != SUMS]
        (self.folder / SUMS).write_text("".join(f"{digest_of(path)}  {path.name}\n" for path in files))

    def check_sums(self) -> int:
        """Compare all files with their checksums, and return how many there are."""
        listed = dict(self._sums())
        there = {path.name for path in self.folder.iterdir()} - {SUMS}
        for name in sorted(there ^ listed.keys()):
            what = f"is not in {SUMS}" if name in there else f"is in {SUMS}, but not in the folder"
            raise Problem(f"{self.folder / name} {what}")
        for name, digest in listed.items():
            if digest_of(self.folder / name) != digest:
                raise Problem(f"{self.folder / name} has another checksum than {SUMS} says")
        return len(listed)

    def _sums(self) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(read(self.folder / SUMS).splitlines(), 1):
            digest, _, name = line.partition("  ")
            if len(digest) != 64 or not name or "/" in name:
                raise Problem(
                    f"{self.folder / SUMS}, line {number}: expected a SHA-256, two spaces and a file of the folder"
                )
            yield name, digest


def open_release(folder: Path) -> Release:
    """Return the release in a folder. Its version is that of its wheel."""
    wheels = sorted(folder.glob("bayplan-*-py3-none-any.whl"))
    if len(wheels) != 1:
        raise Problem(
            f"{folder} is no release: expected one file bayplan-VERSION-py3-none-any.whl, found {len(wheels)}"
        )
    return Release(folder, wheels[0].name.split("-")[1])


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path) -> str:
    """Return the text of a file of a release."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise Problem(f"{path}: {reason}") from None


def system() -> str:
    """Return this kind of machine as Go names it, which krew's manifests use: linux-amd64."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"
