"""How many values the columns of a Parquet file have, read from its footer.

pyarrow ends the process where a damaged footer contradicts itself: it describes a column without an exception. So the
footer is read here. It is a struct of Thrift's compact protocol, whose fields have numbers: parquet.thrift of Apache
Parquet names them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TAIL = 8
"""Bytes at the end of a file: the length of the footer, and `PAR1`."""
_ROW_GROUPS, _COLUMNS, _COLUMN_METADATA, _NUM_VALUES = 4, 1, 3, 5
"""The numbers of the fields that lead to the number of values of a column in a row group."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = frozenset({4, 5, 6})
_MOST_BITS = 64
"""The size of the largest number."""
_LONG = 15
"""The size in the header of a list that says that the size follows."""


def most_values(path: Path) -> int | None:
    """Return the most values that any column has in a row group; None if the footer is damaged. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - _TAIL - length, 0))
        raw = file.read(length)
    try:
        footer = _Compact(raw).struct()
        groups = [group for group in footer.get(_ROW_GROUPS, ()) for group in group.get(_COLUMNS, ())]
        return max((column[_COLUMN_METADATA][_NUM_VALUES] for column in groups), default=0)
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class _Compact:
    """A reader of Thrift's compact protocol. A struct is a dict of its fields by number; texts and doubles are None."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def struct(self) -> dict[int, Any]:
        """Read a struct."""
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._integer()
            kind = header & 15
            fields[number] = kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct()
        if kind in {_LIST, _SET}:
            header = self._byte()
            count = self._number() if header >> 4 == _LONG else header >> 4
            return [self._value(header & 15) for _ in range(count)]
        if kind == _MAP:
            count = self._number()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        if kind == _BINARY:
            length = self._number()
            self._at += length
        elif kind == _DOUBLE:
            self._at += 8
            if self._at > len(self._raw):  # or a list of any length would be read on
                raise IndexError
        elif kind in {_TRUE, _FALSE, _BYTE}:
            return self._byte()
        else:
            raise KeyError(kind)
        return None

    def _byte(self) -> int:
        self._at += 1
        return self._raw[self._at - 1]

    def _number(self) -> int:
        """Read an unsigned number of 7 bits a byte, the lowest first."""
        found = shift = 0
        while (part := self._byte()) & 128:
            found |= (part & 127) << shift
            shift += 7
            if shift > _MOST_BITS:
                raise IndexError
        return found | part << shift

    def _integer(self) -> int:
        """Read a signed number, whose lowest bit is its sign."""
        number = self._number()
        return (number >> 1) ^ -(number & 1)
