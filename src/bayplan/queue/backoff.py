"""Backoff: how long a pod that failed has to wait, and the pods that wait so.

Mirrors pkg/scheduler/backend/queue/backoff_queue.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bayplan.queue.pod_heap import PodHeap
from bayplan.queue.queued_pod import QueuedPod

_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """The rule: `initial` seconds after the first failure, twice as long after each other one, at most `maximum`.

    Backoffs end together with the window in which the time is over: so pods that failed at about the same time come
    back together, in the order of the queue instead of the order of their failures. A maximum of 0 switches backoff
    off.
    """

    initial: float = 1.0
    maximum: float = 10.0

    @property
    def window(self) -> float:
        """One second; shorter backoffs, which only tests have, would be lost in it."""
        return min(1.0, self.initial) or 1.0

    def duration(self, failures: int) -> float:
        """How long to wait after so many failures, windows aside."""
        if failures == 0:
            return 0.0
        return min(self.initial * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.maximum)

    def expiration(self, queued: QueuedPod) -> float:
        """When the pod's backoff ends; minus infinity where it has none. Computed once an attempt."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if failures == 0 or self.maximum == 0:
            return -math.inf
        if queued.backoff_expiration is None:
            over = queued.queued_at + self.duration(failures)
            queued.backoff_expiration = (math.floor(over / self.window) + 1) * self.window
        return queued.backoff_expiration

    def holds(self, queued: QueuedPod, now: float) -> bool:
        """Whether the pod still has to wait."""
        return now < self.expiration(queued)


class BackoffQueue:
    """The pods in backoff: those turned down, and, apart from them, those whose attempt failed by an error.

    The former may be taken early when there is nothing else to do. The latter may not: an error is often a server
    that needs the time. Within one window, the former have the order of the active queue.
    """

    def __init__(self, backoff: Backoff, sort_key: Callable[[QueuedPod], Any]) -> None:
        self._rejected = PodHeap(lambda queued: (backoff.expiration(queued), sort_key(queued)))
        self._failed = PodHeap(backoff.expiration)
        self._backoff = backoff

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not in backoff."""
        (self._rejected if queued.rejected else self._failed).push(queued)

    def update(self, queued: QueuedPod) -> None:
        """Bring a pod that is in backoff to its place after a change."""
        self._heap_of(queued).update(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out that is in backoff."""
        self._heap_of(queued).remove(queued)

    def pop_completed(self, now: float) -> Iterator[QueuedPod]:
        """Take out all pods whose backoff is over."""
        for heap in (self._rejected, self._failed):
            while (queued := heap.peek()) is not None and not self._backoff.holds(queued, now):
                heap.pop()
                yield queued

    def pop_early(self) -> QueuedPod | None:
        """Take out the pod whose backoff ends first, over or not, among those that plugins turned down."""
        return self._rejected.pop()

    @property
    def can_pop_early(self) -> bool:
        """Whether there is a pod that may be taken before its backoff is over."""
        return len(self._rejected) > 0

    def next_completion(self) -> float | None:
        """When the first backoff will be over."""
        first = [self._backoff.expiration(queued) for heap in (self._rejected, self._failed) if (queued := heap.peek())]
        return min(first, default=None)

    def _heap_of(self, queued: QueuedPod) -> PodHeap:
        return self._rejected if queued in self._rejected else self._failed

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected
        yield from self._failed
