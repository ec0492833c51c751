"""RecordingSession: the open journal of a recorder, from one failure to write to the next, and its segments.

It belongs to the recorder's event loop. Files are converted in a thread, for which a cancellation waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.history.format import HistoryManifest
from bayplan.answers.history.journal import Journal, convert_journal, next_segment
from bayplan.answers.history.writing import write_manifest
from bayplan.core.api.kinds import Kind
from bayplan.foundations.clock import Clock

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a recorder does what it does from time to time."""

    segment_rows: int = 20_000
    """The rows of a segment."""
    segment_seconds: float = 3600.0
    """The longest time of a segment."""
    tick_seconds: float = 1.0
    """Between two looks at the watches and the disk."""
    retry_seconds: float = 10.0
    """Until the next attempt to write, after the disk was full."""
    last_seconds: float = 5.0
    """How long the last attempt may take, when the recorder is stopped meanwhile."""


class Redaction(Protocol):
    """Replaces the names in objects."""

    def __call__(self, kind: Kind, key: str, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The object without what is private; None for a kind that is left out."""


@dataclass(slots=True)
class RecordingProgress:
    """What a recorder has written since it began, and what it misses."""

    rows: int = 0
    gaps: int = 0
    """Gaps that it has noted: one for each kind of an outage, and one for all kinds after a restart or a full disk."""
    missed: set[Kind] = field(default_factory=set)
    """The kinds whose changes are not seen now."""


class RecordingSession:
    """The open journal of a recording, and what follows it."""

    def __init__(
        self,
        folder: Path,
        following: Following,
        manifest: HistoryManifest,
        pace: Pace,
        clock: Clock,
        redaction: Redaction | None,
        progress: RecordingProgress,
    ) -> None:
        self.following = following
        self.progress = progress
        self.clock = clock
        self.redaction = redaction
        self.began = clock.now() if manifest.begin is None else manifest.begin
        self._folder = folder
        self._manifest = manifest
        self._pace = pace
        self._journal = Journal(folder, next_segment(folder))
        self._opened = clock.monotonic()
        self._failure: OSError | None = None
        self.failing: dict[Kind, str] = {}
        """Why kinds can't be read now."""
        manifest.end = None
        write_manifest(folder, manifest)

    def write(self, changes: Iterable[HistoryChange]) -> None:
        """Write changes. A failure ends the recording at the next tick."""
        if self._failure is not None:
            return
        before = self._journal.rows
        try:
            self._journal.append(changes)
        except OSError as error:
            self._failure = error
        self.progress.rows += self._journal.rows - before

    def warn(self, kind: Kind, reason: str) -> None:
        """Log why a kind can't be read, unless others can't be read for the same reason."""
        if reason not in self.failing.values():
            logger.warning("%s: %s; retrying, and other kinds may have this problem, too", kind.resource, reason)
        self.failing[kind] = reason

    def note(self, notes: Iterable[str]) -> None:
        """Note what can't be recorded."""
        if notes := [note for note in notes if note not in self._manifest.notes]:
            self._manifest.notes += notes
            write_manifest(self._folder, self._manifest)

    async def keep(self, note_gaps: Callable[[], None]) -> None:
        """Note gaps, and begin new segments. Raises OSError when something could not be written."""
        while True:
            await asyncio.sleep(self._pace.tick_seconds)
            note_gaps()
            if self._failure is not None:
                raise self._failure
            self._journal.touch()
            old = self._journal.rows >= self._pace.segment_rows
            if self._journal.rows and (old or self.clock.monotonic() - self._opened >= self._pace.segment_seconds):
                await self._begin_segment()

    async def _begin_segment(self) -> None:
        full = self._journal
        self._journal = Journal(self._folder, full.segment + 1)
        self._opened = self.clock.monotonic()
        full.close()
        await finished(asyncio.to_thread(convert_journal, self._folder, full.segment, self._manifest.counts))
        write_manifest(self._folder, self._manifest)

    def finish(self) -> None:
        """Convert the last segment, and write the manifest. Raises OSError, also if something could not be written."""
        self._journal.close()
        if self._failure is not None:
            raise self._failure
        convert_journal(self._folder, self._journal.segment, self._manifest.counts)
        self._manifest.end = self.clock.now()
        write_manifest(self._folder, self._manifest)


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work in a thread. A cancellation waits for it, because what follows uses the same files."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await task
