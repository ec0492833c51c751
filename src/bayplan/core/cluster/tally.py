"""Tallies: pod counts by row, with sums by topology domain that are kept up to date.

Each selector group and each group of affinity terms has one (`selector_groups.py`, `affinity_terms.py`). There may be
100,000, most with one number, so few numbers are a dictionary and many an array. `Usage` counts the memory of all.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.core.cluster.columns import Int32, Int64, Rows, grown

_MAX_GROUPINGS = 8
"""The number of groupings whose sums are kept; the oldest is dropped. Usually there is one per topology key in use."""
_DENSE_FRACTION = 64
"""A tally becomes an array when more than one row in this many has a number, a dictionary again below a quarter."""
_MIN_DENSE = 16
"""A tally with fewer numbers is a dictionary, whatever the capacity."""
_BYTES_PER_ENTRY = 100
"""What an entry of a dictionary of numbers takes, about."""


_MAX_ONES = 4096

_NO_NUMBERS: dict[int, int] = {}
_NO_SUMS: dict[int, tuple[Rows, Int64]] = {}
"""Shared by all tallies without any: there may be 100,000 of them. Never changed."""


class Usage:
    """The memory that some tallies take together, about, in bytes. They share what they can."""

    __slots__ = ("_ones", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._ones: dict[int, dict[int, int]] = {}

    def one(self, row: int) -> dict[int, int]:
        """Return the dictionary that has 1 for this row only: there may be 100,000 such tallies."""
        found = self._ones.get(row)
        if found is None:
            if len(self._ones) >= _MAX_ONES:
                self._ones.clear()
            found = self._ones[row] = {row: 1}
        return found


class Tally:
    """A number for each row of the node table; most rows of most tallies have 0.

    Few numbers are stored in a dictionary, more of them in an array. Sums by domain are kept too, unless there are more
    domains than numbers: `add` updates them, so that asking for them again does not read all numbers.

    What the tally takes is part of `usage`, if given.
    """

    __slots__ = ("_array", "_capacity", "_few", "_many", "_sums", "_usage")

    def __init__(self, capacity: int, usage: Usage | None = None) -> None:
        self._capacity = capacity
        self._usage = usage or Usage()
        self._few: dict[int, int] = _NO_NUMBERS
        """By row, without zeros; empty once there is an array. Never changed while it has one number."""
        self._array: Int32 | None = None
        self._many = 0
        """The rows of the array that have a number."""
        self._sums: dict[int, tuple[Rows, Int64]] = _NO_SUMS
        """By the `id` of the codes. The codes are stored too, so that their id is not reused."""

    def add(self, row: int, number: int) -> None:
        """Add to the number of a row."""
        for codes, sums in self._sums.values():
            if row < len(codes):  # else the codes are older than the row, and no caller has them any more
                sums[codes[row]] += number
        if self._array is None:
            before = self._few.get(row, 0)
            if before + number:
                self._put(row, before + number)
                if before == 0:
                    self._usage.bytes += _BYTES_PER_ENTRY
                    if len(self._few) > self._most_entries():
                        self._become_dense()
            elif number:
                self._drop(row)
                self._usage.bytes -= _BYTES_PER_ENTRY
            return
        if not number:
            return
        before = self._array.item(row)
        self._array[row] = before + number
        if before == 0:
            self._many += 1
        elif before + number == 0:
            self._many -= 1
            if self._many < self._most_entries() // 4:
                self._become_sparse()

    def at(self, row: int) -> int:
        """Return the number of a row."""
        return self._few.get(row, 0) if self._array is None else self._array.item(row)

    def count_rows(self, rows: Rows) -> None:
        """Set the number of each row to its occurrences in `rows`. Only for a tally that is empty."""
        if len(rows) <= self._most_entries():
            for row in rows.tolist():
                self._put(row, self._few.get(row, 0) + 1)
        else:
            array = np.bincount(rows, minlength=self._capacity).astype(np.int32)
            self._array, self._many = array, int(np.count_nonzero(array))
        self._usage.bytes += self.bytes
        if self._array is not None and self._many <= self._most_entries():
            self._become_sparse()

    def dense(self, size: int) -> Int64:
        """Return the numbers of the first `size` rows: a new array, int64, shape (size,)."""
        if self._array is not None:
            return self._array[:size].astype(np.int64)
        rows, numbers = self._entries(size)
        array = np.zeros(size, dtype=np.int64)
        array[rows] = numbers
        return array

    def sum_by(self, codes: Rows, count: int) -> Int64:
        """Return the sum of the rows of each code: a new array, int64, shape (count,).

        `codes`: intp, one per row, from 0 to count - 1. The array must never be modified, because the sums are cached
        by its identity.
        """
        kept = self._sums.get(id(codes))
        if kept is not None:
            return kept[1].copy()
        # bincount sums in float64, which is exact up to 2**53.
        if self._array is None:
            rows, numbers = self._entries(len(codes))
            sums = np.bincount(codes[rows], weights=numbers, minlength=count).astype(np.int64)
            if len(rows) < count:
                return sums
        else:
            sums = np.bincount(codes, weights=self._array[: len(codes)], minlength=count).astype(np.int64)
        self._usage.bytes -= self.bytes
        if self._sums is _NO_SUMS:
            self._sums = {}
        if len(self._sums) >= _MAX_GROUPINGS:
            del self._sums[next(iter(self._sums))]
        self._sums[id(codes)] = (codes, sums)
        self._usage.bytes += self.bytes
        return sums.copy()

    def __bool__(self) -> bool:
        """Whether any row has a number."""
        return bool(self._few) or self._many > 0

    @property
    def few(self) -> Mapping[int, int] | None:
        """The numbers by row, without zeros, if they are few; else None."""
        return self._few if self._array is None else None

    @property
    def bytes(self) -> int:
        """The memory that the numbers and the sums take, about."""
        if self._array is None:  # its sums are no longer than its numbers
            return _BYTES_PER_ENTRY * len(self._few)
        return self._array.nbytes + sum(codes.nbytes + sums.nbytes for codes, sums in self._sums.values())

    def leave(self) -> None:
        """Take no part in the usage any more."""
        self._usage.bytes -= self.bytes
        self._usage = Usage()

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        if self._array is not None:
            self._usage.bytes -= self.bytes
            self._array = grown(self._array, capacity)
            self._usage.bytes += self.bytes

    def _most_entries(self) -> int:
        return max(_MIN_DENSE, self._capacity // _DENSE_FRACTION)

    def _put(self, row: int, number: int) -> None:
        """Set the number of a row in the dictionary."""
        if len(self._few) > 1:
            self._few[row] = number
        elif number == 1 and (not self._few or row in self._few):
            self._few = self._usage.one(row)
        else:
            self._few = {**self._few, row: number}

    def _drop(self, row: int) -> None:
        """Remove the number of a row from the dictionary."""
        if len(self._few) > 2:
            del self._few[row]
        elif len(self._few) == 2:
            self._few = {other: number for other, number in self._few.items() if other != row}
        else:
            self._few = _NO_NUMBERS

    def _become_dense(self) -> None:
        self._usage.bytes -= self.bytes
        array = np.zeros(self._capacity, dtype=np.int32)
        rows, numbers = self._entries(self._capacity)
        array[rows] = numbers
        self._few, self._array, self._many = _NO_NUMBERS, array, len(rows)
        self._usage.bytes += self.bytes

    def _become_sparse(self) -> None:
        assert self._array is not None
        self._usage.bytes -= self.bytes
        rows = np.flatnonzero(self._array)
        few = dict(zip(rows.tolist(), self._array[rows].tolist(), strict=True))
        self._few, self._array, self._sums = few, None, _NO_SUMS
        self._usage.bytes += self.bytes

    def _entries(self, size: int) -> tuple[Rows, Int64]:
        """Return the rows below `size` that have a number, and their numbers."""
        count = len(self._few)
        rows = np.fromiter(self._few, dtype=np.intp, count=count)
        numbers = np.fromiter(self._few.values(), dtype=np.int64, count=count)
        if count and rows.max() >= size:
            known = rows < size
            rows, numbers = rows[known], numbers[known]
        return rows, numbers
