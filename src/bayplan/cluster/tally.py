"""Tallies: pod counts by row, with sums by domain that are kept up to date."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.columns import Int32, Int64, Rows, grown

_MAX_GROUPINGS = 8
"""The number of groupings whose sums are kept; the oldest is dropped. Usually there is one per topology key in use."""


class Tally:
    """A number for each row of the node table. `rows`: int32, shape (capacity,).

    `add` also updates the sums that were computed before, so that asking for them again does not read all rows.
    """

    __slots__ = ("_sums", "rows")

    def __init__(self, capacity: int) -> None:
        self.rows: Int32 = np.zeros(capacity, dtype=np.int32)
        self._sums: dict[int, tuple[Rows, Int64]] = {}
        """By the `id` of the codes. The codes are stored too, so that their id is not reused."""

    def add(self, row: int, number: int) -> None:
        """Add to the number of a row."""
        self.rows[row] += number
        for codes, sums in self._sums.values():
            if row < len(codes):  # else the codes are older than the row, and no caller has them any more
                sums[codes[row]] += number

    def sum_by(self, codes: Rows, count: int) -> Int64:
        """Return the sum of the rows of each code: a new array, int64, shape (count,).

        `codes`: intp, one per row, from 0 to count - 1. The array must never be modified, because the sums are cached
        by its identity.
        """
        kept = self._sums.get(id(codes))
        if kept is None:
            # bincount sums in float64, which is exact up to 2**53.
            sums = np.bincount(codes, weights=self.rows[: len(codes)], minlength=count).astype(np.int64)
            if len(self._sums) >= _MAX_GROUPINGS:
                del self._sums[next(iter(self._sums))]
            kept = self._sums[id(codes)] = (codes, sums)
        return kept[1].copy()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.rows = grown(self.rows, capacity)
