"""RecordingSession: the open journal of a recorder, from one failure to write to the next; what it writes of each kind.

It belongs to the recorder's event loop. Files are converted in a thread, for which a cancellation waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.following import Following, HistoryChange, key_of
from bayplan.answers.history.format import HistoryManifest, Row
from bayplan.answers.history.gaps import plain
from bayplan.answers.history.journal import Journal, convert_journal, next_segment
from bayplan.answers.history.writing import write_manifest
from bayplan.answers.snapshots.served import FollowedKind
from bayplan.core.api.kinds import Kind
from bayplan.foundations.clock import Clock
from bayplan.running.client.client import Client
from bayplan.running.client.pace import RequestError

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecorderPace:
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
        pace: RecorderPace,
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


class RecordedKind(FollowedKind):
    """Records one kind. `initial`: whether what is listed existed at the start."""

    def __init__(self, client: Client, kind: Kind, session: RecordingSession, *, initial: bool) -> None:
        super().__init__(client, kind, clock=session.clock.monotonic)
        self.initial = initial
        """Whether objects are reported that existed at the start."""
        self._listed = False
        self._session = session
        self._seen: set[str] = set()
        self._shown: dict[str, str] = {}
        """key -> its redacted key"""
        self._contact = session.clock.now()
        """When the server is known to have sent everything."""
        self._in_gap = False

    def failed(self, kind: Kind, error: RequestError, pause: float) -> None:
        """Warn. An outage fails the requests of all kinds, again and again, and is one warning."""
        self._session.warn(kind, plain(str(error)))

    def decode(self, raw: bytes) -> dict[str, Any]:
        """Return the object as a document: a history stores all of its fields."""
        return _object.decode(raw)

    def put(self, key: str, new: Mapping[str, Any]) -> None:
        """Write the rows of a new version."""
        session = self._session
        obj = session.redaction(self.kind, key, new) if session.redaction is not None else new
        if obj is None:
            return
        shown = key_of(obj)
        if session.redaction is not None:
            self._shown[key] = shown
        if not self._listed:
            self._seen.add(shown)
        time = session.began if self.initial else session.clock.now()
        session.write(session.following.put(self.kind, obj, time, initial=self.initial))

    def removed(self, key: str) -> None:
        """Write the row of an object that is gone."""
        shown = self._shown.pop(key, "") if self._session.redaction is not None else key
        if shown:
            self._session.write(self._session.following.removed(self.kind, shown, self._session.clock.now()))

    def listed(self) -> None:
        """After a complete list. After the first one, what an earlier recording knew and is gone, has been removed."""
        session, now = self._session, self._session.clock.now()
        if self._listed:
            if not self._in_gap:
                self._begin_gap(self._contact, "its watch could not be resumed, and it was listed again")
            self._end_gap(now)
            return
        self._listed = True
        for key in session.following.keys(self.kind):
            if key not in self._seen:
                session.write(session.following.removed(self.kind, key, now))
        self._seen = set()

    def note_gap(self) -> None:
        """Begin a gap when the watch is lost, and end it when it is back."""
        now = self._session.clock.now()
        if self._watch is None or not self._listed:
            return
        if self._watch.problem and not self._in_gap:
            problem = self._watch.problem.partition(": ")[2]
            reason = "the API server could not be read" if self._session.redaction is not None else problem
            self._begin_gap(self._contact, reason)
        elif not self._watch.problem:
            self._session.failing.pop(self.kind, None)
            if self._in_gap:
                self._end_gap(now)
            self._contact = now

    def _begin_gap(self, time: datetime, reason: str) -> None:
        self._in_gap = True
        self._session.progress.gaps += 1
        self._session.progress.missed.add(self.kind)
        row = Row(time, columns.GAP_BEGAN, kind=self.kind.kind, reason=f"{self.kind.resource}: {reason}")
        self._session.write([HistoryChange(row)])

    def _end_gap(self, time: datetime) -> None:
        self._in_gap = False
        self._session.progress.missed.discard(self.kind)
        self._contact = time
        self._session.write([HistoryChange(Row(time, columns.GAP_ENDED, kind=self.kind.kind))])


_object = msgspec.json.Decoder(dict[str, Any])


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work in a thread. A cancellation waits for it, because what follows uses the same files."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await task
