"""Histograms that cost a fraction of a microsecond to write: they have one writer, the scheduler's thread, and no lock.

Readers in other threads take what is there; an observation that is being made meanwhile may be missing in a part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds, the first `start`, each `factor` times the one before. Mirrors prometheus' own."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Histogram:
    """How many observations fell into each bucket, and their sum. The last bucket has no upper bound."""

    __slots__ = ("_edges", "bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._edges = np.array(bounds, dtype=np.float64)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value in the first bucket whose bound it does not exceed."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_all(self, values: Sequence[float] | Floats) -> None:
        """Count many values, which costs less than one by one."""
        found = np.bincount(np.searchsorted(self._edges, values), minlength=len(self.counts))
        self.counts = [old + new for old, new in zip(self.counts, found.tolist(), strict=True)]
        self.sum += float(np.sum(values))

    @property
    def count(self) -> int:
        """How many observations there are."""
        return sum(self.counts)


class Histograms(dict[tuple[str, ...], Histogram]):
    """Histograms of one name by the values of their labels, made when they are first asked for."""

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__()
        self.bounds = bounds

    def observe_all(self, values: Mapping[tuple[str, ...], Sequence[float]]) -> None:
        """Count many values by the values of their labels."""
        for labels, each in values.items():
            self[labels].observe_all(each)

    def __missing__(self, labels: tuple[str, ...]) -> Histogram:
        histogram = self[labels] = Histogram(self.bounds)
        return histogram
