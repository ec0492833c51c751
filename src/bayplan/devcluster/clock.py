"""The time that an embedded cluster lives in: as the wall's, faster, or moved by hand in tests.

Controllers, kubelets and the API server of one cluster share one clock, so that "every five minutes", a job's run time
and a timestamp agree with each other at any rate.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Call it off; nothing happens if it has been made."""
        ...


class Clock(Protocol):
    """Virtual time; all durations are virtual seconds."""

    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Have `callback` called on the event loop when `seconds` have passed."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when `seconds` have passed."""
        ...


class RunningClock:
    """Time that passes `rate` times as fast as the wall's, from `start` (now, if not given) on."""

    def __init__(self, rate: float = 1.0, start: datetime | None = None) -> None:
        if not rate > 0:
            raise ValueError(f"a clock's rate must be greater than 0, not {rate}")
        self.rate = rate
        self._start = start if start is not None else datetime.now(UTC)
        self._origin = time.monotonic()

    def now(self) -> datetime:
        """See Clock."""
        return self._start + timedelta(seconds=(time.monotonic() - self._origin) * self.rate)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_later(max(seconds, 0) / self.rate, callback)

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        await asyncio.sleep(max(seconds, 0) / self.rate)


class ManualClock:
    """Time that stands still until `advance` moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._due: list[tuple[datetime, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """See Clock."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """See Clock."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._due, (self._now + timedelta(seconds=max(seconds, 0)), next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        over = asyncio.Event()
        timer = self.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass: every call that falls due is made at its own time, in order."""
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


def whole_seconds(moment: datetime) -> datetime:
    """A moment as `metav1.Time` keeps it. Times that are compared with an object's must go through this."""
    return moment.replace(microsecond=0)
