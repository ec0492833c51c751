"""Tallies: pods counted by row, and the sums of that by domain, which are kept as pods come and go."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.columns import Int32, Int64, Rows, grown

_KEPT = 8
"""Groupings whose sums are kept; the oldest gives way. Few are in use at a time: one a topology key, as a rule."""


class Tally:
    """A number for each row of the node table. `rows`: int32, shape (capacity,).

    Sums are brought up to date with every change of a row, so that to ask for them again does not mean to look at all
    rows again.
    """

    __slots__ = ("_sums", "rows")

    def __init__(self, capacity: int) -> None:
        self.rows: Int32 = np.zeros(capacity, dtype=np.int32)
        self._sums: dict[int, tuple[Rows, Int64]] = {}
        """By the identity of the codes, which are kept with the sums so that no other array can get it."""

    def add(self, row: int, number: int) -> None:
        """Add to the number of a row."""
        self.rows[row] += number
        for codes, sums in self._sums.values():
            if row < len(codes):  # else these are codes from before the row was there, which nobody has any more
                sums[codes[row]] += number

    def sum_by(self, codes: Rows, count: int) -> Int64:
        """The sum over the rows of each code. int64, shape (count,), and the caller's own.

        `codes`: one a row, below `count`. It must never change: sums are kept for this very array.
        """
        kept = self._sums.get(id(codes))
        if kept is None:
            # bincount sums in float64, which is exact far beyond any number of pods.
            sums = np.bincount(codes, weights=self.rows[: len(codes)], minlength=count).astype(np.int64)
            if len(self._sums) >= _KEPT:
                del self._sums[next(iter(self._sums))]
            kept = self._sums[id(codes)] = (codes, sums)
        return kept[1].copy()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.rows = grown(self.rows, capacity)
