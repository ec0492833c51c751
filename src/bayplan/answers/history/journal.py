"""The segment that is being recorded: JSON lines, which become Parquet when the segment is full.

A line is written with one call, so that a kill leaves complete lines. If the disk is full, the journal is cut back to
its last complete change.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from bayplan.answers.history.following import HistoryChange
from bayplan.answers.history.format import HistoryCounts, HistoryDocument, Row, import_pyarrow, journal_file, segment_of
from bayplan.answers.history.segments import journal_lines
from bayplan.answers.history.writing import write_segment
from bayplan.core.api.objects import encode

logger = logging.getLogger(__name__)


class Journal:
    """An open journal. All methods raise OSError. `rows`: how many it has."""

    def __init__(self, folder: Path, segment: int) -> None:
        self.segment = segment
        self.rows = 0
        self._documents: set[str] = set()
        self._path = journal_file(folder, segment)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0

    def append(self, changes: Iterable[HistoryChange]) -> None:
        """Write changes: all of them, or none if the disk is full."""
        documents: set[str] = set()
        lines, rows = [], 0
        for row, document in changes:
            if document is not None and document.document not in self._documents | documents:
                documents.add(document.document)
                lines.append(encode(document))
            lines.append(encode(row))
            rows += 1
        if not lines:
            return
        self._write(b"\n".join(lines) + b"\n")
        self._documents |= documents
        self.rows += rows

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += written

    def touch(self) -> None:
        """Note that the recorder is alive: the time of the file says until when events are complete."""
        os.utime(self._file)

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._file)


def next_segment(folder: Path) -> int:
    """The number after those of all segments in a folder."""
    return max((segment_of(path) or 0 for path in folder.iterdir()), default=0) + 1


def convert_journal(folder: Path, segment: int, counts: HistoryCounts) -> None:
    """Replace a closed journal by Parquet files, and add it to `counts`. Raises OSError; then the journal stays."""
    path = journal_file(folder, segment)
    bad: list[str] = []
    lines = sum(1 for _ in journal_lines(path.open("rb"), bad))
    for problem in bad:
        logger.warning("%s: %s", path.name, problem)
    if lines:
        documents = (line for line in journal_lines(path.open("rb")) if isinstance(line, HistoryDocument))
        rows = (line for line in journal_lines(path.open("rb")) if isinstance(line, Row))
        write_segment(import_pyarrow(), folder, segment, rows, documents, counts)
    path.unlink()
