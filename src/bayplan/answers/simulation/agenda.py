"""Agenda: the calls that a simulation makes later, in the order of their times.

Times are seconds of the simulation. `Timeline` moves to the time of the first call, and makes it; nothing here reads a
clock. Recurring calls that would do nothing are left out: an autoscaler has 60,000 in a week. Every other call is made
at the same time and in the same order as if they had been made.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Any

IdleUntil = Callable[[], float]
"""The first time at which a recurring call may do something, if nothing else happens until then: infinity is never."""


def never_idle() -> float:
    """The `IdleUntil` of a call that may always do something."""
    return -math.inf


@dataclass(slots=True)
class _Recurring:
    """A call that is made again and again: next at `when`. `number`: its place among the calls of that time."""

    when: float
    number: int
    seconds: float
    do: Callable[[], None]
    idle_until: IdleUntil

    @property
    def due(self) -> float:
        """The first of its times at which it may do something."""
        idle_until = self.idle_until()
        if idle_until == math.inf:
            return math.inf
        when = self.when
        while when < idle_until:
            when += self.seconds
        return when


_ORDER = attrgetter("when", "number")


class Agenda:
    """Calls by time. Those of one time are made in the order in which they were added."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._recurring: list[_Recurring] = []
        self._numbers = count()

    def add(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Add a call."""
        heapq.heappush(self._calls, (when, next(self._numbers), do, arguments))

    def add_recurring(self, when: float, seconds: float, do: Callable[[], None], idle_until: IdleUntil) -> None:
        """Add a call that is made again so many seconds after it was made."""
        self._recurring.append(_Recurring(when, next(self._numbers), seconds, do, idle_until))

    @property
    def next_time(self) -> float:
        """The time of the first call; infinity if there is none."""
        once = self._calls[0][0] if self._calls else math.inf
        return min([once, *[each.when for each in self._recurring]])

    def call_first(self, now: float) -> None:
        """Make the first call."""
        again = self._first_recurring
        if again is None or (self._calls and self._calls[0][:2] < (again.when, again.number)):
            _, _, do, arguments = heapq.heappop(self._calls)
            do(*arguments)
        else:
            again.do()
            again.when, again.number = now + again.seconds, next(self._numbers)

    def leave_out_idle(self, until: float) -> None:
        """Leave out the recurring calls that would do nothing before `until`, when something else happens."""
        until = min([until, self._calls[0][0] if self._calls else math.inf, *[each.due for each in self._recurring]])
        if until == math.inf:
            return
        while (each := self._first_recurring) is not None and each.when < until:
            each.when, each.number = each.when + each.seconds, next(self._numbers)

    @property
    def _first_recurring(self) -> _Recurring | None:
        return min(self._recurring, key=_ORDER, default=None)
