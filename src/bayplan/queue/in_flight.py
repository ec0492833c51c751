"""Pods in flight, and the events that happen meanwhile.

An attempt sees the cluster as it was when it began. What happens later may make the pod fit, so it is remembered and
looked at when the pod comes back. Mirrors inFlightPods and inFlightEvents of
pkg/scheduler/backend/queue/active_queue.go.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import ClusterEvent
from bayplan.queue.queued_pod import QueuedPod

_FEW = 64
"""So many events may be kept longer than anybody needs them."""


class Happened(NamedTuple):
    """An event with its object, before and after."""

    event: ClusterEvent
    old: Any
    new: Any


@dataclass(slots=True)
class _Attempt:
    queued: QueuedPod
    began_with: PodInfo
    latest: PodInfo | None
    """The pod as it is known now; None once it is gone."""


class InFlight:
    """The pods being decided or bound, and one list of events for all of them.

    Every event is kept once, at a position that only grows; a pod remembers the position at which its attempt began.
    Attempts begin in the order of the positions, so the oldest pod that is still out tells which events nobody needs
    any more.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._starts: OrderedDict[str, int] = OrderedDict()
        self._events: list[Happened] = []
        self._first = 0
        """The position of the first event kept."""

    def start(self, queued: QueuedPod) -> None:
        """An attempt begins."""
        pod = queued.pod
        self._attempts[pod.uid] = _Attempt(queued, pod, pod)
        self._starts[pod.uid] = self._first + len(self._events)

    def record(self, event: ClusterEvent, old: object, new: object) -> None:
        """An event happened. Nothing is kept while no attempt is under way."""
        if self._starts:
            self._events.append(Happened(event, old, new))

    def events_since_start(self, uid: str) -> list[Happened] | None:
        """What happened since a pod's attempt began; None for a pod for which events are not kept."""
        start = self._starts.get(uid)
        return None if start is None else self._events[start - self._first :]

    def stop_recording(self, uid: str) -> None:
        """Nobody will ask for the events of this pod any more."""
        if self._starts.pop(uid, None) is None:
            return
        oldest = next(iter(self._starts.values()), self._first + len(self._events))
        unneeded = oldest - self._first
        # Dropped in large pieces, for dropping from the front of a list moves all the rest.
        if unneeded == len(self._events) or unneeded > max(len(self._events) // 2, _FEW):
            del self._events[:unneeded]
            self._first = oldest

    def end(self, uid: str) -> QueuedPod | None:
        """An attempt has ended. Returns the pod, as it is known now; None if it is unknown or gone.

        A version that was written into the pod meanwhile is left there.
        """
        self.stop_recording(uid)
        attempt = self._attempts.pop(uid, None)
        if attempt is None or attempt.latest is None:
            return None
        if attempt.queued.pod is attempt.began_with:
            attempt.queued.pod = attempt.latest
        return attempt.queued

    def update(self, pod: PodInfo) -> None:
        """A pod in flight has a new version. The attempt goes on with the old one; the new one is what comes back."""
        self._attempts[pod.uid].latest = pod

    def forget(self, uid: str) -> None:
        """A pod in flight is gone: it will not come back."""
        self._attempts[uid].latest = None

    def latest(self, uid: str) -> PodInfo | None:
        """The latest version of a pod in flight; None if it is gone."""
        return self._attempts[uid].latest

    def get(self, uid: str) -> QueuedPod | None:
        """A pod in flight."""
        attempt = self._attempts.get(uid)
        return attempt.queued if attempt else None

    def event_labels(self) -> Counter[str]:
        """How many events are kept, by label."""
        return Counter(happened.event.label for happened in self._events)

    def __contains__(self, uid: str) -> bool:
        return uid in self._attempts

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (attempt.queued for attempt in self._attempts.values())
