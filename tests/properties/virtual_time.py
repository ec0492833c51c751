"""An event loop on which time passes only when nothing else is left to do: hours take no time, and nobody sleeps."""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta


class VirtualTime(asyncio.SelectorEventLoop):
    """Where asyncio would wait, the clock is moved to the moment it waits for. Also a Clock of the scheduler's."""

    def __init__(self):
        self.seconds = 0.0
        super().__init__(_Impatient(self))

    def time(self):
        return self.seconds

    monotonic = time

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


class _Impatient(selectors.DefaultSelector):
    def __init__(self, loop):
        super().__init__()
        self._virtual = loop

    def select(self, timeout=None):
        if timeout is None:
            raise AssertionError("all tasks wait for something that will never happen")
        ready = super().select(0)
        if not ready:
            self._virtual.seconds += timeout
        return ready
