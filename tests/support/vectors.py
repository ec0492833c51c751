"""The tables of upstream's unit tests, as data: inputs and expected values, in files beside their tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "bayplan_plugins" / "vectors"


def vectors(file: str, table: str) -> dict[str, Any]:
    """The cases of a table by name."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{file}.yaml").read_text(encoding="utf-8"))[table]
    return found
