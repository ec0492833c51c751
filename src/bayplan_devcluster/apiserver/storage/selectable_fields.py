"""The fields that field selectors can select objects of a kind by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan_devcluster.apiserver.schema import Object

FieldReader = Callable[[Object], str]
"""Returns the value of a field as text."""


@dataclass(frozen=True, slots=True)
class SelectableFields:
    """The selectable fields of a kind, in addition to `metadata.name` and `metadata.namespace`."""

    readers: Mapping[str, FieldReader] = field(default_factory=dict)
    """By name; they read the object in the version that is stored."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The names in requests and the names above, for a kind that is stored as another one."""
    internal: frozenset[str] = frozenset()
    """The fields that only the server uses."""

    def supports(self, name: str) -> bool:
        """Whether a request may select by the field."""
        return name == "metadata.name" or (name in (self.renamed or self.readers) and name not in self.internal)

    def read(self, obj: Object) -> dict[str, str]:
        """Returns the values of all fields of a stored object."""
        metadata = obj["metadata"]
        values = {name: read(obj) for name, read in self.readers.items()}
        values["metadata.name"] = metadata["name"]
        values["metadata.namespace"] = metadata.get("namespace", "")
        return values


def text_fields(*names: str) -> dict[str, FieldReader]:
    """Readers of the fields with these dotted paths; a missing field reads as ""."""
    return {name: read_path(*name.split(".")) for name in names}


def boolean_fields(*names: str) -> dict[str, FieldReader]:
    """Readers of booleans with these dotted paths; a missing field reads as "false"."""
    return {name: _read_boolean(*name.split(".")) for name in names}


def read_path(*keys: str) -> FieldReader:
    """A reader of the field at a path."""
    *parents, last = keys

    def read(obj: Object) -> str:
        for key in parents:
            obj = obj.get(key) or _EMPTY
        value = obj.get(last)
        return value if value.__class__ is str else field_text(value)

    return read


_EMPTY: Object = {}


def _read_boolean(*keys: str) -> FieldReader:
    read = read_path(*keys)
    return lambda obj: read(obj) or "false"


def field_text(value: Any) -> str:
    """A value as field selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
