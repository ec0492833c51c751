"""Server-side apply: merges a configuration into an object, by the list types of the API's types or of a schema.

Ownership of fields is not recorded: nothing conflicts, and a field that a later configuration leaves out stays.
Mirrors structured-merge-diff's typed merge. Functions return new values and don't change their arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from bayplan.core.api.type_table import Field, member
from bayplan_devcluster.apiserver.schema import Object


class Structure(Protocol):
    """How a type or a schema merges the values at one path of an object."""

    @property
    def merge(self) -> str:
        """`set`, `map` (of elements with keys) or `atomic` for a list; `atomic` or "" (key by key) for an object."""
        ...

    def identity(self, element: Any) -> Any:
        """The values of the keys that identify an element of a `map`; None if it is not an object."""
        ...

    def element(self) -> Structure:
        """The structure of a list's elements."""
        ...

    def member(self, key: str) -> Structure:
        """The structure of the value under a key of an object."""
        ...


def merge(structure: Structure, value: Any, change: Any) -> Any:
    """The value with a change merged into it. Null removes a key of an object."""
    if isinstance(change, dict) and isinstance(value, dict) and structure.merge != "atomic":
        merged = dict(value)
        for key, item in change.items():
            if item is None:
                merged.pop(key, None)
            else:
                merged[key] = merge(structure.member(key), merged.get(key), item)
        return merged
    if isinstance(change, list) and isinstance(value, list):
        if structure.merge == "set":
            return value + [item for item in change if item not in value]
        if structure.merge == "map":
            return _merge_elements(structure, value, change)
    return change


def _merge_elements(structure: Structure, value: list[Any], change: list[Any]) -> list[Any]:
    merged = list(value)
    places = {repr(structure.identity(item)): place for place, item in enumerate(merged)}
    for item in change:
        place = places.setdefault(repr(structure.identity(item)), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = merge(structure.element(), merged[place], item)
    return merged


@dataclass(frozen=True, slots=True)
class TypedStructure:
    """The structure of a value of an API type."""

    field: Field

    @property
    def merge(self) -> str:
        """As the API declares it."""
        return self.field.merge

    def identity(self, element: Any) -> Any:
        """With the API's defaults for missing keys."""
        if not isinstance(element, dict):
            return None
        kind = self.field.type.removeprefix("[]")
        return [element.get(key, (member(kind, key) or _UNKNOWN).default) for key in self.field.keys]

    def element(self) -> TypedStructure:
        """By the type of the elements."""
        return TypedStructure(Field(self.field.type.removeprefix("[]")))

    def member(self, key: str) -> TypedStructure:
        """By the type's field."""
        return TypedStructure(member(self.field.type, key) or _UNKNOWN)


_UNKNOWN = Field("any")


def apply_configuration(model: str, obj: Object, configuration: Object) -> Object:
    """The object with the configuration merged into it. `model`: the object's type in the table of types."""
    merged: Object = merge(TypedStructure(Field(model)), obj, configuration)
    return merged
