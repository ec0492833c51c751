"""How fast a ListWatch goes: the waits after failures, the limits of silence and of a list's pages.

    Pace(backoff=Backoff(initial=1.0), idle_seconds=60)

A Pace is a value, which the caller gives. Retries is the state beside it, one for each ListWatch: which wait is next
depends on what failed before. `list_watch.py` asks it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bayplan.running.client.backoff import Backoff
from bayplan.running.client.errors import ApiError, ConfigError, TransportError

IDLE_SECONDS = 22.0
"""How long a watch may be silent. After that its connection counts as dead, as after a lost NAT entry."""

AWAY = 1.2
"""The longest wait, plus jitter, while the server is away or not ready, so that each kind is followed again within two
seconds after it is back. Requests that fail slowly, as those to a busy server do, wait as long as they took.
"""

RequestError = ApiError | TransportError | ConfigError
"""Why a list or a watch failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How long a ListWatch waits, and how much it asks for at once.

    `backoff`: the waits after failures. A watch that is silent for `idle_seconds` is replaced. Lists come in pages of
    `page_size` objects (0: one page). `clock` returns seconds, and is the caller's: in virtual time, other tasks have
    their turn at the same changes on every machine. `sleep` and `rng` are for tests.
    """

    backoff: Backoff = field(default_factory=Backoff)
    idle_seconds: float = IDLE_SECONDS
    page_size: int = 500
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)


class Retries:
    """The waits between the requests of one ListWatch. It goes by what failed before, and by how long lists take."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.list_seconds = 0.0
        """How long the last list took."""
        self.unreadable_event = False
        """Whether the last watch ended because of an event that cannot be decoded."""
        self._away = False
        """Whether the server was away or not ready at the last failure."""
        self.restart()

    def restart(self) -> None:
        """Begin with the shortest wait again, because the server works."""
        self._waits = self._pace.backoff.waits(self._pace.rng)

    def after(self, error: RequestError, lasted: float) -> float:
        """The seconds to wait after a request that failed after `lasted` seconds.

        A server that is away gets only the first waits (AWAY). Where a list must follow, lists take a third of the time
        at most. No wait ends before the server's Retry-After.
        """
        expired = is_expired(error)
        away = not expired and _is_away(error)
        if expired or self.unreadable_event or away != self._away:  # the server works, or works again, or fails anew
            self.restart()
        pause = next(self._waits)
        if away:
            pause = min(pause, max(lasted, AWAY * (1 + self._pace.backoff.jitter * self._pace.rng.random())))
        if expired or self.unreadable_event:
            pause = max(pause, 2 * self.list_seconds)
        self._away, self.unreadable_event = away, False
        if isinstance(error, ApiError):
            pause = max(pause, error.retry_after or 0.0)
        return pause


def is_expired(error: RequestError) -> bool:
    """Whether the version to continue from is gone, or isn't there yet, so that only a list helps."""
    return isinstance(error, ApiError) and (error.status == 410 or _is_from_the_future(error))


def _is_away(error: RequestError) -> bool:
    """Whether the server can't be reached or isn't ready, which nothing but another request can tell the end of."""
    if isinstance(error, ApiError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, TransportError)


def _is_from_the_future(error: ApiError) -> bool:
    """Whether the server does not know the requested version yet, as after a restore."""
    causes = error.details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes
    )
