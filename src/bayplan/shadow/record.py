"""What a shadow has found so far: the counts, and the latest differences. A file keeps it over restarts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from bayplan.file_replacement import replacing
from bayplan.shadow.agreement import ShadowAgreement
from bayplan.shadow.comparisons import ShadowComparison, ShadowTally

MOST_KEPT = 2000
"""How many differences are kept: the latest ones."""
_VERSION = 2
_READ = frozenset({1, _VERSION})
"""Version 1 has no agreement over time."""


class ShadowFileError(Exception):
    """A file of an earlier run can't be used. The message names it, and says what to do."""


class ShadowRecord(msgspec.Struct, rename="camel"):
    """What was found, as a report and a file have it. Its size is bounded.

    `began`: when the first run began. `until`: until when the cluster was followed. `differences`: comparisons whose
    nodes differ, ties left out, the oldest first. `agreement`: all comparisons over time.
    """

    schedulers: list[str]
    began: datetime
    until: datetime
    tally: ShadowTally = msgspec.field(default_factory=ShadowTally)
    differences: list[ShadowComparison] = []
    agreement: ShadowAgreement = msgspec.field(default_factory=ShadowAgreement)
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
        """Write the file. Raises OSError."""
        with replacing(path) as file:
            file.write(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path, schedulers: list[str] | None = None) -> ShadowRecord | None:
        """Read the file of an earlier run; None if there is none. Raises ShadowFileError.

        `schedulers`: those that it has to be about; None for any.
        """
        try:
            record = msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ShadowFileError(f"cannot read {path}: {error.strerror or error}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ShadowFileError(f"{path} is not a file of `bayplan shadow`: name another one") from None
        if record.version not in _READ:
            raise ShadowFileError(f"{path} is of another version of Bayplan: name another file")
        record.version = _VERSION
        if schedulers is not None and record.schedulers != schedulers:
            raise ShadowFileError(
                f"{path} is about {', '.join(record.schedulers)}, not {', '.join(schedulers)}: name another file"
            )
        return record
