"""An event loop on which time passes only when nothing else is left to do: hours take no time, and nobody sleeps.

with asyncio.Runner(loop_factory=VirtualTime) as runner:
    runner.run(story())
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""What time of day it is when such a loop starts."""


class VirtualTime(asyncio.SelectorEventLoop):
    """Where asyncio would wait, the clock is moved to the moment that it waits for. Also a `Clock` for a scheduler.

    For code that waits for time and for other tasks, and not for sockets or threads. Where all tasks wait for something
    that will never happen, it raises AssertionError.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.seconds

    def monotonic(self) -> float:
        """The same, as a Clock says it."""
        return self.seconds

    def now(self) -> datetime:
        """The time of day, as a Clock says it."""
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
