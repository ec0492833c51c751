"""The queue of the keys that a controller must sync. Mirrors client-go's util/workqueue."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from bayplan.foundations.clock import Timer, TimerClock

K = TypeVar("K", bound=Hashable)

FIRST_RETRY = 0.005
"""Real seconds before the first retry; doubles with each further retry."""
LAST_RETRY = 30.0


class WorkQueue(Generic[K]):
    """A queue without duplicates. At most one worker processes a key at a time.

    ::

        (unknown) --add--> waiting --get--> processing --done--> (unknown)
                                                |
                                               add
                                                v
                                              dirty ----done--> waiting
    """

    def __init__(self, clock: TimerClock) -> None:
        self._clock = clock
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._in_hand: set[K] = set()
        self._later: dict[K, tuple[datetime, Timer]] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """The number of waiting keys, without those that are due later."""
        return self._ready.qsize()

    def add(self, key: K) -> None:
        """Add a key."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._in_hand:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after `seconds` of the clock. An earlier time that was requested before stays."""
        due = self._clock.now() + timedelta(seconds=seconds)
        earlier = self._later.get(key)
        if earlier is not None:
            if earlier[0] <= due:
                return
            earlier[1].cancel()

        def fall_due() -> None:
            del self._later[key]
            self.add(key)

        self._later[key] = (due, self._clock.call_later(seconds, fall_due))

    def retry(self, key: K) -> None:
        """Add a key again after a failure, with exponential backoff.

        The backoff is in real time, as it protects the server.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_RETRY * 2.0 ** min(failures, 30), LAST_RETRY)
        asyncio.get_running_loop().call_later(delay, self.add, key)

    def forget(self, key: K) -> None:
        """Reset the backoff of a key after a success."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for the next key. Call `done` afterwards."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._in_hand.add(key)
        return key

    def done(self, key: K) -> None:
        """Finish the processing of a key."""
        self._in_hand.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    def close(self) -> None:
        """Cancel all keys that are due later."""
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
