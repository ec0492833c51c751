"""Metrics that plugins define, in addition to those that the scheduler keeps for every plugin."""

from __future__ import annotations

from typing import Protocol


class Measurements(Protocol):
    """The metrics of plugins. They are created at first use, and served under the given names.

    Every call for a metric has to use the same labels. The methods raise ValueError for different labels, for invalid
    names, and for names of the scheduler's own metrics.
    """

    def count(self, metric: str, /, **labels: str) -> None:
        """Increment a counter. Its name ends in `_total`."""

    def observe(self, metric: str, seconds: float, /, **labels: str) -> None:
        """Add a duration to a histogram. Its name ends in `_seconds`."""


class Unmeasured:
    """Measurements that are discarded."""

    def count(self, metric: str, /, **labels: str) -> None:
        """Do nothing."""

    def observe(self, metric: str, seconds: float, /, **labels: str) -> None:
        """Do nothing."""
