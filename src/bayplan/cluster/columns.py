"""Arrays with one value per row of the node table, and columns of interned values."""

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
    """Return a copy of the column with its last axis extended to `capacity` rows. New rows are zero."""
    wider = np.zeros((*column.shape[:-1], capacity), dtype=column.dtype)
    wider[..., : column.shape[-1]] = column
    return wider


class CodedColumn(Generic[V]):
    """A column with few distinct values, stored as codes.

    `codes`: int32, shape (capacity,); code c stands for `values[c]`, and `values[0]` is `absent`. Codes are never
    reused, so results that are cached by code stay valid.
    """

    def __init__(self, capacity: int, absent: V) -> None:
        self.codes: Int32 = np.zeros(capacity, dtype=np.int32)
        self.values: list[V] = [absent]
        self._code_of: dict[V, int] = {absent: 0}
        self._frozen: Rows | None = None

    def set(self, row: int, value: V) -> None:
        """Set the value of a row."""
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        if self.codes[row] != code:
            self.codes[row] = code
            self._frozen = None

    def frozen(self, size: int) -> Rows:
        """Return a copy of the codes of the first `size` rows: intp, shape (size,).

        The same array is returned until a code changes, and it is never modified, so it can serve as a cache key by
        identity.
        """
        if self._frozen is None or len(self._frozen) != size:
            self._frozen = self.codes[:size].astype(np.intp)
        return self._frozen

    def code(self, value: V) -> int:
        """Return the code of a value; -1 if no row has ever had it."""
        return self._code_of.get(value, -1)

    def where(self, predicate: Callable[[V], bool], rows: slice | Rows) -> Bool:
        """Return whether each row's value satisfies the predicate, which is called once per distinct value."""
        table = np.fromiter((predicate(value) for value in self.values), dtype=np.bool_, count=len(self.values))
        return table[self.codes[rows]]

    def map(self, function: Callable[[V], int], rows: slice | Rows) -> Int64:
        """Apply a function to each row's value. It is called once per distinct value."""
        table = np.fromiter((function(value) for value in self.values), dtype=np.int64, count=len(self.values))
        return table[self.codes[rows]]

    def isin(self, values: Iterable[V], rows: slice | Rows) -> Bool:
        """Return whether each row's value is one of `values`."""
        codes = self.codes[rows]
        found = np.zeros(len(codes), dtype=np.bool_)
        for code in {self.code(value) for value in values}:
            found |= codes == code
        return found

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.codes = grown(self.codes, capacity)
