"""Attempts that gave way to other pods, and when they are repeated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bayplan.framework.giving_way import GiveWay
from bayplan.queue import QueuedPod, SchedulingQueue

LONGEST = 0.05
"""Seconds that an attempt may work before it gives way, if its plugins can."""
REST = 0.025
"""Seconds that other pods and tasks have then."""


class TimeSlice:
    """How long plugins that can give way have worked in the current attempt. It is not limited outside of attempts.

    `now` returns seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._limited = False
        self._end: float | None = None

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit the work of an attempt."""
        self._limited, self._end = True, None
        try:
            yield
        finally:
            self._limited = False

    def check(self) -> None:
        """Raise GiveWay if there was a first check in this attempt too long ago."""
        if self._limited:
            now = self._now()
            if self._end is None:
                self._end = now + LONGEST
            elif now > self._end:
                raise GiveWay


class Unfinished:
    """The units whose attempts gave way. Their pods stay in flight; each unit has its turn again after the others.

    `due`: when the next one has its turn; None if there is none.
    """

    def __init__(self) -> None:
        self._units: deque[tuple[QueuedPod, ...]] = deque()
        self.due: float | None = None

    def add(self, first: QueuedPod, unit: Iterable[QueuedPod], now: float) -> None:
        """Add a unit. `first` is the pod that it was attempted for, `unit` are all of its pods."""
        self._units.append((first, *(each for each in unit if each is not first)))
        self.due = now + REST

    def take(self, queue: SchedulingQueue, now: float) -> QueuedPod | None:
        """Return the pod to attempt again, in flight; None if no unit is due, or if its pod is gone."""
        if self.due is None or now < self.due:
            return None
        unit = self._units.popleft()
        if not self._units:
            self.due = None
        for each in unit:
            queue.release(each, now)
        return queue.take(unit[0].uid, now, joins=False)
