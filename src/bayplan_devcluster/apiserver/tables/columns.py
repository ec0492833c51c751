"""Columns of tables: where their values are in an object, and how they are shown.

Those of built-in kinds are in `tables.json`, those of custom resources in the definitions. Mirrors
apiextensions-apiserver's pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import msgspec

from bayplan_devcluster.apiserver.jsonpath import Find, InvalidPath, compile_path
from bayplan_devcluster.apiserver.model_schemas import describe
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.tables.cells import CELLS

_TYPES = frozenset({"integer", "number", "boolean", "date"})
"""The types of printer columns that have cells of their own."""

_OF_ALL = frozenset({"all", "listed"})
"""The cells that show all values at a path, and not the first one."""


class Column(msgspec.Struct, dict=True, rename={"show": "as", "empty": "or"}):
    """A column of a table."""

    name: str
    description: str = ""
    field: str = ""
    """The field that has the description if the column has none, such as `core_v1.PodSpec.nodeName`."""
    path: str = ""
    """The JSON path of the value, "" for the whole object."""
    show: str = ""
    """The name of the function in CELLS that shows the value, "" to show it as it is."""
    empty: Any = ""
    """What is shown without a value."""
    type: str = "string"
    format: str = ""
    priority: int = 0
    """1 for a column that is shown with `-o wide` only."""

    @cached_property
    def find(self) -> Find:
        """Finds the values in an object. Raises InvalidPath."""
        return compile_path(self.path)

    def definition(self) -> Object:
        """The column definition in a Table."""
        kind, _, field = self.field.rpartition(".")
        description = self.description or describe(kind, field)
        what = {"name": self.name, "type": self.type, "format": self.format}
        return {**what, "description": description, "priority": self.priority}

    def cell(self, obj: Object, now: datetime) -> Any:
        """The cell in the row of an object."""
        found = self.find(obj)
        value = found if self.show in _OF_ALL else found[0] if found else None
        shown = CELLS[self.show](value, now) if value is not None else None
        return self.empty if shown is None or shown == "" else shown


Columns = tuple[Column, ...]


class _Tables(msgspec.Struct):
    common: dict[str, Column]
    tables: dict[str, tuple[Column | str, ...]]
    """The columns by the kind's resource, `scale` for that subresource, and "" for all other kinds. A string is the
    name of a common column.
    """


@cache
def tables() -> dict[str, Columns]:
    """The columns of the built-in kinds by resource, such as `deployments.apps`."""
    read = msgspec.json.decode(files(__package__).joinpath("tables.json").read_bytes(), type=_Tables)
    return {
        resource: tuple(read.common[one] if isinstance(one, str) else one for one in columns)
        for resource, columns in read.tables.items()
    }


def columns_of(resource: str) -> Columns:
    """The columns of a built-in kind."""
    return tables().get(resource) or tables()[""]


def custom_columns(defined: Sequence[Object]) -> Columns:
    """The columns of a version with these additionalPrinterColumns.

    Like upstream, a column with an unsupported path ends the list: it and the columns after it are left out.
    """
    name, age = tables()[""]
    if not defined:
        return name, Column(age.name, field=age.field, path=age.path, show="date", type="date")
    columns = [name]
    for one in defined:
        path, kind = one["jsonPath"], one["type"]
        column = Column(
            one["name"],
            one.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
            path=path,
            show=kind if kind in _TYPES else "json_text",
            empty=None,
            type=kind,
            format=one.get("format", ""),
            priority=one.get("priority", 0),
        )
        try:
            _ = column.find
        except InvalidPath:
            break
        columns.append(column)
    return tuple(columns)
