"""PodHeap: a priority queue of pods and groups, with removal.

The parts of the queue in which pods wait for a turn are made of these. Entries are found by the uid of their pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar

from bayplan.core.queue.queued_pod import QueuedGroup, QueuedPod

E = TypeVar("E", bound=QueuedPod | QueuedGroup)


class PodHeap(Generic[E]):
    """A heap of pods and groups, smallest key first. Those with equal keys are in the order in which they were pushed.

    `key` maps an entry to a comparable value. A removed entry is marked as stale. Stale ones are dropped when they
    reach the top, or all at once when they outnumber the others. All operations take O(log n) amortized time. A group
    is known by the pod that stands for it, which must not change while the group is in the heap.
    """

    def __init__(self, key: Callable[[E], Any]) -> None:
        self._key = key
        self._heap: list[tuple[Any, int, E, str]] = []
        self._entries: dict[str, tuple[Any, int, E, str]] = {}
        self._sequence = count()

    def push(self, queued: E) -> None:
        """Add an entry. It must not be in the heap."""
        uid = queued.pod.uid
        entry = (self._key(queued), next(self._sequence), queued, uid)
        self._entries[uid] = entry
        heappush(self._heap, entry)

    def update(self, queued: E) -> None:
        """Restore the order after a change of an entry in the heap. With an equal key, it keeps its position."""
        if self._entries[queued.pod.uid][0] != self._key(queued):
            self.remove(queued)
            self.push(queued)

    def remove(self, queued: E) -> None:
        """Remove an entry that is in the heap."""
        del self._entries[queued.pod.uid]
        if len(self._heap) > 2 * len(self._entries) + 32:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def peek(self) -> E | None:
        """Return the first entry without removing it; None if the heap is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[3]) is entry:
                return entry[2]
            heappop(heap)
        return None

    def pop(self) -> E | None:
        """Remove and return the first entry; None if the heap is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heappop(heap)
            uid = entry[3]
            if entries.get(uid) is entry:
                del entries[uid]
                return entry[2]
        return None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, queued: E) -> bool:
        return queued.pod.uid in self._entries

    def __iter__(self) -> Iterator[E]:
        """Iterate over all entries, in no particular order."""
        return (entry[2] for entry in self._entries.values())
