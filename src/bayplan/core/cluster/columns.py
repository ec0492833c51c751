"""Arrays with one value per row of the node table, and columns of interned values.

A `CodedColumn` suits what has few distinct values, such as labels and taints: an int32 code per row, and the values
beside. A predicate is called once per value, and looked up for all rows at once. Plugins get locked views: a plugin
that writes to a column raises.
"""

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
T = TypeVar("T", bound=np.generic)

_MAX_DEAD = 64
"""A column is renumbered when this number of values more than those in use are of no row."""
_FEW_CODES = 4


def locked(array: NDArray[T]) -> NDArray[T]:
    """Return a view that can't be made writable, as that of a read-only array can."""
    return np.asarray(array.data.toreadonly())


class LockedColumns:
    """Locked views of an owner's arrays, for plugins."""

    __slots__ = ("_owner", "_views")

    def __init__(self, owner: object) -> None:
        self._owner = owner
        self._views: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        """By attribute: the array, which the owner may replace, and its view."""

    def of(self, name: str) -> NDArray[Any]:
        """Return the view of the array that an attribute of the owner has now."""
        array = getattr(self._owner, name)
        kept = self._views.get(name)
        if kept is None or kept[0] is not array:
            kept = self._views[name] = array, locked(array)
        return kept[1]


def grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Return a copy of the column with its last axis extended to `capacity` rows. New rows are zero."""
    wider = np.zeros((*column.shape[:-1], capacity), dtype=column.dtype)
    wider[..., : column.shape[-1]] = column
    return wider


class CodedColumn(Generic[V]):
    """A column with few distinct values, stored as codes.

    `codes`: int32, shape (capacity,); code c means `values[c]`, and `values[0]` is `absent`. Codes are valid until
    the next `set`, which may renumber them to drop values that no row has any more.
    """

    def __init__(self, capacity: int, absent: V) -> None:
        self.codes: Int32 = np.zeros(capacity, dtype=np.int32)
        self.values: list[V] = [absent]
        self._code_of: dict[V, int] = {absent: 0}
        self._rows_of: list[int] = [0]
        """By code, except code 0: the number of rows."""
        self._dead = 0
        """The number of codes that no row has, except code 0."""
        self.present = 0
        """The number of rows with a value other than `absent`."""
        self._frozen: Rows | None = None

    def set(self, row: int, value: V) -> None:
        """Set the value of a row."""
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
            self._rows_of.append(0)
            self._dead += 1
        old: int = self.codes.item(row)
        if old == code:
            return
        self.codes[row] = code
        self.present += (code > 0) - (old > 0)
        self._frozen = None
        if code:
            self._rows_of[code] += 1
            self._dead -= self._rows_of[code] == 1
        if old:
            self._rows_of[old] -= 1
            self._dead += self._rows_of[old] == 0
            if self._dead > _MAX_DEAD + self._in_use():
                self._renumber()

    @property
    def used(self) -> bool:
        """Whether any row has a value other than `absent`."""
        return self._in_use() > 0

    @property
    def distinct(self) -> bool:
        """Whether no two rows have the same value, other than `absent`."""
        return self.present == self._in_use()

    def frozen(self, size: int) -> Rows:
        """Return a copy of the codes of the first `size` rows: intp, shape (size,).

        The same array is returned until a code changes, and it is never modified, so it can serve as a cache key by
        identity.
        """
        if self._frozen is None or len(self._frozen) != size:
            self._frozen = self.codes[:size].astype(np.intp)
        return self._frozen

    def code(self, value: V) -> int:
        """Return the code of a value; -1 if it has none."""
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
        wanted = {code for value in values if (code := self._code_of.get(value)) is not None}
        codes = self.codes[rows]
        if len(wanted) > _FEW_CODES:
            table = np.zeros(len(self.values), dtype=np.bool_)
            table[np.fromiter(wanted, dtype=np.intp, count=len(wanted))] = True
            return table[codes]
        found = np.zeros(len(codes), dtype=np.bool_)
        for code in wanted:
            found |= codes == code
        return found

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.codes = grown(self.codes, capacity)

    def _in_use(self) -> int:
        return len(self.values) - 1 - self._dead

    def _renumber(self) -> None:
        """Drop the codes that no row has."""
        kept = [0, *(code for code, rows in enumerate(self._rows_of) if rows)]
        new = np.zeros(len(self.values), dtype=np.int32)
        new[kept] = np.arange(len(kept))
        self.codes = new[self.codes]
        self.values = [self.values[code] for code in kept]
        self._rows_of = [self._rows_of[code] for code in kept]
        self._code_of = {value: code for code, value in enumerate(self.values)}
        self._dead = 0
