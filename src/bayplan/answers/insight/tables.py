"""Tables of answers, and how many rows of them are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from rich.table import Table
from rich.text import Text

K = TypeVar("K")
T = TypeVar("T")

FEW = 20
"""Lines beside an answer that are shown by default, however many the input has."""


def table(headers: Iterable[str], items: Sequence[T], row: Callable[[T], Iterable[str]], limit: int = 0) -> Table:
    """Return a table with a row for each of the first items (all if `limit` is 0), and how many more there are."""
    found = Table(*headers, box=None, pad_edge=False)
    shown, more = shortened(items, limit)
    for item in shown:
        found.add_row(*row(item))
    if more:
        found.add_row(more)
    return found


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the second values of pairs by the first one, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def shortened(rows: Sequence[T], limit: int) -> tuple[Sequence[T], str]:
    """Return the first rows (all if `limit` is 0), and how many more there are: `and 3 more`, or ""."""
    shown = rows[:limit] if limit else rows
    return shown, f"and {len(rows) - len(shown):,} more" if len(shown) < len(rows) else ""


def labelled(label: str, texts: Sequence[str], limit: int = FEW, style: str = "") -> Iterator[Text]:
    """Yield a line for each of the first texts (all if `limit` is 0), as in `note: ...`, and how many there are."""
    shown, more = shortened(texts, limit)
    yield from (Text(f"{label}: {text}", style=style) for text in shown)
    if more:
        yield Text(f"{label}: {more}", style=style)
