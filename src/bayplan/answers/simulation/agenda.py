"""Agenda: the calls that a simulation makes later, in the order of their times.

Times are seconds of the simulation. `Timeline` lets time pass by making the first call; nothing here reads a clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count
from typing import Any


class Agenda:
    """Calls by time. Those of one time are made in the order in which they were added."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def add(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Add a call."""
        heapq.heappush(self._calls, (when, next(self._numbers), do, arguments))

    @property
    def next_time(self) -> float:
        """The time of the first call; infinity if there is none."""
        return self._calls[0][0] if self._calls else math.inf

    def call_first(self) -> None:
        """Make the first call."""
        _, _, do, arguments = heapq.heappop(self._calls)
        do(*arguments)
