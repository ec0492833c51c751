"""Attempts that gave way to other pods, and when they are repeated."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bayplan.framework.giving_way import GiveWay
from bayplan.queue import QueuedPod, SchedulingQueue

LONGEST = 0.05
"""Seconds that attempts whose plugins can give way may work, until other pods have their turn."""
REST = 0.025
"""Seconds that other pods and tasks have then."""
LONGEST_REST = 0.2
"""Seconds that other pods have then, if so many wait for their turn."""


class TimeSlice:
    """How long attempts whose plugins can give way have worked since other pods had their turn.

    Attempts that are long for sure share the slice: none of them begins while other pods have their turn. Any other
    attempt has a slice of its own. `now` returns seconds. Outside of attempts, nothing is limited.

    Attributes:
        others: whether other pods wait for their turn.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.others: Callable[[], bool] = lambda: False
        self._limited = False
        self._began: float | None = None
        """When the current attempt first asked."""
        self._long = False
        """Whether the current attempt is long for sure."""
        self._worked, self._ended = 0.0, -math.inf
        """The seconds that long attempts have worked since the turn of other pods, and when the last one ended."""
        self.next = -math.inf
        """When the turn of other pods ends, or ended, unless more of them wait."""

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit the work of an attempt."""
        self._limited, self._began = True, None
        try:
            yield
        finally:
            self._limited = False
            self._end()

    def check(self, *, long: bool = False) -> None:
        """Raise GiveWay if attempts have worked too long, and before a long one while other pods have their turn."""
        if not self._limited:
            return
        now = self._now()
        if self._began is None:
            if long and self.is_turn_of_others(now):
                raise GiveWay
            self._began, self._long = now, long
            if now >= self._ended + REST:
                self._worked = 0.0
        elif self._spent(now - self._began) > LONGEST:
            raise GiveWay

    def is_turn_of_others(self, now: float) -> bool:
        """Whether attempts that are long must not begin."""
        return now < self.next or (now < self.next + LONGEST_REST - REST and self.others())

    def _end(self) -> None:
        """Count what an attempt has worked, if it asked."""
        if self._began is None:
            return
        now = self._now()
        spent = self._spent(now - self._began)
        if self._long:
            self._worked, self._ended = spent, now
        if spent > LONGEST:
            self._worked, self.next = 0.0, now + REST

    def _spent(self, seconds: float) -> float:
        """Return what is used of the slice after some seconds of the current attempt."""
        return self._worked + seconds if self._long else seconds


class Unfinished:
    """The units whose attempts gave way. Their pods stay in flight; each unit has its turn again after the others."""

    def __init__(self, time_slice: TimeSlice) -> None:
        self._units: deque[tuple[QueuedPod, ...]] = deque()
        self._slice = time_slice

    @property
    def due(self) -> float | None:
        """When the next one has its turn, if no other pods wait; None if there is none."""
        return self._slice.next if self._units else None

    def add(self, first: QueuedPod, unit: Iterable[QueuedPod]) -> None:
        """Add a unit. `first` is the pod that it was attempted for, `unit` are all of its pods."""
        self._units.append((first, *(each for each in unit if each is not first)))

    def take(self, queue: SchedulingQueue, now: float) -> QueuedPod | None:
        """Return the pod to attempt again, in flight; None if no unit is due, or if its pod is gone."""
        if not self._units or self._slice.is_turn_of_others(now):
            return None
        unit = self._units.popleft()
        for each in unit:
            queue.release(each, now)
        return queue.take(unit[0].uid, now, joins=False)
