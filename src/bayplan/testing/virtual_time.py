"""An event loop with virtual time: time passes only when no task can run, so that hours take no real time.

with asyncio.Runner(loop_factory=VirtualTime) as runner:
    runner.run(story())
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day at the start of a loop."""


class VirtualTime(asyncio.SelectorEventLoop):
    """Where asyncio would sleep, it moves its clock to the next timer. It is also a `Clock` for a scheduler.

    Use it for code that waits for timers and other tasks, but not for sockets or threads. Raises AssertionError if all
    tasks wait and there is no timer.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.seconds

    def monotonic(self) -> float:
        """The same; part of `Clock`."""
        return self.seconds

    def now(self) -> datetime:
        """The time of day; part of `Clock`."""
        return BEGINNING + timedelta(seconds=self.seconds)


class _Impatient(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTime) -> None:
        super().__init__()
        self._virtual = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("all tasks wait for something that will never happen")
        ready = super().select(0)
        if not ready:
            self._virtual.seconds += timeout
        return ready
