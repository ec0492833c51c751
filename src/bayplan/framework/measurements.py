"""What plugins count and time of their own, beside what is measured of every plugin."""

from __future__ import annotations

from typing import Protocol


class Measurements(Protocol):
    """Where plugins note it. Metrics show it under the names that plugins give.

    A metric has the same labels at every call. Raises ValueError for other labels, and for names that are none or are
    the scheduler's own.
    """

    def count(self, metric: str, /, **labels: str) -> None:
        """One more of something. The names of counters end in `_total`."""

    def observe(self, metric: str, seconds: float, /, **labels: str) -> None:
        """Something took so long. The names of durations end in `_seconds`."""


class Unmeasured:
    """Measurements that nobody looks at."""

    def count(self, metric: str, /, **labels: str) -> None:
        """Forgotten."""

    def observe(self, metric: str, seconds: float, /, **labels: str) -> None:
        """Forgotten."""
