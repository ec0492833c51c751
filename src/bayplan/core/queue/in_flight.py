"""Pods in flight, and the events that occur during their attempts.

An attempt sees the cluster as it was when it began. A later event may make the pod schedulable, so events are recorded
and evaluated when the pod returns to the queue. Mirrors inFlightPods and inFlightEvents of
pkg/scheduler/backend/queue/active_queue.go.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.changes import ASSIGNED_POD_DELETE
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.queue.queued_pod import QueuedPod

_UNNEEDED_EVENTS = 64
"""The number of unneeded events below which none are dropped."""


class Happened(NamedTuple):
    """An event, with its object before and after."""

    event: ClusterEvent
    old: Any
    new: Any

    def ends_nomination_of(self, uid: str) -> bool:
        """Whether this is the end of a pod's own nomination, which helps other pods only."""
        return self.event is ASSIGNED_POD_DELETE and getattr(self.old, "uid", None) == uid


@dataclass(slots=True)
class _Attempt:
    queued: QueuedPod
    began_with: PodInfo
    latest: PodInfo | None
    """The latest version of the pod; None if it was deleted."""


class InFlight:
    """The pods that are being scheduled or bound, and one list of events for all of them.

    Each event is stored once, at a position that only increases. A pod's attempt refers to the position at which it
    began. Attempts begin in the order of positions, so events before the oldest attempt can be dropped.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._starts: OrderedDict[str, int] = OrderedDict()
        self._events: list[Happened] = []
        self._first = 0
        """The position of the first stored event."""
        self.unit: dict[str, QueuedPod] = {}
        """By uid, the pods of the running attempt that are neither placed nor requeued yet. Read-only."""

    def start(self, queued: QueuedPod, *, joins: bool = False) -> None:
        """Begin an attempt, or let a pod join the running one."""
        pod = queued.pod
        if not joins:
            self.unit.clear()
        self.unit[pod.uid] = queued
        self._attempts[pod.uid] = _Attempt(queued, pod, pod)
        self._starts[pod.uid] = self._first + len(self._events)

    def decided(self, uid: str) -> QueuedPod | None:
        """Record that a pod has been placed: the running attempt is no longer about it, and its binding is.

        Returns the pod; None if the running attempt was not about it.
        """
        return self.unit.pop(uid, None)

    def record(self, event: ClusterEvent, old: object, new: object) -> None:
        """Store an event. Does nothing while no attempt needs events."""
        if self._starts:
            self._events.append(Happened(event, old, new))

    def events_since_start(self, uid: str) -> list[Happened] | None:
        """Return the events since a pod's attempt began; None if they are not recorded for it."""
        start = self._starts.get(uid)
        return None if start is None else self._events[start - self._first :]

    def stop_recording(self, uid: str) -> None:
        """Stop recording events for a pod. Unknown pods are ignored."""
        if self._starts.pop(uid, None) is None:
            return
        oldest = next(iter(self._starts.values()), self._first + len(self._events))
        unneeded = oldest - self._first
        # Drop many at once, because deleting from the front of a list moves all other elements.
        if unneeded == len(self._events) or unneeded > max(len(self._events) // 2, _UNNEEDED_EVENTS):
            del self._events[:unneeded]
            self._first = oldest

    def end(self, uid: str) -> QueuedPod | None:
        """End an attempt. Returns the pod in its latest version; None if it is unknown or deleted.

        A version that the caller stored in the QueuedPod during the attempt is kept.
        """
        self.stop_recording(uid)
        self.unit.pop(uid, None)
        attempt = self._attempts.pop(uid, None)
        if attempt is None or attempt.latest is None:
            return None
        if attempt.queued.pod is attempt.began_with:
            attempt.queued.pod = attempt.latest
        return attempt.queued

    def update(self, pod: PodInfo) -> None:
        """Store a new version of a pod in flight. Its attempt continues with the old one; `end` returns the new one."""
        self._attempts[pod.uid].latest = pod

    def forget(self, uid: str) -> None:
        """Record that a pod in flight was deleted: `end` will return None."""
        self._attempts[uid].latest = None

    def latest(self, uid: str) -> PodInfo | None:
        """Return the latest version of a pod in flight; None if it was deleted."""
        return self._attempts[uid].latest

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod in flight; None if it is unknown."""
        attempt = self._attempts.get(uid)
        return attempt.queued if attempt else None

    def event_labels(self) -> Counter[str]:
        """Return the number of stored events, by label."""
        return Counter(happened.event.label for happened in self._events)

    def __contains__(self, uid: str) -> bool:
        return uid in self._attempts

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (attempt.queued for attempt in self._attempts.values())
