"""Numbers for things that come and go: rows of the node table, and distinct sets of labels.

The lowest free number is taken first, so that arrays stay as short as what they hold.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Slots:
    """Assigns the lowest free number, from 0. All numbers in use are below `size`."""

    __slots__ = ("_free", "_heap", "size")

    def __init__(self) -> None:
        self.size = 0
        self._free: set[int] = set()
        self._heap: list[int] = []
        """The free numbers, and some that were trimmed since. It is empty whenever `size` increases."""

    def claim(self) -> int:
        """Return the lowest free number, which is in use from now on."""
        while self._heap:
            number = heappop(self._heap)
            if number in self._free:
                self._free.remove(number)
                return number
        self.size += 1
        return self.size - 1

    def release(self, number: int) -> None:
        """Free a number."""
        self._free.add(number)
        heappush(self._heap, number)

    def trim(self) -> int:
        """Lower `size` as far as the highest numbers are free. Returns the new size."""
        while self.size - 1 in self._free:
            self.size -= 1
            self._free.remove(self.size)
        if not self._free:
            self._heap.clear()
        return self.size
