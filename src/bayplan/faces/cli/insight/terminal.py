"""Shows an answer in a terminal, with colors and as wide as it is."""

from __future__ import annotations

from rich.console import Console

from bayplan.answers.insight.answers import Answer
from bayplan.answers.insight.rendering import folded


def show(found: Answer, *, wide: bool) -> None:
    """Print an answer to stdout."""
    Console(highlight=False).print(folded(found.render(wide=wide)))
