"""PodHeap: queued pods in the order of a key, with removal by uid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from bayplan.queue.queued_pod import QueuedPod

_Entry = tuple[Any, int, QueuedPod]


class PodHeap:
    """A heap of pods, smallest key first; among equal keys the pod that came first.

    `key` maps a QueuedPod to something comparable. Removed pods leave a dead entry behind, which is dropped when it
    comes to the top or when the dead outnumber the living: every operation is O(log n) over time.
    """

    def __init__(self, key: Callable[[QueuedPod], Any]) -> None:
        self._key = key
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._sequence = count()

    def push(self, queued: QueuedPod) -> None:
        """Add a pod that is not in the heap."""
        entry = (self._key(queued), next(self._sequence), queued)
        self._entries[queued.pod.uid] = entry
        heappush(self._heap, entry)

    def update(self, queued: QueuedPod) -> None:
        """Bring a pod of the heap to its place after a change; it keeps it where its key is the same."""
        if self._entries[queued.pod.uid][0] != self._key(queued):
            self.remove(queued)
            self.push(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod of the heap out of it."""
        del self._entries[queued.pod.uid]
        if len(self._heap) > 2 * len(self._entries) + 32:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def peek(self) -> QueuedPod | None:
        """The first pod, left where it is."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[2].pod.uid) is entry:
                return entry[2]
            heappop(heap)
        return None

    def pop(self) -> QueuedPod | None:
        """Take the first pod out."""
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
        """All pods, in no particular order."""
        return (entry[2] for entry in self._entries.values())
