"""What tables are made of: columns, ages, and the few texts that several kinds show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bayplan.devcluster.apiserver.clock import parse_timestamp
from bayplan.devcluster.apiserver.documentation import describe
from bayplan.devcluster.apiserver.schema import Object

Cells = Callable[[Object, datetime], list[Any]]
"""(object, the time) -> its row."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `about` names the field that it shows, as `module.Type.field` of the models, or describes it."""

    name: str
    about: str
    type: str = "string"
    wide: bool = False
    """Whether it is shown with `-o wide` only."""
    format: str = ""

    def definition(self) -> Object:
        """As a Table carries it."""
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
    """A column that can say what it is."""

    def definition(self) -> Object:
        """As a Table carries it."""
        ...


Table = tuple[tuple[Described, ...], Cells]
"""The columns of a kind, and what fills them."""

NAME = Column("Name", "meta_v1.ObjectMeta.name", format="name")
AGE = Column("Age", "meta_v1.ObjectMeta.creationTimestamp")


def age(obj: Object, now: datetime) -> str:
    """How long ago an object was created."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(moment: str | None, now: datetime) -> str:
    """How long ago something was."""
    return "<unknown>" if not moment else duration((now - parse_timestamp(moment)).total_seconds())


def duration(seconds: float) -> str:
    """A duration in two units at most. Mirrors HumanDuration of apimachinery's pkg/util/duration."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, subunit: str) -> str:
    return f"{large}{unit}{small}{subunit}" if small else f"{large}{unit}"


def names_and_images(spec: Object) -> tuple[str, str]:
    """The containers of a pod spec, and their images."""
    containers = spec.get("containers") or ()
    return ",".join(one["name"] for one in containers), ",".join(one.get("image", "") for one in containers)


def label_text(labels: dict[str, str] | None) -> str:
    """Labels in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: Object | None) -> str:
    """A LabelSelector in one line."""
    if not selector:
        return "<none>"
    terms = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for one in selector.get("matchExpressions", ()):
        values = ",".join(one.get("values", ()))
        forms = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})", "Exists": one["key"]}
        terms.append(forms.get(one["operator"], f"!{one['key']}"))
    return ",".join(terms) or "<none>"


def condition(conditions: Sequence[Object], kind: str) -> Object:
    """The condition of that type, empty if there is none."""
    return next((one for one in conditions if one["type"] == kind), {})
