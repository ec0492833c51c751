"""AttemptOrder: which of the equal pods that wait is attempted first, once an event helps them.

An attempt of one of them counts for all (`rejection_groups.py`), as if each had been attempted at that time, in turn::

    order.begin(now)                     # an event helps
    first = order.pop(now)               # the pod that upstream would attempt first
    order.rejected(first)                # and so would all others be: each has failed once more

As upstream, pods whose backoff is over come first, in the order of their last attempts; the others in the order in
which their backoffs expire. So a pod that came later, and has failed less often, overtakes others while pods end every
few seconds. What always holds: the order is the one in which single pods would be attempted. Among pods of several
orders it is nearly so: those that wait for different backoffs may change places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bayplan.core.queue.backoff import AttemptBackoff
from bayplan.core.queue.pod_heap import PodHeap
from bayplan.core.queue.queued_pod import QueuedPod


@dataclass(slots=True, eq=False)
class _Batch:
    """Pods with the same backoff, in the order of their ranks.

    `failures`: how often each has failed, as far as the backoff depends on it. `joined`: the round in which they have
    joined, or in which an attempt counted for them. `helped_at`: when the event came that began this round.
    """

    pods: PodHeap[QueuedPod]
    failures: int
    expiration: float
    joined: int
    helped_at: float = -math.inf


_Moved = tuple[float, Any, QueuedPod, _Batch]
"""Until when the backoff of a pod lasts, its key, the pod, and its batch."""


class AttemptOrder:
    """Equal pods that wait, in the order in which they would be attempted.

    All operations take O(log n) amortized time: a rejection moves only pods whose backoff still grows, and these a few
    times. The number of failures, the backoff and the time of the last attempt of a pod are written when it leaves.

    `by_rank`: the key of a pod, by its `rank`, among those whose backoff is over. `numbers`: increasing, shared by all
    pods of the queue. `keeps`: whether pods keep the ranks of their first rejections, whatever their backoffs.
    """

    def __init__(
        self,
        backoff: AttemptBackoff,
        by_rank: Callable[[QueuedPod], Any],
        numbers: Iterator[int],
        *,
        keeps: bool = False,
    ) -> None:
        self._backoff = backoff
        self._by_rank = by_rank
        self._numbers = numbers
        self._keeps = keeps
        self._batches: dict[tuple[int, float, int], _Batch] = {}
        self._batch_of: dict[str, _Batch] = {}
        self._round = 0
        self._began = self._first_until = -math.inf
        self._rejections = 0
        self._rejections_before: dict[str, int] = {}
        """By uid: how many of the rejections don't count for a pod, because it came later."""

    def __len__(self) -> int:
        return len(self._batch_of)

    def any(self) -> QueuedPod:
        """Return one of the pods. There must be one."""
        return next(iter(next(iter(self._batch_of.values())).pods))

    def add(self, queued: QueuedPod) -> None:
        """Add a pod whose own attempt has just been rejected."""
        if queued.rank is None or not self._keeps:
            queued.rank = queued.queued_at, next(self._numbers)
        self._add(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Remove a pod that is here, and write how often it has failed and when its backoff expires."""
        batch = self._batch_of.pop(queued.uid)
        batch.pods.remove(queued)
        self._write(queued, batch)

    def begin(self, now: float) -> None:
        """Begin a round: an event helps the pods that are here now."""
        self._round += 1
        self._began = now

    def pop(self, now: float) -> QueuedPod:
        """Remove and return the first pod at a time. It counts as rejected in the round before."""
        self._drop_empty()
        batch = min(self._batches.values(), key=lambda each: (self._holds_until(each, now), self._first_key(each)))
        self._first_until = self._holds_until(batch, now)
        queued = batch.pods.pop()
        assert queued is not None
        del self._batch_of[queued.uid]
        if self._write(queued, batch):
            queued.queued_at = batch.helped_at
        return queued

    def rejected(self, first: QueuedPod) -> None:
        """End a round: add its first pod, which was rejected as before. This counts for all that the event helped."""
        if not self._keeps:
            self._drop_empty()
            self._rejections += 1
            batches = [batch for batch in self._batches.values() if batch.joined < self._round]
            for batch in self._batches.values():
                if batch.joined == self._round:
                    self._rejections_before.update((queued.uid, self._rejections) for queued in batch.pods)
            self._reorder(first, batches)
            for batch in batches:
                self._fail(batch, first.queued_at)
            self._merge()
            self._backoff.expiration(first)
            first.queued_at = self._began
        self._add(first)

    def _add(self, queued: QueuedPod) -> None:
        key = 0, -math.inf, 0
        if not self._keeps:
            failures = min(queued.unschedulable_count, self._backoff.most_failures)
            key = failures, self._backoff.expiration(queued), self._round
        batch = self._batches.get(key)
        if batch is None:
            failures, expiration, joined = key
            batch = self._batches[key] = _Batch(PodHeap(self._by_rank), failures, expiration, joined)
        batch.pods.push(queued)
        self._batch_of[queued.uid] = batch
        self._rejections_before[queued.uid] = self._rejections

    def _write(self, queued: QueuedPod, batch: _Batch) -> bool:
        """Write what the rejections of others mean for a pod that leaves. Returns whether there were some."""
        rejections = self._rejections - self._rejections_before.pop(queued.uid)
        if rejections:
            queued.unschedulable_count += rejections
            queued.backoff_expiration = batch.expiration
        return rejections > 0

    def _reorder(self, first: QueuedPod, batches: list[_Batch]) -> None:
        """Give pods the ranks that they had in a round, relative to those of the largest batch, which are kept."""
        if not batches:
            if self._first_until > -math.inf:
                first.rank = self._began, next(self._numbers)
            return
        pivot = self._holds_until(max(batches, key=lambda batch: len(batch.pods)), self._began)
        earlier: list[_Moved] = []
        later: list[_Moved] = []
        for batch in batches:
            until = self._holds_until(batch, self._began)
            if until != pivot:
                entries = [(until, self._by_rank(queued), queued, batch) for queued in batch.pods]
                (earlier if until < pivot else later).extend(entries)
        if self._first_until < pivot:
            first.rank = self._before_all()
        for entry in sorted(earlier, key=_place):
            self._move(entry[2], entry[3], self._before_all())
        for entry in sorted(later, key=_place):
            self._move(entry[2], entry[3], (self._began, next(self._numbers)))

    def _before_all(self) -> tuple[float, int]:
        """A rank after those that the same event has brought to the front, and before all others."""
        return -1.0 - self._began, next(self._numbers)

    def _move(self, queued: QueuedPod, batch: _Batch, rank: tuple[float, int]) -> None:
        batch.pods.remove(queued)
        queued.rank = rank
        batch.pods.push(queued)

    def _fail(self, batch: _Batch, now: float) -> None:
        batch.failures = min(batch.failures + 1, self._backoff.most_failures)
        batch.expiration = self._backoff.expires(batch.failures, now)
        batch.joined, batch.helped_at = self._round, self._began

    def _merge(self) -> None:
        """Put batches with the same backoff together: the smaller ones into the largest."""
        batches = sorted(self._batches.values(), key=lambda batch: -len(batch.pods))
        self._batches = {}
        for batch in batches:
            key = batch.failures, batch.expiration, batch.joined
            larger = self._batches.setdefault(key, batch)
            if larger is not batch:
                larger.helped_at = max(larger.helped_at, batch.helped_at)
                for queued in batch.pods:
                    larger.pods.push(queued)
                    self._batch_of[queued.uid] = larger

    def _drop_empty(self) -> None:
        if not all(len(batch.pods) for batch in self._batches.values()):
            self._batches = {key: batch for key, batch in self._batches.items() if len(batch.pods)}

    def _holds_until(self, batch: _Batch, now: float) -> float:
        """Return when the backoff of a batch expires; minus infinity if it is over."""
        return batch.expiration if now < batch.expiration else -math.inf

    def _first_key(self, batch: _Batch) -> Any:
        first = batch.pods.peek()
        assert first is not None
        return self._by_rank(first)


def _place(entry: _Moved) -> tuple[float, Any]:
    return entry[:2]
