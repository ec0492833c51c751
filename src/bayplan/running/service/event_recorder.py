"""Records events about pods (events.k8s.io/v1); identical ones become a series. Mirrors client-go's tools/events.

Events are a stream: when the API server is too slow, they are dropped and counted, and decisions don't wait for them.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

from bayplan.core.api.kinds import EVENT, POD
from bayplan.core.api.times import rfc3339_micro
from bayplan.core.executor.ports import EventSubject
from bayplan.foundations.clock import Clock
from bayplan.foundations.failures import Failures
from bayplan.running.client.client import Client
from bayplan.running.client.events import Event, EventWriter, new_event, reference

SERIES_ENDS_AFTER = 360.0
"""Seconds without a repetition after which a series ends."""
_CAPACITY = 20_000
"""Events that wait to be written; more are dropped."""
_WRITERS, _MOST_WRITERS = 8, 100
"""Requests that write events at once, and their number while events lag behind bindings (see EventWriter).

With as many connections as the bindings use at most, events get an equal share of a server that is busy with bindings.
"""


@dataclass(slots=True)
class _Recorded:
    """An event, and how often it has happened."""

    event: Event
    last_seen: float
    count: int = 1
    written_count: int = 1


class EventRecorder:
    """Records events about pods on behalf of schedulers. `run` writes them; until it runs, they are kept."""

    def __init__(self, client: Client, clock: Clock, failures: Failures | None = None) -> None:
        self._clock = clock
        self._host = socket.gethostname()
        self._writer = EventWriter(
            client,
            EVENT,
            failures,
            capacity=_CAPACITY,
            writers=_WRITERS,
            most_writers=_MOST_WRITERS,
            monotonic=clock.monotonic,
        )
        self._recorded: dict[tuple[str, ...], _Recorded] = {}
        self.drain = self._writer.drain

    @property
    def dropped(self) -> int:
        """Events lost because the server was too slow."""
        return self._writer.dropped

    @property
    def lag(self) -> float:
        """How many seconds ago the oldest event was recorded that is not written yet; 0 if all are written."""
        return self._writer.lag

    def record(self, pod: EventSubject, controller: str, event_type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod. `controller` is the scheduler's name."""
        key = (event_type, reason, action, controller, pod.namespace, pod.name, pod.uid, pod.resource_version, note)
        known = self._recorded.get(key)
        if known is not None:
            known.count += 1
            known.last_seen = self._clock.monotonic()
            if known.count == 2:
                self._write_series(known)
            return
        regarding = reference(POD, pod.namespace, pod.name, pod.uid, pod.resource_version)
        instance = f"{controller}-{self._host}"
        event = new_event(regarding, self._clock.now(), event_type, reason, action, note, controller, instance)
        if reason != "Scheduled":  # a pod is scheduled once, so this can't become a series, and there are many
            self._recorded[key] = _Recorded(event, self._clock.monotonic())
        self._writer.create(event)

    async def run(self) -> None:
        """Write what is recorded until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._writer.run(), name="event-writers")
            tasks.create_task(self._finish_series(), name="event-series")

    def _write_series(self, recorded: _Recorded) -> None:
        recorded.written_count = recorded.count
        series = {"count": recorded.count, "lastObservedTime": rfc3339_micro(self._clock.now())}
        self._writer.merge(recorded.event, {"series": series})

    async def _finish_series(self) -> None:
        while True:
            await asyncio.sleep(SERIES_ENDS_AFTER / 2)
            now = self._clock.monotonic()
            for key, recorded in list(self._recorded.items()):
                if recorded.count > recorded.written_count:
                    self._write_series(recorded)
                if now - recorded.last_seen > SERIES_ENDS_AFTER:
                    del self._recorded[key]
