"""The service's clock: the only place where it reads the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two times: one that only moves forward, for waiting, and one that the world agrees on, for writing down."""

    def monotonic(self) -> float:
        """Seconds since some moment."""

    def now(self) -> datetime:
        """The time of day, in UTC."""


class SystemClock:
    """The machine's own clock."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes it: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """A time as Kubernetes writes it in events and leases: microseconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
