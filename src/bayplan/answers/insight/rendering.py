"""How an answer becomes text and HTML. Apart from `answers.py`, so that a command's help needs no tables."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.table import Table


def text_of(shown: RenderableType, width: int) -> str:
    """Return what a terminal of `width` columns shows, without colors."""
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False)
    console.print(folded(shown), end="")
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def html_of(shown: RenderableType) -> str:
    """Return an HTML fragment."""
    console = Console(file=io.StringIO(), width=140, record=True, force_jupyter=False)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def folded(shown: RenderableType) -> RenderableType:
    """Let the tables of an answer continue names that are too long on the next line, and cut none off."""
    for each in shown.renderables if isinstance(shown, Group) else [shown]:
        if isinstance(each, Table):
            for column in each.columns:
                column.overflow = "fold"
    return shown
