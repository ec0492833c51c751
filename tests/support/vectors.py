"""The tables of upstream's unit tests, as data: inputs and expected values, in files beside their tests."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "bayplan_plugins" / "vectors"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C one is ten times faster, but PyYAML may be built without it."""


def vectors(file: str, table: str) -> dict[str, Any]:
    """The cases of a table by name."""
    found: dict[str, Any] = deepcopy(_tables(file)[table])
    return found


@cache
def _tables(file: str) -> dict[str, Any]:
    text = (FOLDER / f"{file}.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.load(text, LOADER)
    return tables
