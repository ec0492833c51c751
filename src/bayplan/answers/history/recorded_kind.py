"""RecordedKind: what a recorder writes about one kind, as its list and watch report it, and its gaps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.following import HistoryChange, key_of
from bayplan.answers.history.format import Row
from bayplan.answers.history.gaps import plain
from bayplan.answers.history.recording_session import RecordingSession
from bayplan.answers.snapshots.served import FollowedKind
from bayplan.core.api.kinds import Kind
from bayplan.running.client.client import Client
from bayplan.running.client.list_watch import RequestError


class RecordedKind(FollowedKind):
    """Records one kind. `initial`: whether what is listed existed at the begin."""

    def __init__(self, client: Client, kind: Kind, session: RecordingSession, *, initial: bool) -> None:
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
