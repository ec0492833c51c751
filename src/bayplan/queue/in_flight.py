"""Pods in flight, and the events that happen meanwhile.

An attempt sees the cluster as it was when it began. What happens later may make the pod fit, so it is remembered and
looked at when the pod comes back. Mirrors inFlightPods and inFlightEvents of
pkg/scheduler/backend/queue/active_queue.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
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


class InFlight:
    """The pods being decided or bound, and one list of events for all of them.

    Every event is kept once, at a position that only grows; a pod remembers the position at which its attempt began.
    Attempts begin in the order of the positions, so the oldest pod that is still out tells which events nobody needs
    any more.
    """

    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._starts: OrderedDict[str, int] = OrderedDict()
        self._latest: dict[str, PodInfo | None] = {}
        self._events: list[Happened] = []
        self._first = 0
        """The position of the first event kept."""

    def start(self, queued: QueuedPod) -> None:
        """An attempt begins."""
        uid = queued.pod.uid
        self._pods[uid] = queued
        self._starts[uid] = self._first + len(self._events)

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
        """An attempt has ended. Returns the pod as it is known now; None if it is unknown or gone."""
        self.stop_recording(uid)
        queued = self._pods.pop(uid, None)
        if queued is None:
            return None
        latest = self._latest.pop(uid, queued.pod)
        if latest is None:
            return None
        queued.pod = latest
        return queued

    def update(self, pod: PodInfo) -> None:
        """A pod has a new version. The attempt goes on with the old one; the new one is what comes back."""
        self._latest[pod.uid] = pod

    def forget(self, uid: str) -> None:
        """A pod is gone: it will not come back."""
        self._latest[uid] = None

    def latest(self, uid: str) -> PodInfo | None:
        """The latest version of a pod in flight; None if it is gone, or not in flight."""
        if uid in self._latest:
            return self._latest[uid]
        queued = self._pods.get(uid)
        return queued.pod if queued else None

    def get(self, uid: str) -> QueuedPod | None:
        """A pod in flight, as it was when its attempt began."""
        return self._pods.get(uid)

    @property
    def event_count(self) -> int:
        """How many events are kept."""
        return len(self._events)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())
