"""Building events, and writing them in the background.

Mirrors client-go's tools/events and tools/record. Writing never delays the caller that records an event: when the
server is too slow, new events are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from bayplan.api.kinds import EVENT, Kind
from bayplan.api.objects import UndecodableObject
from bayplan.api.times import rfc3339_micro
from bayplan.client.answers import check_object
from bayplan.client.client import Client, PatchType
from bayplan.client.errors import ApiError, ConfigError, InvalidNameError, MalformedResponseError, TransportError
from bayplan.failures import Failures
from bayplan.log_fields import LogField

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024
"""Characters in an event's note; longer notes are cut, as upstream cuts them."""
WORK = "writing an event"
"""The name of this work in the metric of failures."""
_TRIES = 12
_RETRY_SECONDS = 2.0

Event = dict[str, Any]
"""An event's JSON, of events.k8s.io/v1 or of v1."""


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
    """Writes events of one kind (EVENT or CORE_EVENT) while `run` runs. Up to `capacity` events wait."""

    def __init__(
        self, client: Client, kind: Kind, failures: Failures | None = None, *, capacity: int, writers: int = 1
    ) -> None:
        self._failures = failures or Failures()
        self._client = client
        self._kind = kind
        self._queue: asyncio.Queue[tuple[Event, dict[str, Any] | None]] = asyncio.Queue(capacity)
        self._writers = writers
        self.dropped = 0
        """Events lost because the server was too slow."""

    def create(self, event: Event) -> None:
        """Write a new event."""
        self._add(event, None)

    def merge(self, event: Event, changes: dict[str, Any]) -> None:
        """Write changed fields of an event that has been written before."""
        self._add(event, changes)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._writers):
                tasks.create_task(self._write_all(), name=f"event-writer-{number}")

    async def drain(self, seconds: float) -> None:
        """Wait until all events so far are written, but at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            log.warning("%d events were not written in time", self._queue.qsize())

    def _add(self, event: Event, changes: dict[str, Any] | None) -> None:
        try:
            self._queue.put_nowait((event, changes))
        except asyncio.QueueFull:
            self.dropped += 1
            if self.dropped.bit_count() == 1:  # at 1, 2, 4, 8, ...
                log.warning("the API server is too slow for the events: %d dropped so far", self.dropped)

    async def _write_all(self) -> None:
        while True:
            event, changes = await self._queue.get()
            try:
                await self._write(event, changes)
            finally:
                self._queue.task_done()

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
