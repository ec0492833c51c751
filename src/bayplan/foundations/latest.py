"""A mapping that forgets what was used least recently.

Most small caches are one: their size is bounded, whatever tenants do.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruDict(OrderedDict[K, V]):
    """A mapping of at most `capacity` entries, in the order of their last use: a new one replaces the first.

    Storing an entry and `use` count as uses; the other ways to read don't.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def use(self, key: K) -> V | None:
        """Return an entry, which is now the one used last; None if there is none."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._capacity:
            self.popitem(last=False)
