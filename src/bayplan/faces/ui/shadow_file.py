"""The file of a shadow, which the page reads again when it changes."""

from __future__ import annotations

from pathlib import Path

from bayplan.answers.shadow.record import ShadowFileError, ShadowRecord
from bayplan.faces.asking.sources import stamp


class ShadowFile:
    """The file that `bayplan shadow --state` keeps. It is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: object = None
        self._record: ShadowRecord | None = None

    def read(self) -> tuple[ShadowRecord, str]:
        """What the shadow has found, and a text that changes with it. Raises ShadowFileError."""
        seen = stamp(self.path)
        if self._record is None or seen != self._stamp:
            record = ShadowRecord.load(self.path)
            if record is None:
                raise ShadowFileError(f"there is no file {self.path}: `bayplan shadow --state {self.path}` writes it")
            self._record, self._stamp = record, seen
        return self._record, repr(seen)
