"""The tables of custom resources, from the printer columns of their definitions.

Mirrors apiextensions-apiserver's pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bayplan.devcluster.apiserver.api_types import METADATA
from bayplan.devcluster.apiserver.custom.jsonpath import Find, InvalidPath, compile_path
from bayplan.devcluster.apiserver.custom.values import go_float
from bayplan.devcluster.apiserver.documentation import describe
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import NAME, Table, since

AGE_ALONE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
"""The column of definitions without printer columns."""

_Cell = Callable[[Any, datetime], Any]


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A printer column of a definition, with functions that find and format its cells."""

    described: Object
    find: Find
    cell: _Cell

    def definition(self) -> Object:
        """The column definition in a Table."""
        path = self.described["jsonPath"]
        return {
            "name": self.described["name"],
            "type": self.described["type"],
            "format": self.described.get("format", ""),
            "description": self.described.get("description")
            or f"Custom resource definition column (in JSONPath format): {path}",
            "priority": self.described.get("priority", 0),
        }


def table_of(columns: Sequence[Object]) -> Table:
    """The table of a version with these additionalPrinterColumns.

    Like upstream, a column with an unsupported path ends the list: it and the columns after it are left out.
    """
    shown: list[PrinterColumn] = []
    for column in columns or [{**AGE_ALONE, "description": describe(METADATA, "creationTimestamp")}]:
        try:
            find = compile_path(column["jsonPath"])
        except InvalidPath:
            break
        shown.append(PrinterColumn(column, find, _CELLS.get(column["type"], _text)))

    def cells(obj: Object, now: datetime) -> list[Any]:
        row: list[Any] = [obj["metadata"]["name"]]
        for one in shown:
            found = one.find(obj)
            row.append(one.cell(found[0], now) if found and found[0] is not None else None)
        return row

    return (NAME, *shown), cells


def _text(value: Any, _now: datetime) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _integer(value: Any, _now: datetime) -> Any:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: Any, _now: datetime) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> Any:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return since(value, now)
    except (ValueError, TypeError):  # not a date, or one without a time zone
        return "<invalid>"


_CELLS: dict[str, _Cell] = {"integer": _integer, "number": _number, "boolean": _boolean, "date": _date}
