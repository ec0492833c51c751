"""Dicts and sets give back the memory of entries that are gone: Python's own only do so when entries are added."""

from __future__ import annotations

import sys
from typing import Any

_SPACIOUS = 500
"""The bytes per entry from which a table is rebuilt. It takes 50 to 150 bytes per entry while it grows, so most entries
have to go between two rebuilds."""
_SMALL = 8192
"""Tables of fewer bytes aren't worth it."""


def shrink(table: dict[Any, Any] | set[Any]) -> None:
    """Rebuild a table that had far more entries than it has now. Call this after removals; usually it does nothing."""
    if sys.getsizeof(table) > _SMALL + _SPACIOUS * len(table):
        entries: Any = table.copy()
        table.clear()
        table.update(entries)
