"""Histograms that take a fraction of a microsecond to update: only the scheduler's thread writes, without a lock.

Other threads may read at any time. They may see a part of an update that is in progress.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, repeat
from operator import mul

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds: `start`, and then each `factor` times the one before. Mirrors Prometheus' function."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


class Histogram:
    """The number of observations in each bucket, and their sum. The last bucket has no upper bound."""

    __slots__ = ("_edges", "bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._edges = np.array(bounds, dtype=np.float64)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value to the first bucket whose bound it does not exceed."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_all(self, values: Sequence[float] | Floats) -> None:
        """Add many values, which is faster than one at a time."""
        added = np.bincount(np.searchsorted(self._edges, values), minlength=len(self.counts))
        self.counts = [old + new for old, new in zip(self.counts, added.tolist(), strict=True)]
        self.sum += float(np.sum(values))

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)


class Histograms(dict[tuple[str, ...], Histogram]):
    """The histograms of one metric by label values, created on first use."""

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__()
        self.bounds = bounds

    def observe_all(self, values: Mapping[tuple[str, ...], Sequence[float]]) -> None:
        """Add many values by label values."""
        for labels, each in values.items():
            self[labels].observe_all(each)

    def __missing__(self, labels: tuple[str, ...]) -> Histogram:
        histogram = self[labels] = Histogram(self.bounds)
        return histogram
