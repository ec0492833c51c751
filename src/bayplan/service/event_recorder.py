"""Writes events (events.k8s.io/v1); identical ones become a series.

Mirrors client-go's tools/events. Events are news, not state: recording never waits, and when the server is too slow
for the news, the newest are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from bayplan.api.kinds import EVENT
from bayplan.api.objects import UndecodableObject
from bayplan.client import ApiError, Client, ConfigError, PatchType, TransportError
from bayplan.client.errors import InvalidNameError
from bayplan.failures import Failures
from bayplan.log_fields import LogField, pod_named
from bayplan.service.clock import Clock, rfc3339_micro

log = logging.getLogger(__name__)

NOTE_LIMIT = 1024
"""Characters in an event's note; longer ones are cut, as upstream cuts them."""
SERIES_ENDS_AFTER = 360.0
"""Seconds without a repetition after which a series is over."""
_TRIES = 12
_RETRY_SECONDS = 2.0


class Regarding(Protocol):
    """What an event about a pod needs of it; a PodInfo will do."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(slots=True)
class _Recorded:
    """An event that was written, and how often it has happened since."""

    namespace: str
    name: str
    body: dict[str, Any]
    count: int
    written_count: int
    last_seen: float


class EventRecorder:
    """Records events about pods in the name of a scheduler. `run` writes them; until it runs they are kept."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        failures: Failures | None = None,
        *,
        capacity: int = 20_000,
        writers: int = 8,
    ) -> None:
        self._client = client
        self._failures = failures or Failures()
        self._clock = clock
        self._host = socket.gethostname()
        self._news: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(capacity)
        self._recorded: dict[tuple[str, ...], _Recorded] = {}
        self._writers = writers
        self._sequence = 0
        self.dropped = 0
        """Events lost because the server was too slow for them."""

    def record(self, pod: Regarding, controller: str, event_type: str, reason: str, action: str, note: str) -> None:
        """Note that something happened to a pod. `controller` is the scheduler's name."""
        moment = self._clock.now()
        key = (event_type, reason, action, controller, pod.namespace, pod.name, pod.uid, pod.resource_version, note)
        known = self._recorded.get(key)
        if known is not None:
            known.count += 1
            known.last_seen = self._clock.monotonic()
            if known.count == 2:
                self._write_series(known)
            return
        self._sequence += 1
        body: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": f"{pod.name}.{int(moment.timestamp() * 1e6) * 1000 + self._sequence % 1000:x}",
                "namespace": pod.namespace,
            },
            "eventTime": rfc3339_micro(moment),
            "type": event_type,
            "reason": reason,
            "action": action,
            "note": _cut(note),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._host}",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "resourceVersion": pod.resource_version,
            },
        }
        if reason != "Scheduled":  # a pod is scheduled once: that can be no series, and there are many of them
            name = body["metadata"]["name"]
            self._recorded[key] = _Recorded(pod.namespace, name, body, 1, 1, self._clock.monotonic())
        self._send(pod.namespace, body)

    async def run(self) -> None:
        """Write what is recorded until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._writers):
                tasks.create_task(self._write(), name=f"event-writer-{number}")
            tasks.create_task(self._finish_series(), name="event-series")

    async def drain(self, seconds: float) -> None:
        """Wait until everything recorded so far is written, so many seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.join()
        except TimeoutError:
            log.warning("%d events were not written in time", self._news.qsize())

    def _send(self, namespace: str, body: dict[str, Any]) -> None:
        try:
            self._news.put_nowait((namespace, body))
        except asyncio.QueueFull:
            self.dropped += 1
            if self.dropped.bit_count() == 1:  # at 1, 2, 4, 8, ...
                log.warning("the API server is too slow for our events: %d dropped so far", self.dropped)

    def _write_series(self, recorded: _Recorded) -> None:
        recorded.written_count = recorded.count
        series = {"count": recorded.count, "lastObservedTime": rfc3339_micro(self._clock.now())}
        self._send(recorded.namespace, {**recorded.body, "series": series})

    async def _write(self) -> None:
        while True:
            namespace, body = await self._news.get()
            try:
                await self._write_one(namespace, body)
            finally:
                self._news.task_done()

    async def _write_one(self, namespace: str, body: dict[str, Any]) -> None:
        for _ in range(_TRIES):
            try:
                await self._put(namespace, body)
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    log.warning("the API server refused an event about pod %s: %s", _about(body), error)
                    return
            except (TransportError, ConfigError) as error:
                log.debug("an event about pod %s could not be written yet: %s", _about(body), error)
            except Exception as error:  # noqa: BLE001 - it is recorded; it must not stop the other events
                expected = isinstance(error, UndecodableObject | InvalidNameError)
                self._failures.record("writing an event", error, f"pod {_about(body)}", expected=expected)
                return
            else:
                return
            await asyncio.sleep(_RETRY_SECONDS)
        log.warning("an event about pod %s was given up after %d tries", _about(body), _TRIES)

    async def _put(self, namespace: str, body: dict[str, Any]) -> None:
        if "series" in body:
            patch = {"series": body["series"]}
            try:
                await self._client.patch(EVENT, body["metadata"]["name"], patch, namespace, type=PatchType.MERGE)
            except ApiError as error:
                if error.status != 404:  # the server keeps events for an hour only: begin anew
                    raise
            else:
                return
        await self._client.request("POST", EVENT.path(namespace), body=msgspec.json.encode(body))

    async def _finish_series(self) -> None:
        while True:
            await asyncio.sleep(SERIES_ENDS_AFTER / 2)
            now = self._clock.monotonic()
            for key, recorded in list(self._recorded.items()):
                if recorded.count > recorded.written_count:
                    self._write_series(recorded)
                if now - recorded.last_seen > SERIES_ENDS_AFTER:
                    del self._recorded[key]


def _cut(note: str) -> str:
    return note if len(note) <= NOTE_LIMIT else note[: NOTE_LIMIT - 4] + " ..."


def _about(body: dict[str, Any]) -> LogField:
    return pod_named(body["regarding"]["namespace"], body["regarding"]["name"])
