"""HistoryRecorder: records a history beside any scheduler. It lists and watches, and writes nothing to the cluster.

Rows go to a journal at once; a full segment becomes a Parquet file, in a thread. What wasn't seen is a gap: an outage,
a restart, a full disk. It runs on one event loop, and one process records to a folder. `bayplan run --record` records
something else: what decisions rest on (`bayplan.running.recording`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.history.format import LOCK, MANIFEST, HistoryError, HistoryManifest, Row, segment_of
from bayplan.answers.history.journal import convert_journal
from bayplan.answers.history.recording_session import (
    RecordedKind,
    RecorderPace,
    RecordingProgress,
    RecordingSession,
    Redaction,
    finished,
)
from bayplan.answers.history.segments import segments_in
from bayplan.answers.history.writing import prepare_folder, write_manifest
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT, EFFECTS, FOLLOWED
from bayplan.answers.snapshots.served import LISTING_PAUSE
from bayplan.core.api import kueue
from bayplan.core.api.kinds import CORE_EVENT, POD_TEMPLATE, Kind
from bayplan.core.api.provisioning import PROVISIONING_REQUEST
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.file_lock import AlreadyLocked, locked
from bayplan.running.client.client import Client

logger = logging.getLogger(__name__)

KINDS = tuple(kind for kind in FOLLOWED if kind not in {CORE_EVENT, POD_TEMPLATE, PROVISIONING_REQUEST, *kueue.NAMES})
"""What is recorded: what a snapshot has, but for events, leases, and what queues ask and say."""


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
        pace: RecorderPace | None = None,
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
        self._pace = pace or RecorderPace()
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
        """Record until it is cancelled, or nothing can be written: then `problem` says why."""
        try:
            following = Following()
            resumed = await finished(asyncio.to_thread(_restore, self._folder, following, manifest))
            self.progress.missed.clear()
            session = RecordingSession(
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

    async def _follow(self, session: RecordingSession, resumed: datetime | None, reason: str) -> None:
        if resumed is not None:
            session.write([HistoryChange(Row(resumed, columns.GAP_BEGAN, kind=_ALL, reason=reason))])
            self.progress.gaps += 1
        follows = [RecordedKind(self._client, kind, session, initial=resumed is None) for kind in self._kinds]

        def note_gaps() -> None:
            for follow in follows:
                follow.note_gap()

        async with asyncio.TaskGroup() as tasks:
            for follow in follows:
                tasks.create_task(follow.run(), name=f"record {follow.kind.resource}")
            tasks.create_task(self._until_listed(follows, session, resumed is not None), name="wait for lists")
            tasks.create_task(session.keep(note_gaps), name="keep the segments")

    async def _until_listed(self, follows: list[RecordedKind], session: RecordingSession, resumed: bool) -> None:
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


def _first(errors: BaseExceptionGroup[OSError]) -> str:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
