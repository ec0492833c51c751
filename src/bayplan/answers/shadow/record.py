"""What a shadow has found so far: the counts, and the latest differences. A file keeps it over restarts.

Its size is bounded, and the page reads the same file (`bayplan ui --shadow`).
"""

from __future__ import annotations

import hashlib
import stat
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bayplan.answers.shadow.agreement import MOST_INTERVALS, ShadowAgreement
from bayplan.answers.shadow.comparisons import ShadowComparison, ShadowTally
from bayplan.answers.shadow.guesses import ShadowGuess
from bayplan.foundations.file_replacement import replacing

MOST_KEPT = 2000
"""How many differences are kept: the latest ones."""
MOST_BYTES = 64 * 1024 * 1024
"""The largest file that is read: several times as long as one with MOST_KEPT differences."""
_VERSION = 2
_READ = frozenset({1, _VERSION})
"""Version 1 has no agreement over time."""
_CHECKSUM = b',"checksum":"'
"""What comes before the checksum, at the end of the file. Files of Bayplan 0.1 may have none."""
_EARLIEST, _LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Between these, times can be shown in any time zone."""


class ShadowFileError(Exception):
    """A file of an earlier run can't be used. The message names it, and says what to do."""


class ShadowRecord(msgspec.Struct, rename="camel"):
    """What was found, as a report and a file have it. Its size is bounded.

    `began`: when the first run began. `until`: until when the cluster was followed. `differences`: comparisons whose
    nodes differ, ties left out, the oldest first. `agreement`: all comparisons over time. `guesses`: the configurations
    that the schedulers seem to have, where most differences have no cause otherwise.
    """

    schedulers: list[str]
    began: datetime
    until: datetime
    tally: ShadowTally = msgspec.field(default_factory=ShadowTally)
    differences: list[ShadowComparison] = []
    agreement: ShadowAgreement = msgspec.field(default_factory=ShadowAgreement)
    guesses: list[ShadowGuess] = []
    version: int = _VERSION

    def add(self, comparison: ShadowComparison) -> None:
        """Keep a comparison, if it is a difference, and when it was made. The tally has it already."""
        self.until = max(self.until, comparison.time)
        self.agreement.add(comparison)
        if not comparison.equal:
            self.differences.append(comparison)
            if len(self.differences) > MOST_KEPT:
                del self.differences[0]

    def save(self, path: Path) -> None:
        """Write the file, which only its owner can read. Raises OSError."""
        body = msgspec.json.encode(self)[:-1]
        with replacing(path, private=True) as file:
            file.write(body + _CHECKSUM + _digest(body) + b'"}')

    @classmethod
    def load(cls, path: Path, schedulers: list[str] | None = None) -> ShadowRecord | None:
        """Read the file of an earlier run; None if there is none. Raises ShadowFileError.

        `schedulers`: those that it has to be about; None for any.
        """
        raw = _read(path)
        if raw is None:
            return None
        try:
            record = msgspec.json.decode(raw, type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            raise ShadowFileError(f"{path} is not a file of `bayplan shadow`: name another one") from None
        if record.version not in _READ:
            raise ShadowFileError(f"{path} is of another version of Bayplan: name another file")
        if schedulers is not None and record.schedulers != schedulers:
            raise ShadowFileError(
                f"{path} is about {', '.join(record.schedulers)}, not {', '.join(schedulers)}: name another file"
            )
        if not _is_unchanged(raw) or not record.is_sound:
            raise ShadowFileError(f"{path} is damaged, or was changed since it was written: name another file")
        record.version = _VERSION
        return record

    @property
    def is_sound(self) -> bool:
        """Whether it can be what a shadow has found."""
        times = [self.began, self.until, *(each.time for each in self.differences)]
        times += [each.begin for each in self.agreement.intervals]
        times += [given.since for each in self.differences for given in each.feeds if given.since is not None]
        begins = [each.begin for each in self.agreement.intervals]
        return (
            all(each.tzinfo is not None and _EARLIEST <= each <= _LATEST for each in times)
            and begins == sorted(set(begins))
            and len(begins) <= MOST_INTERVALS
            and len(self.differences) <= MOST_KEPT
        )


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _is_unchanged(raw: bytes) -> bool:
    body, found, end = raw.rpartition(_CHECKSUM)
    return not found or end.rstrip() == _digest(body) + b'"}'


def _read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ShadowFileError(f"{path} is not a file: name another one")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ShadowFileError(f"cannot read {path}: {error.strerror or error}") from None
    if len(raw) > MOST_BYTES:
        raise ShadowFileError(f"{path} is too large for a file of `bayplan shadow`: name another one")
    return raw
