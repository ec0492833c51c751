"""Events about what controllers and kubelets do, in moderation. Mirrors client-go's tools/record with its spam
filter.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bayplan.api.kinds import CORE_EVENT, Kind
from bayplan.api.times import whole_seconds
from bayplan.client import ApiError, Client, PatchType, TransportError
from bayplan.clock import TimerClock

BURST = 25
"""Events that one object may have at once."""
REFILL_SECONDS = 300.0
"""Seconds after which it may have another one."""
BACKLOG = 1000
"""Events waiting to be sent; more are dropped."""
REMEMBERED = 4096
"""Objects and events that are remembered for counting."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Allowance:
    tokens: float
    since: datetime


@dataclass(slots=True)
class _Sent:
    name: str
    count: int


class EventRecorder:
    """Records events on behalf of one component."""

    def __init__(self, sink: EventSink, component: str) -> None:
        self._sink = sink
        self._component = component

    def normal(self, kind: Kind, obj: Any, reason: str, message: str) -> None:
        """Record that something happened as it should."""
        self._sink.add(self._component, "Normal", kind, obj, reason, message)

    def warning(self, kind: Kind, obj: Any, reason: str, message: str) -> None:
        """Record that something went wrong."""
        self._sink.add(self._component, "Warning", kind, obj, reason, message)


class EventSink:
    """Sends events in the background, best effort: a lost event changes nothing that is decided."""

    def __init__(self, client: Client, clock: TimerClock) -> None:
        self._client = client
        self._clock = clock
        self._backlog: asyncio.Queue[tuple[tuple[str, ...], dict[str, Any]]] = asyncio.Queue(BACKLOG)
        self._allowances: dict[str, _Allowance] = {}
        self._sent: dict[tuple[str, ...], _Sent] = {}

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            key, event = await self._backlog.get()
            try:
                await self._send(key, event)
            except (ApiError, TransportError) as error:
                log.debug("an event was not recorded: %s", error)

    def add(self, component: str, severity: str, kind: Kind, obj: Any, reason: str, message: str) -> None:
        """Take an event, unless too many wait or the object has had too many."""
        metadata = obj.metadata
        if self._backlog.full() or not self._allow(metadata.uid):
            return
        now = whole_seconds(self._clock.now())
        event = {
            "metadata": {
                "name": f"{metadata.name}.{random.getrandbits(64):016x}",
                "namespace": metadata.namespace or "default",
            },
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resourceVersion,
            },
            "type": severity,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._backlog.put_nowait(((metadata.uid, reason, message), event))

    def _allow(self, uid: str) -> bool:
        now = self._clock.now()
        allowance = self._allowances.pop(uid, None) or _Allowance(BURST, now)
        refill = (now - allowance.since).total_seconds() / REFILL_SECONDS
        allowance.tokens, allowance.since = min(BURST, allowance.tokens + refill), now
        allowed = allowance.tokens >= 1
        allowance.tokens -= allowed
        _remember(self._allowances, uid, allowance)
        return allowed

    async def _send(self, key: tuple[str, ...], event: dict[str, Any]) -> None:
        namespace = event["metadata"]["namespace"]
        sent = self._sent.pop(key, None)
        if sent is not None:
            again = {"count": sent.count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch(CORE_EVENT, sent.name, again, namespace, type=PatchType.MERGE)
            except ApiError as error:
                if error.status != 404:  # an event that has expired is written anew
                    raise
            else:
                _remember(self._sent, key, _Sent(sent.name, sent.count + 1))
                return
        await self._client.create(CORE_EVENT, event, namespace)
        _remember(self._sent, key, _Sent(event["metadata"]["name"], 1))


def _remember(memory: dict[Any, Any], key: Any, value: Any) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
