"""Files that the options of questions name, such as prices. Bad input ends the process with one line.

To let questions have another sort of files: its name in
`bayplan.answers.insight.question_parameters`, and its reader in `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bayplan.answers.insight.question_parameters import DURATIONS, HISTORY, MODELS, PRICES, RECOMMENDATIONS
from bayplan.faces.cli.insight.messages import fail, warn
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import errors, running
    from bayplan.answers.history import run_times
    from bayplan.answers.insight import answers, durations_file
    from bayplan.answers.insight import prices as node_prices
    from bayplan.answers.insight.recommendations import files as recommendation_files
    from bayplan.foundations import manifest_files


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


def _durations_in(file: str) -> dict[str, Any]:
    try:
        found, problems = durations_file.read_durations(Path(file))
    except durations_file.DurationsFileError as error:
        fail(str(error))
    warn(problems)
    return found


def _run_times_in(folder: str) -> dict[str, list[float]]:
    try:
        return run_times.run_times_seen(running.open_history(folder))
    except errors.BacktestError as error:
        fail(str(error))


def _models_in(file: str) -> dict[str, Any]:
    try:
        document = manifest_files.read_yaml(Path(file))
    except manifest_files.ManifestError as error:
        fail(str(error))
    if not isinstance(document, dict):
        fail(f"--models {file}: expected a mapping")
    return document


READERS: Mapping[str, Callable[[str], Any]] = {
    PRICES: dollars_in,
    RECOMMENDATIONS: recommendations_in,
    DURATIONS: _durations_in,
    HISTORY: _run_times_in,
    MODELS: _models_in,
}
"""What commands call a file -> how it is read"""
