"""Files that the options of questions name: prices and recommendations. Bad input ends the process with one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayplan.faces.cli.insight.messages import fail
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import answers
    from bayplan.answers.insight import prices as node_prices
    from bayplan.answers.insight.recommendations import files as recommendation_files


def dollars_in(file: str | None) -> dict[str, float]:
    """Read the prices of nodes."""
    if file is None:
        return {}

    try:
        return node_prices.Prices.read(Path(file)).dollars
    except node_prices.PricesError as error:
        fail(str(error))


def recommendations_in(file: str | None) -> list[dict[str, Any]]:
    """Read what containers should request, as documents."""
    if file is None:
        return []
    try:
        return recommendation_files.read_documents(Path(file))
    except answers.QuestionError as error:
        fail(str(error))
