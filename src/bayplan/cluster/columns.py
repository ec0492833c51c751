"""Columns that grow with the number of nodes, and columns of interned values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]
Rows = NDArray[np.intp]
V = TypeVar("V", bound=Hashable)


def grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    """A copy of the column whose last axis has room for `capacity` rows; new rows are zero."""
    wider = np.zeros((*column.shape[:-1], capacity), dtype=column.dtype)
    wider[..., : column.shape[-1]] = column
    return wider


class CodedColumn(Generic[V]):
    """One value a row out of few distinct ones, held as codes.

    `codes`: int32, shape (capacity,); 0 is `absent`, and code c stands for `values[c]`. Codes are never reused, so
    that whatever was computed for a code stays true.
    """

    def __init__(self, capacity: int, absent: V) -> None:
        self.codes: Int32 = np.zeros(capacity, dtype=np.int32)
        self.values: list[V] = [absent]
        self._code_of: dict[V, int] = {absent: 0}
        self._frozen: Rows | None = None

    def set(self, row: int, value: V) -> None:
        """Give a row its value."""
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        if self.codes[row] != code:
            self.codes[row] = code
            self._frozen = None

    def frozen(self, size: int) -> Rows:
        """The codes of the first `size` rows in an array that never changes: the very same until one of them does."""
        if self._frozen is None or len(self._frozen) != size:
            self._frozen = self.codes[:size].astype(np.intp)
        return self._frozen

    def code(self, value: V) -> int:
        """The code of a value; -1 where no row has ever had it."""
        return self._code_of.get(value, -1)

    def where(self, predicate: Callable[[V], bool], rows: slice | Rows) -> Bool:
        """Which of the rows have a value that satisfies the predicate: asked once per distinct value, not per row."""
        table = np.fromiter((predicate(value) for value in self.values), dtype=np.bool_, count=len(self.values))
        return table[self.codes[rows]]

    def mapped(self, number: Callable[[V], int], rows: slice | Rows) -> Int64:
        """What `number` makes of each row's value: asked once per distinct value, not per row."""
        table = np.fromiter((number(value) for value in self.values), dtype=np.int64, count=len(self.values))
        return table[self.codes[rows]]

    def among(self, values: Iterable[V], rows: slice | Rows) -> Bool:
        """Which of the rows have one of these values."""
        codes = self.codes[rows]
        found = np.zeros(len(codes), dtype=np.bool_)
        for code in {self.code(value) for value in values}:
            found |= codes == code
        return found

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.codes = grown(self.codes, capacity)
