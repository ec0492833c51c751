"""Attempts that gave way to other pods, and when they are repeated.

A plugin asks `handle.give_way` between the steps of a long search. After LONGEST seconds, that raises `GiveWay`. The
pods of the unit stay in flight, other pods have their turn, and the unit is attempted anew, from results that still
hold. Pods that come first in the queue's order go ahead meanwhile; all others wait for LONGEST_AHEAD seconds, for one
slow attempt and for several in a row, so that the order is that of the queue. Then they have their turn, too. Those of
equal priority take what they can; one of lower priority takes nothing that the slow one could use
(`bayplan.core.scheduling.contention`): its plan is dropped, and it waits. Attempts that are long for sure share the
time of one, and don't begin while other pods have their turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.giving_way import GiveWay
from bayplan.core.queue import QueuedPod, SchedulingQueue

LONGEST = 0.05
"""Seconds that attempts whose plugins can give way may work, until other pods have their turn."""
LONGEST_AHEAD = 0.4
"""Seconds that pods wait for attempts in a row whose turn comes before theirs."""
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
        self.now = now
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
        self.in_a_row = 0.0
        """The seconds that attempts which are long, or gave way, have worked since the turn of other pods."""

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
        now = self.now()
        if self._began is None:
            if long and self.is_turn_of_others(now):
                raise GiveWay
            self._began, self._long = now, long
            if now >= self._ended + REST:
                self._worked = self.in_a_row = 0.0
        elif self._spent(now - self._began) > LONGEST:
            raise GiveWay

    def go_on(self) -> None:
        """Let attempts begin at once: it isn't the turn of other pods yet."""
        self.next = -math.inf

    def is_turn_of_others(self, now: float) -> bool:
        """Whether attempts that are long must not begin."""
        return now < self.next or (now < self.next + LONGEST_REST - REST and self.others())

    def _end(self) -> None:
        """Count what an attempt has worked, if it asked."""
        if self._began is None:
            return
        now = self.now()
        spent = self._spent(now - self._began)
        if self._long or spent > LONGEST:
            self.in_a_row += now - self._began
            self._worked, self._ended = spent, now
        if spent > LONGEST:
            self._worked, self.next = 0.0, now + REST

    def _spent(self, seconds: float) -> float:
        """Return what is used of the slice after some seconds of the current attempt."""
        return self._worked + seconds if self._long else seconds


@dataclass(slots=True)
class _Unit:
    """The pods of an attempt that gave way. `first` is the pod that it was attempted for.

    `waits`: whether it isn't slow itself, but would take what a slow one could use. `ahead`: the seconds that later
    pods have waited for it.
    """

    first: QueuedPod
    pods: tuple[QueuedPod, ...]
    waits: bool
    ahead: float = 0.0


class Unfinished:
    """The units whose attempts gave way. Their pods stay in flight, and each unit is attempted again.

    Pods whose turn comes first in the order of the queue are attempted in between. All others wait for LONGEST_AHEAD
    seconds, for one unit and for several in a row. Then they have their turn as well, but don't take what pods of
    higher priority could use that are here.
    """

    def __init__(self, time_slice: TimeSlice) -> None:
        self._units: dict[str, _Unit] = {}
        """By the uid of the first pod, in the order in which they gave way."""
        self._slice = time_slice
        self._resumed: tuple[_Unit, float] | None = None
        """The unit that is ahead of later pods now, and since when."""

    @property
    def due(self) -> float | None:
        """When the next one has its turn, if no other pods wait; None if there is none."""
        return self._slice.next if self._units else None

    def add(self, first: QueuedPod, unit: Iterable[QueuedPod], *, waits: bool = False) -> None:
        """Add a unit. `first` is the pod that it was attempted for, `unit` are all of its pods.

        `waits`: whether its plan takes what a pod could use that is `above`.
        """
        pods = (first, *(each for each in unit if each is not first))
        ahead = 0.0
        if self._resumed is not None and self._resumed[0].first is first:
            resumed, since = self._resumed
            ahead = resumed.ahead + self._slice.now() - since
        self._units[first.uid] = _Unit(first, pods, waits, ahead)

    def above(self, pod: PodInfo) -> list[PodInfo]:
        """The pods of higher priority than a pod, in attempts that take long."""
        if not self._units:
            return []
        pods = (each.pod for unit in self._units.values() if not unit.waits for each in unit.pods)
        return [each for each in pods if each.priority > pod.priority]

    def take(self, queue: SchedulingQueue, now: float) -> QueuedPod | None:
        """Return the pod to attempt again, in flight; None if it is the turn of other pods, or if its pod is gone."""
        self._resumed = None
        able = [unit for unit in self._units.values() if not (unit.waits and self.above(unit.first.pod))]
        if not able:
            return None
        first = min(able, key=lambda unit: queue.sort_key(unit.first))
        if queue.comes_before(first.first):
            return None
        if first.waits or (first.ahead < LONGEST_AHEAD and self._slice.in_a_row < LONGEST_AHEAD):
            self._slice.go_on()
            self._resumed = first, self._slice.now()
            return self.resume(first.first.uid, queue, now)
        if self._slice.is_turn_of_others(now):
            return None
        self._slice.in_a_row = 0.0
        return self.resume(able[0].first.uid, queue, now)

    def gone(self, exists: Callable[[PodInfo], bool]) -> str:
        """Return the uid of the first pod that doesn't exist any more; "" if there is none."""
        return next((uid for uid, unit in self._units.items() if not exists(unit.first.pod)), "")

    def resume(self, uid: str, queue: SchedulingQueue, now: float) -> QueuedPod | None:
        """Return a pod to attempt again, in flight; None if it is unknown or gone."""
        unit = self._units.pop(uid, None)
        if unit is None:
            return None
        for each in unit.pods:
            queue.release(each, now)
        return queue.take(uid, now, joins=False)
