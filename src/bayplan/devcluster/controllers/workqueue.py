"""The keys that a controller has to look at. Mirrors client-go's util/workqueue."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from bayplan.clock import Timer, TimerClock

K = TypeVar("K", bound=Hashable)

FIRST_RETRY = 0.005
"""Wall-clock seconds before the first retry; doubled with each further one."""
LAST_RETRY = 30.0


class WorkQueue(Generic[K]):
    """Each key waits at most once, and is in the hands of one worker at most.

    ::

        (unknown) --add--> waiting --get--> in hand --done--> (unknown)
                                              |  add           ^ not added meanwhile
                                              v                |
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
        """Keys waiting now; those that are due later do not count."""
        return self._ready.qsize()

    def add(self, key: K) -> None:
        """Have the key looked at."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._in_hand:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have the key looked at when `seconds` of the clock have passed, or earlier if that was asked for already."""
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
        """Have the key looked at again after a failure, the later the more there were in a row.

        These waits are the wall's: they spare the server, whatever the virtual time.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_RETRY * 2.0 ** min(failures, 30), LAST_RETRY)
        asyncio.get_running_loop().call_later(delay, self.add, key)

    def forget(self, key: K) -> None:
        """The key succeeded: the next failure is the first again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, waiting for one. `done` must follow."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._in_hand.add(key)
        return key

    def done(self, key: K) -> None:
        """The worker has finished with the key."""
        self._in_hand.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    def close(self) -> None:
        """Call off everything that is due later."""
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
