"""The client's own limit of requests per second, if one is set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class RateLimit:
    """A token bucket: `burst` requests at once, then `qps` per second, in the order of the calls."""

    def __init__(self, qps: float, burst: int, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"qps must be above 0 and burst at least 1, not {qps} and {burst}")
        self._interval = 1 / qps
        self._lead = (burst - 1) * self._interval
        self._sleep = sleep
        self._next = time.monotonic() - self._lead
        """The time of the next request if requests were evenly spaced."""

    async def acquire(self) -> None:
        """Returns once the next request may be sent."""
        now = time.monotonic()
        due = max(self._next, now - self._lead)
        self._next = due + self._interval
        if due > now:
            await self._sleep(due - now)
