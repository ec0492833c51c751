"""DurationSketch: quantiles of durations without keeping the durations, to 1 %.

All arithmetic is in integers, so that the same simulation gives the same figures on every machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

_LONGEST = 10**10
"""In milliseconds: more than 100 days."""


def _bounds() -> Sequence[int]:
    """Milliseconds in steps of 1 %, but at least 1 ms. In integers, they are the same on every machine."""
    bounds = [0]
    while bounds[-1] < _LONGEST:
        bounds.append(max(bounds[-1] + 1, bounds[-1] * 101 // 100))
    return bounds


_BOUNDS = _bounds()


class DurationSketch:
    """Counts durations in classes of 1 %, or of 1 ms below 100 ms. Quantiles are rounded up to the end of a class."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        index = min(bisect_left(_BOUNDS, round(seconds * 1000)), len(_BOUNDS) - 1)
        self._counts[index] = self._counts.get(index, 0) + 1
        self.count += 1

    def quantile(self, share: float) -> float | None:
        """Return the duration in seconds that this share of all durations does not exceed; None if there are none."""
        if not self.count:
            return None
        left = share * self.count
        for index in sorted(self._counts):
            left -= self._counts[index]
            if left <= 1e-9:
                return _BOUNDS[index] / 1000
        raise AssertionError("the counts add up to all durations")
