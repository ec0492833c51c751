"""Deadlines: when to look at a request again although nothing has happened."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple


class _Deadline(NamedTuple):
    at: datetime
    key: str


class Deadlines:
    """The times at which requests are looked at, earliest first. One that does not apply any more does no harm."""

    def __init__(self) -> None:
        self._heap: list[_Deadline] = []
        self._changed = asyncio.Event()

    def add(self, key: str, at: datetime | None) -> None:
        """Look at a request at a time; never if it is None."""
        if at is not None:
            heapq.heappush(self._heap, _Deadline(at, key))
            self._changed.set()

    async def run(self, now: Callable[[], datetime], due: Callable[[str], None]) -> None:
        """Call `due` with each request whose time has come, until cancelled."""
        while True:
            self._changed.clear()
            while self._heap and self._heap[0].at <= now():
                due(heapq.heappop(self._heap).key)
            seconds = (self._heap[0].at - now()).total_seconds() if self._heap else None
            try:
                async with asyncio.timeout(None if seconds is None else max(seconds, 0.001)):
                    await self._changed.wait()
            except TimeoutError:
                continue
