"""Building events, and writing them in the background.

Mirrors client-go's tools/events and tools/record. Writing never delays the caller that records an event: when too many
events wait for a slow server, new ones are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from bayplan.core.api.kinds import EVENT, Kind
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.api.times import rfc3339_micro
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import LogField
from bayplan.running.client.answers import check_object
from bayplan.running.client.client import Client, PatchType
from bayplan.running.client.errors import (
    ApiError,
    ConfigError,
    InvalidNameError,
    MalformedResponseError,
    TransportError,
)

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024
"""Characters in an event's note; longer notes are cut, as upstream cuts them."""
WORK = "writing an event"
"""The name of this work in the metric of failures."""
PATIENCE = 1.0
"""Seconds that an event may wait before more requests write events at once."""
_TRIES = 12
_RETRY_SECONDS = 2.0

Event = dict[str, Any]
"""An event's JSON, of events.k8s.io/v1 or of v1."""


class _Waiting(NamedTuple):
    """An event that is not written yet. `since`: when it was added. `changes`: what to change; None for a new event."""

    since: float
    event: Event
    changes: dict[str, Any] | None


def reference(
    kind: Kind, namespace: str | None, name: str, uid: str, resource_version: str | None = None
) -> dict[str, Any]:
    """An ObjectReference to the object that an event is about."""
    found: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid}
    if namespace:
        found["namespace"] = namespace
    if resource_version:
        found["resourceVersion"] = resource_version
    return found


def event_metadata(regarding: Mapping[str, Any]) -> dict[str, str]:
    """A unique name for an event about an object, in the object's namespace."""
    return {
        "name": f"{regarding['name']}.{random.getrandbits(64):016x}",
        "namespace": regarding.get("namespace", "default"),
    }


def new_event(
    regarding: Mapping[str, Any],
    moment: datetime,
    event_type: str,
    reason: str,
    action: str,
    note: str,
    controller: str,
    instance: str,
) -> Event:
    """An event of events.k8s.io/v1."""
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": event_metadata(regarding),
        "eventTime": rfc3339_micro(moment),
        "type": event_type,
        "reason": reason,
        "action": action,
        "note": note if len(note) <= NOTE_LIMIT else f"{note[: NOTE_LIMIT - 4]} ...",
        "reportingController": controller,
        "reportingInstance": instance,
        "regarding": regarding,
    }


class EventWriter:
    """Writes events of one kind (EVENT or CORE_EVENT) while `run` runs. Up to `capacity` events wait.

    `writers` requests write events at once. Once an event has waited for more than PATIENCE, there are up to
    `most_writers`, until no event waits: so a burst of other requests goes first, but delays events only that long.
    `monotonic` returns seconds.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        failures: Failures | None = None,
        *,
        capacity: int,
        writers: int = 1,
        most_writers: int = 1,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures or Failures()
        self._client = client
        self._kind = kind
        self._capacity = capacity
        self._writers = writers
        self._most_writers = most_writers
        self._now = monotonic
        self._waiting: deque[_Waiting] = deque()
        self._writing: dict[asyncio.Task[None], float] = {}
        """The running writers, and when the event that each writes was added."""
        self._tasks: asyncio.TaskGroup | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.dropped = 0
        """Events lost because the server was too slow."""

    @property
    def lag(self) -> float:
        """How many seconds ago the oldest event was added that is not written yet; 0 if all are written."""
        oldest = [*self._writing.values(), *(waiting.since for waiting in islice(self._waiting, 1))]
        return self._now() - min(oldest) if oldest else 0.0

    def create(self, event: Event) -> None:
        """Write a new event."""
        self._add(event, None)

    def merge(self, event: Event, changes: dict[str, Any]) -> None:
        """Write changed fields of an event that has been written before."""
        self._add(event, changes)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._add_writer()
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            self._writing.clear()

    async def drain(self, seconds: float) -> None:
        """Wait until all events so far are written, but at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d events were not written in time", len(self._waiting) + len(self._writing))

    def _add(self, event: Event, changes: dict[str, Any] | None) -> None:
        if len(self._waiting) >= self._capacity:
            self.dropped += 1
            if self.dropped.bit_count() == 1:  # at 1, 2, 4, 8, ...
                log.warning("the API server is too slow for the events: %d dropped so far", self.dropped)
            return
        self._waiting.append(_Waiting(self._now(), event, changes))
        self._idle.clear()
        self._add_writer()

    def _add_writer(self) -> None:
        """Start another writer if events wait and there may be more writers."""
        if self._tasks is None or not self._waiting:
            return
        since = self._waiting[0].since
        late = self._now() - since > PATIENCE
        if len(self._writing) < (self._most_writers if late else self._writers):
            task = self._tasks.create_task(self._write_all(), name="event-writer")
            self._writing[task] = since

    async def _write_all(self) -> None:
        """Write until no event waits."""
        task = asyncio.current_task()
        assert task is not None
        try:
            while self._waiting:
                waiting = self._waiting.popleft()
                self._writing[task] = waiting.since
                self._add_writer()
                await self._write(waiting.event, waiting.changes)
        finally:
            del self._writing[task]
            if not self._writing and not self._waiting:
                self._idle.set()

    async def _write(self, event: Event, changes: dict[str, Any] | None) -> None:
        for _ in range(_TRIES):
            try:
                await self._send(event, changes)
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    level = logging.DEBUG if _is_expected(error) else logging.WARNING
                    log.log(level, "the API server rejected an event about %s: %s", _about(event), error)
                    return
            except MalformedResponseError as error:
                self._failures.record(WORK, error, _about(event), expected=True)
                return
            except (TransportError, ConfigError) as error:
                log.debug("retrying to write an event about %s: %s", _about(event), error)
            except Exception as error:  # noqa: BLE001 - it is recorded; it must not stop the other events
                expected = isinstance(error, UndecodableObject | InvalidNameError)
                self._failures.record(WORK, error, _about(event), expected=expected)
                return
            else:
                return
            await asyncio.sleep(_RETRY_SECONDS)
        log.warning("dropped an event about %s after %d tries", _about(event), _TRIES)

    async def _send(self, event: Event, changes: dict[str, Any] | None) -> None:
        namespace = event["metadata"]["namespace"]
        if changes is not None:
            name = event["metadata"]["name"]
            try:
                await self._client.patch(self._kind, name, changes, namespace, type=PatchType.MERGE)
            except ApiError as error:
                if error.status != 404:  # the server keeps events for an hour; after that, create the event again
                    raise
            else:
                return
        body = msgspec.json.encode({**event, **(changes or {})})
        path = self._kind.path(namespace)
        check_object(await self._client.request("POST", path, body=body), f"POST {path}")


def _is_expected(error: ApiError) -> bool:
    """Whether the event exists, or its namespace is deleted or terminating. Mirrors recordEvent of tools/record."""
    causes = error.details.get("causes") or ()
    return (
        error.status == 404
        or error.reason == "AlreadyExists"
        or any(isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes)
    )


def _about(event: Event) -> LogField:
    regarding = event.get("regarding") or event["involvedObject"]
    namespace, name, kind = regarding.get("namespace"), regarding["name"], regarding["kind"].lower()
    path = f"{namespace}/{name}" if namespace else name
    return LogField(kind, {"name": name, "namespace": namespace} if namespace else {"name": name}, f"{kind} {path}")
