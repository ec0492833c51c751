"""Columns, ages, and the cells that several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bayplan.api.durations import human
from bayplan.devcluster.apiserver.documentation import describe
from bayplan.devcluster.apiserver.schema import Object

Cells = Callable[[Object, datetime], list[Any]]
"""(object, current time) -> the cells of its row."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `about` is its description, or a field that has it, such as `core_v1.PodSpec.nodeName`."""

    name: str
    about: str
    type: str = "string"
    wide: bool = False
    """Whether the column is shown with `-o wide` only."""
    format: str = ""

    def definition(self) -> Object:
        """The column definition in a Table."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self._description(),
            "priority": 1 if self.wide else 0,
        }

    def _description(self) -> str:
        kind, _, field = self.about.rpartition(".")
        return describe(kind, field) if " " not in self.about and "." in kind else self.about


class Described(Protocol):
    """A column with a definition."""

    def definition(self) -> Object:
        """The column definition in a Table."""
        ...


Table = tuple[tuple[Described, ...], Cells]
"""The columns of a kind, and the function that returns the cells of a row."""

NAME = Column("Name", "meta_v1.ObjectMeta.name", format="name")
AGE = Column("Age", "meta_v1.ObjectMeta.creationTimestamp")


def age(obj: Object, now: datetime) -> str:
    """The age of an object."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(moment: str | None, now: datetime) -> str:
    """The time since a moment, `<unknown>` if there is none."""
    return "<unknown>" if not moment else human((now - datetime.fromisoformat(moment)).total_seconds())


def names_and_images(spec: Object) -> tuple[str, str]:
    """The names of the containers of a pod spec, and their images."""
    containers = spec.get("containers") or ()
    return ",".join(one["name"] for one in containers), ",".join(one.get("image", "") for one in containers)


def label_text(labels: dict[str, str] | None) -> str:
    """Labels as one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: Object | None) -> str:
    """A LabelSelector as one line."""
    if not selector:
        return "<none>"
    terms = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for one in selector.get("matchExpressions", ()):
        values = ",".join(one.get("values", ()))
        forms = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})", "Exists": one["key"]}
        terms.append(forms.get(one["operator"], f"!{one['key']}"))
    return ",".join(terms) or "<none>"


def condition(conditions: Sequence[Object], kind: str) -> Object:
    """The condition of a type, {} if there is none."""
    return next((one for one in conditions if one["type"] == kind), {})
