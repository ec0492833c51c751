"""HistoryRecorder: records a history beside any scheduler. It lists and watches, and writes nothing to the cluster.

Rows go to a journal at once; a full segment becomes a Parquet file, in a thread. What wasn't seen is a gap: an outage,
a restart, a full disk. It runs on one event loop, and one process records to a folder. `bayplan run --record` records
something else: what decisions rest on (`bayplan.running.recording`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.following import Following, HistoryChange, key_of
from bayplan.answers.history.format import LOCK, MANIFEST, HistoryError, HistoryManifest, Row, segment_of
from bayplan.answers.history.gaps import plain
from bayplan.answers.history.journal import Journal, convert_journal, next_segment
from bayplan.answers.history.segments import segments_in
from bayplan.answers.history.writing import prepare_folder, write_manifest
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT, EFFECTS, FOLLOWED
from bayplan.answers.snapshots.served import LISTING_PAUSE, FollowedKind
from bayplan.core.api import kueue
from bayplan.core.api.kinds import CORE_EVENT, POD_TEMPLATE, Kind
from bayplan.core.api.provisioning import PROVISIONING_REQUEST
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.file_lock import AlreadyLocked, locked
from bayplan.running.client.client import Client
from bayplan.running.client.list_watch import RequestError

logger = logging.getLogger(__name__)
T = TypeVar("T")

KINDS = tuple(kind for kind in FOLLOWED if kind not in {CORE_EVENT, POD_TEMPLATE, PROVISIONING_REQUEST, *kueue.NAMES})
"""What is recorded: what a snapshot has, but for events, leases, and what queues ask and say."""


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


class HistoryRecorder:
    """Records a cluster to a folder, until it is cancelled.

    A folder with an earlier recording is continued: what happened in between is a gap. While the disk is full, nothing
    is recorded, and that is a gap, too. `source` names the cluster.
    """

    def __init__(
        self,
        client: Client,
        folder: Path,
        source: str,
        *,
        kinds: Iterable[Kind] = (),
        redaction: Redaction | None = None,
        pace: Pace | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.synced = asyncio.Event()
        """Set once all kinds were listed, or can't be."""
        self.progress = RecordingProgress()
        self._fault = ""
        """Why nothing could be written; "" if it could."""
        self._client = client
        self._folder = folder
        self._source = source
        self._kinds = tuple(dict.fromkeys((*KINDS, *kinds)))
        self._redaction = redaction
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        """Record until cancelled. Raises HistoryError if the folder can't be used, or another process records to it."""
        columns.import_pyarrow()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with locked(self._folder / LOCK):
                await self._record_until_cancelled(self._open())
        except AlreadyLocked as error:
            raise HistoryError(
                f"{self._folder} is being recorded to by {error.holder}: name another folder, or stop that process"
            ) from None
        except OSError as error:
            raise HistoryError(f"cannot write {self._folder}: {error.strerror or error}") from None

    async def _record_until_cancelled(self, manifest: HistoryManifest) -> None:
        reason = "the recorder was not running"
        try:
            while True:
                await self._record(manifest, reason)
                reason = f"nothing could be written ({self._fault})"
                logger.warning("%s; retrying in %.0f s", self.problem, self._pace.retry_seconds)
                await asyncio.sleep(self._pace.retry_seconds)
        except asyncio.CancelledError:
            if self._fault:
                await self._record_once_more(manifest, f"nothing could be written ({self._fault})")
            raise

    async def _record_once_more(self, manifest: HistoryManifest, reason: str) -> None:
        """At the end, after nothing could be written: the disk may have room again, so note what there is now."""
        self.synced.clear()
        recording = asyncio.create_task(self._record(manifest, reason), name="record once more")
        synced = asyncio.create_task(self.synced.wait(), name="wait for the last lists")
        await asyncio.wait((recording, synced), timeout=self._pace.last_seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (recording, synced):
            task.cancel()
        await asyncio.wait((recording, synced))

    @property
    def problem(self) -> str:
        """Why nothing is recorded now; "" if it is."""
        return f"cannot write to {self._folder}: {self._fault}" if self._fault else ""

    def _open(self) -> HistoryManifest:
        path = self._folder / MANIFEST
        try:
            if not path.exists():
                prepare_folder(self._folder)
                manifest = HistoryManifest(bayplan=version("bayplan"), source=self._source, begin=self._clock.now())
                manifest.redacted = self._redaction is not None
                write_manifest(self._folder, manifest)
                return manifest
            manifest = msgspec.json.decode(path.read_bytes(), type=HistoryManifest)
        except OSError as error:
            raise HistoryError(f"cannot write {self._folder}: {error.strerror or error}") from None
        except (msgspec.MsgspecError, ValueError) as error:
            raise HistoryError(f"{path} is damaged ({error}): name another folder") from None
        if manifest.format != columns.FORMAT or manifest.version != columns.VERSION:
            raise HistoryError(f"{self._folder} has a history of another version: name another folder")
        if manifest.redacted != (self._redaction is not None):
            with_names = "without --redact" if self._redaction is None else "with --redact"
            raise HistoryError(f"{self._folder} can't be continued {with_names}: name another folder")
        return manifest

    async def _record(self, manifest: HistoryManifest, reason: str) -> None:
        """One recording, until it is cancelled, or nothing can be written: then `problem` says why."""
        try:
            following = Following()
            resumed = await _finished(asyncio.to_thread(_restore, self._folder, following, manifest))
            self.progress.missed.clear()
            session = _Session(
                self._folder, following, manifest, self._pace, self._clock, self._redaction, self.progress
            )
            self._fault = ""
            try:
                await self._follow(session, resumed, reason)
            finally:
                try:
                    session.finish()
                except OSError as error:  # a cancellation goes on
                    self._fault = error.strerror or str(error)
        except* OSError as errors:
            self._fault = _first(errors)

    async def _follow(self, session: _Session, resumed: datetime | None, reason: str) -> None:
        if resumed is not None:
            session.write([HistoryChange(Row(resumed, columns.GAP_BEGAN, kind=_ALL, reason=reason))])
            self.progress.gaps += 1
        follows = [_Follow(self._client, kind, session, initial=resumed is None) for kind in self._kinds]
        async with asyncio.TaskGroup() as tasks:
            for follow in follows:
                tasks.create_task(follow.run(), name=f"record {follow.kind.resource}")
            tasks.create_task(self._until_listed(follows, session, resumed is not None), name="wait for lists")
            tasks.create_task(session.keep(follows), name="keep the segments")

    async def _until_listed(self, follows: list[_Follow], session: _Session, resumed: bool) -> None:
        while not all(follow.ready for follow in follows):  # noqa: ASYNC110 - a problem sets no event
            await asyncio.sleep(min(LISTING_PAUSE, self._pace.tick_seconds))
        for follow in follows:
            follow.initial = False
        if resumed:
            session.write([HistoryChange(Row(self._clock.now(), columns.GAP_ENDED, kind=_ALL))])
        session.note(
            f"{follow.problem}: {EFFECTS.get(follow.kind, CUSTOM_EFFECT)}" for follow in follows if not follow.synced
        )
        self.synced.set()


_ALL = ""
"""The kind of a gap of all kinds."""


def _restore(folder: Path, following: Following, manifest: HistoryManifest) -> datetime | None:
    """Know what an earlier recording has reported. Returns until when it was complete; None if there is none."""
    times = []
    for path in sorted(folder.glob("journal-*.jsonl")):
        segment = segment_of(path)
        if segment is None:
            continue
        times.append(datetime.fromtimestamp(path.stat().st_mtime, UTC))  # when the recorder was last alive
        if columns.events_file(folder, segment).exists():
            path.unlink()  # it was converted
        else:
            convert_journal(folder, segment, manifest.counts)
    problems: list[str] = []
    known = False
    for found in segments_in(folder, problems):
        for row in found.rows():
            following.restore(row)
            times.append(row.time_utc)
            times, known = [max(times)], True
    for problem in problems:
        logger.warning("%s", problem)
    if not known:
        return None
    return max([*times, manifest.end] if manifest.end is not None else times)


class _Session:
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

    async def keep(self, follows: list[_Follow]) -> None:
        """Note gaps, and begin new segments. Raises OSError when something could not be written."""
        while True:
            await asyncio.sleep(self._pace.tick_seconds)
            for follow in follows:
                follow.note_gap()
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
        await _finished(asyncio.to_thread(convert_journal, self._folder, full.segment, self._manifest.counts))
        write_manifest(self._folder, self._manifest)

    def finish(self) -> None:
        """Convert the last segment, and write the manifest. Raises OSError, also if something could not be written."""
        self._journal.close()
        if self._failure is not None:
            raise self._failure
        convert_journal(self._folder, self._journal.segment, self._manifest.counts)
        self._manifest.end = self.clock.now()
        write_manifest(self._folder, self._manifest)


class _Follow(FollowedKind):
    """Records one kind."""

    def __init__(self, client: Client, kind: Kind, session: _Session, *, initial: bool) -> None:
        super().__init__(client, kind, clock=session.clock.monotonic)
        self.initial = initial
        """Whether objects are reported that existed at the begin."""
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


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of work in a thread. A cancellation waits for it, because what follows uses the same files."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await task


def _first(errors: BaseExceptionGroup[OSError]) -> str:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
