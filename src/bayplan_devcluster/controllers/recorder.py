"""Events (v1) of controllers and kubelets, rate-limited per object. Mirrors client-go's tools/record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bayplan.core.api.kinds import CORE_EVENT, Kind
from bayplan.core.api.times import rfc3339
from bayplan.foundations.clock import Clock
from bayplan.running.client.client import Client
from bayplan.running.client.events import Event, EventWriter, event_metadata, reference

BURST = 25
"""Events that one object may have at once."""
REFILL_SECONDS = 300.0
"""Seconds after which it may have another one."""
BACKLOG = 1000
"""Events waiting to be sent; more are dropped."""
REMEMBERED = 4096
"""Objects and events that are remembered for counting."""


@dataclass(slots=True)
class _Allowance:
    tokens: float
    since: datetime


class EventRecorder:
    """Records events on behalf of one component."""

    def __init__(self, sink: EventSink, component: str) -> None:
        self._sink = sink
        self._component = component

    def normal(self, kind: Kind, obj: Any, reason: str, message: str) -> None:
        """Record an event of type Normal."""
        self._sink.add(self._component, "Normal", kind, obj, reason, message)

    def warning(self, kind: Kind, obj: Any, reason: str, message: str) -> None:
        """Record an event of type Warning."""
        self._sink.add(self._component, "Warning", kind, obj, reason, message)


class EventSink:
    """Writes the events of several components, best effort. `run` writes them."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._clock = clock
        self._writer = EventWriter(client, CORE_EVENT, capacity=BACKLOG)
        self._allowances: dict[str, _Allowance] = {}
        self._recorded: dict[tuple[str, ...], Event] = {}
        """The latest version of each event, by object, reason and message."""
        self.run = self._writer.run

    def add(self, component: str, severity: str, kind: Kind, obj: Any, reason: str, message: str) -> None:
        """Record an event, unless the object has had too many. An identical one increases the count of the first."""
        metadata = obj.metadata
        if not self._allow(metadata.uid):
            return
        now = rfc3339(self._clock.now())
        key = (metadata.uid, reason, message)
        event = self._recorded.pop(key, None)
        if event is not None:
            changes = {"count": event["count"] + 1, "lastTimestamp": now}
            event = {**event, **changes}
            self._writer.merge(event, changes)
        else:
            regarding = reference(kind, metadata.namespace, metadata.name, metadata.uid, metadata.resourceVersion)
            event = {
                "metadata": event_metadata(regarding),
                "involvedObject": regarding,
                "type": severity,
                "reason": reason,
                "message": message,
                "source": {"component": component},
                "reportingComponent": component,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            self._writer.create(event)
        _remember(self._recorded, key, event)

    def _allow(self, uid: str) -> bool:
        now = self._clock.now()
        allowance = self._allowances.pop(uid, None) or _Allowance(BURST, now)
        refill = (now - allowance.since).total_seconds() / REFILL_SECONDS
        allowance.tokens, allowance.since = min(BURST, allowance.tokens + refill), now
        allowed = allowance.tokens >= 1
        allowance.tokens -= allowed
        _remember(self._allowances, uid, allowance)
        return allowed


def _remember(memory: dict[Any, Any], key: Any, value: Any) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
