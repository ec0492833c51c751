"""Clocks for everything outside the decision core: the machine's, a faster one, and one that tests advance."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Two times: one for measuring and waiting, which never goes back, and the time of day."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment."""

    def now(self) -> datetime:
        """The time of day, in UTC."""


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call, if it has not been made yet."""


class TimerClock(Clock, Protocol):
    """A clock that also wakes its callers. All durations are seconds of this clock.

    The controllers, kubelets and API server of an embedded cluster share one, so that timestamps and durations agree
    at any rate.
    """

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the event loop after `seconds`."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)


class RunningClock:
    """A clock that runs `rate` times as fast as the machine's."""

    def __init__(self, rate: float = 1.0) -> None:
        if not rate > 0:
            raise ValueError(f"a clock's rate must be greater than 0, not {rate}")
        self.rate = rate
        self._start = datetime.now(UTC)
        self._origin = time.monotonic()

    def monotonic(self) -> float:
        """Seconds of this clock since it was made."""
        return (time.monotonic() - self._origin) * self.rate

    def now(self) -> datetime:
        """The time of day when it was made, plus its own seconds."""
        return self._start + timedelta(seconds=self.monotonic())

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the event loop after `seconds` of this clock."""
        return asyncio.get_running_loop().call_later(max(seconds, 0) / self.rate, callback)

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock."""
        await asyncio.sleep(max(seconds, 0) / self.rate)


class ManualClock:
    """A clock that stops until `advance` moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = self._now = start
        self._due: list[tuple[datetime, int, _ManualTimer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """The seconds that the clock was advanced by."""
        return (self._now - self._start).total_seconds()

    def now(self) -> datetime:
        """The time that the clock stands at."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once the clock was advanced by `seconds`."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._due, (self._now + timedelta(seconds=max(seconds, 0)), next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by `seconds`."""
        over = asyncio.Event()
        timer = self.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Calls that fall due are made in order, each at its own time."""
        until = self._now + timedelta(seconds=seconds)
        while self._due and self._due[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._due)
            timer.fire()
        self._now = until


class _ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
