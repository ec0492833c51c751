"""Backoff: how long a pod waits after a failed attempt, and the queue of the pods that do.

Mirrors pkg/scheduler/backend/queue/backoff_queue.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from bayplan.core.queue.pod_heap import PodHeap
from bayplan.core.queue.queued_pod import Entry, QueuedGroup

_MOST_DOUBLINGS = 60


@dataclass(frozen=True)
class AttemptBackoff:
    """Exponential backoff: `initial` seconds after the first failure, doubled after each further one, up to `maximum`.

    Expiration times are rounded up to the end of a window. Pods that failed at about the same time become active
    together, in the order of the queue instead of the order of their failures. A maximum of 0 disables backoff.
    The maximum of a group is that of a pod, multiplied by the square root of the number of its pods.
    """

    initial: float = 1.0
    maximum: float = 10.0

    @property
    def window(self) -> float:
        """The length of a window in seconds: 1, or `initial` if that is shorter."""
        return min(1.0, self.initial) or 1.0

    def duration(self, failures: int, size: int = 1) -> float:
        """Return the backoff of so many pods after a number of failures, in seconds, before rounding."""
        if failures == 0:
            return 0.0
        maximum = self.maximum if size == 1 else self.maximum * math.sqrt(size)
        return min(self.initial * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), maximum)

    def expiration(self, queued: Entry) -> float:
        """Return when the backoff expires; minus infinity if there is none. Computed once per attempt."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if failures == 0 or self.maximum == 0:
            return -math.inf
        if queued.backoff_expiration is None:
            size = queued.size if isinstance(queued, QueuedGroup) else 1
            queued.backoff_expiration = self.expires(failures, queued.queued_at, size)
        return queued.backoff_expiration

    def expires(self, failures: int, failed_at: float, size: int = 1) -> float:
        """Return when the backoff of so many pods expires after their last failure."""
        if self.maximum == 0:
            return -math.inf
        over = failed_at + self.duration(failures, size)
        return (math.floor(over / self.window) + 1) * self.window

    @cached_property
    def most_failures(self) -> int:
        """The number of failures from which on the backoff of a pod doesn't grow any more."""
        longest = self.duration(_MOST_DOUBLINGS + 1)
        return next(failures for failures in count(1) if self.duration(failures) == longest)

    def holds(self, queued: Entry, now: float) -> bool:
        """Return whether the backoff has not expired yet."""
        return now < self.expiration(queued)


class BackoffQueue:
    """The pods and groups in backoff, in two heaps: pods that filters rejected, and those whose attempt failed later.

    Rejected pods may be popped early if no pod is active. Failed ones may not: an error is often caused by an
    overloaded server, and a pod that was rejected on its node would be placed and rejected again without end. Within
    one window, rejected pods have the order of the active queue.
    """

    def __init__(self, backoff: AttemptBackoff, sort_key: Callable[[Entry], Any]) -> None:
        self._rejected: PodHeap[Entry] = PodHeap(lambda queued: (backoff.expiration(queued), sort_key(queued)))
        self._failed: PodHeap[Entry] = PodHeap(backoff.expiration)
        self._backoff = backoff

    def add(self, queued: Entry) -> None:
        """Add a pod or a group. It must not be in the queue yet."""
        (self._rejected if queued.rejected and not queued.undone else self._failed).push(queued)

    def update(self, queued: Entry) -> None:
        """Restore the order after a change of what is in the queue."""
        self._heap_of(queued).update(queued)

    def remove(self, queued: Entry) -> None:
        """Remove what is in the queue."""
        self._heap_of(queued).remove(queued)

    def pop_completed(self, now: float) -> Iterator[Entry]:
        """Remove and yield those whose backoff has expired."""
        for heap in (self._rejected, self._failed):
            while (queued := heap.peek()) is not None and not self._backoff.holds(queued, now):
                heap.pop()
                yield queued

    def pop_early(self) -> Entry | None:
        """Remove and return the rejected pod whose backoff expires first, expired or not; None if there is none."""
        return self._rejected.pop()

    @property
    def can_pop_early(self) -> bool:
        """Whether `pop_early` would return a pod."""
        return len(self._rejected) > 0

    def next_completion(self) -> float | None:
        """Return when the next backoff expires; None if the queue is empty."""
        first = [self._backoff.expiration(queued) for heap in (self._rejected, self._failed) if (queued := heap.peek())]
        return min(first, default=None)

    def _heap_of(self, queued: Entry) -> PodHeap[Entry]:
        return self._rejected if queued in self._rejected else self._failed

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[Entry]:
        yield from self._rejected
        yield from self._failed
