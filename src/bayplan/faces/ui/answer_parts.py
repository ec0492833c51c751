"""Answers for the page: what a terminal shows, as lines and tables with links to nodes and pods.

So a new question has a page without HTML of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer
from bayplan.answers.insight.insight import Insight
from bayplan.core.api.kinds import POD

_NUMBER = re.compile(r"-?|[0-9][0-9,.]*[A-Za-z%]*( \([0-9]+%\))?")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text. `strong`: whether it is a heading."""

    text: str
    strong: bool = False
    indented: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. `address`: that of the page about the node or the pod that it names; "" if there is none."""

    text: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. `numbers`: whether each column has numbers only."""

    headers: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]


def parts_of(insight: Insight, answer: Answer) -> tuple[TextLine | Grid, ...]:
    """Return an answer about the cluster of an Insight as lines and tables."""
    return tuple(_parts(insight, answer.render()))


def _parts(insight: Insight, shown: RenderableType, *, indented: bool = False) -> Iterator[TextLine | Grid]:
    match shown:
        case Group():
            for renderable in shown.renderables:
                yield from _parts(insight, renderable, indented=indented)
        case Padding():
            yield from _parts(insight, shown.renderable, indented=True)
        case Table():
            columns = [[_plain(cell) for cell in column.cells] for column in shown.columns]
            numbers = tuple(any(column) and all(map(_NUMBER.fullmatch, column)) for column in columns)
            rows = tuple(tuple(_cell(insight, text) for text in row) for row in zip(*columns, strict=True))
            yield Grid(tuple(_plain(column.header).capitalize() for column in shown.columns), numbers, rows)
        case Text() | str():
            text = _plain(shown)
            if text.strip():
                strong = isinstance(shown, Text) and shown.style == "bold"
                yield TextLine(text.strip(), strong, indented or text.startswith("  "))
        case _:
            raise TypeError(f"an answer has a {type(shown).__name__}, which the page can't show")


def _plain(shown: RenderableType) -> str:
    return shown.plain if isinstance(shown, Text) else str(shown)


def _cell(insight: Insight, text: str) -> Cell:
    if text in insight.world.state.table.row_of:
        return Cell(text, f"/nodes/{text}")
    return Cell(text, f"/pods/{text}" if text in insight.world.state.objects[POD] else "")
