"""PodHeap: a priority queue of pods that supports removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from bayplan.queue.queued_pod import QueuedPod

_Entry = tuple[Any, int, QueuedPod]


class PodHeap:
    """A heap of pods, smallest key first. Pods with equal keys are in the order in which they were pushed.

    `key` maps a QueuedPod to a comparable value. The entry of a removed pod is marked as stale. Stale entries are
    dropped when they reach the top, or all at once when they outnumber the others. All operations take O(log n)
    amortized time.
    """

    def __init__(self, key: Callable[[QueuedPod], Any]) -> None:
        self._key = key
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._sequence = count()

    def push(self, queued: QueuedPod) -> None:
        """Add a pod. It must not be in the heap."""
        entry = (self._key(queued), next(self._sequence), queued)
        self._entries[queued.pod.uid] = entry
        heappush(self._heap, entry)

    def update(self, queued: QueuedPod) -> None:
        """Restore the order after a change of a pod in the heap. With an equal key, it keeps its position."""
        if self._entries[queued.pod.uid][0] != self._key(queued):
            self.remove(queued)
            self.push(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Remove a pod that is in the heap."""
        del self._entries[queued.pod.uid]
        if len(self._heap) > 2 * len(self._entries) + 32:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def peek(self) -> QueuedPod | None:
        """Return the first pod without removing it; None if the heap is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[2].pod.uid) is entry:
                return entry[2]
            heappop(heap)
        return None

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod; None if the heap is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heappop(heap)
            queued = entry[2]
            uid = queued.pod.uid
            if entries.get(uid) is entry:
                del entries[uid]
                return queued
        return None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, queued: QueuedPod) -> bool:
        return queued.pod.uid in self._entries

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over all pods, in no particular order."""
        return (entry[2] for entry in self._entries.values())
