"""The types of the Kubernetes API, as the table `api_types.json` has them.

The table is generated from the sources of 1.36: `python tools/api_tables.py /path/to/kubernetes`. Types that 1.37 adds,
or gives more fields, are in `api_types_1.37.json`. Bodies in protobuf can't have the fields there that have no number.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

METADATA = "meta_v1.ObjectMeta"
"""The type of every object's metadata."""


class Field(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field of a type."""

    type: str
    """`string`, `bool`, `int32`, `int64`, `float64`, `bytes`, `Quantity`, `IntOrString`, `Time`, `MicroTime`, `object`
    (without a schema), `any`, `JSONSchemaPropsOr...`, or the name of a type in the table, such as `core_v1.Pod`.
    The prefix `[]` means a list, and `{}` a map from strings.
    """
    number: int = 0
    """The field's number in protobuf, 0 if it has none."""
    go: str = ""
    """What Go's error messages call the type, if `go_name` does not say so."""
    empty: Literal["", "kept", "null", "zero"] = ""
    """What is written for a missing value: nothing for "" and `kept`, `null`, or the zero value of the type.
    With "", the values 0, false and "" are left out as well.
    """
    patch: str = ""
    """The strategies of strategic merge patches: `merge`, `replace`, `retainKeys` or `merge,retainKeys`."""
    patch_key: str = ""
    """The key that such a patch merges the elements of a list by, "" for a list of plain values."""
    merge: Literal["", "set", "map", "atomic"] = ""
    """How server-side apply merges the value: "" means field by field, and for a list as a whole."""
    keys: tuple[str, ...] = ()
    """The keys that tell the elements of a `map` apart."""
    required: bool = False
    """Whether OpenAPI calls the field required."""
    enum: dict[str, str] = {}
    """The possible values of the string, or of the strings in the list, if OpenAPI names them, with their meanings."""
    default: str = ""
    """The string that the API writes for a missing one."""

    @property
    def go_type(self) -> str:
        """The name of the type in Go's error messages: `[]v1.Container`."""
        return self.go or go_name(self.type)


Fields = dict[str, Field]
"""A type's fields by JSON name. A name like `+core_v1.VolumeSource` stands for a protobuf message whose fields
are fields of the type itself in JSON.
"""


def go_name(kind: str) -> str:
    """Go's name for a type of the table: `core_v1.Pod` is `v1.Pod`."""
    if kind.startswith("[]"):
        return "[]" + go_name(kind[2:])
    if kind.startswith("{}"):
        return "map[string]" + go_name(kind[2:])
    return {"bytes": "[]uint8", "Quantity": "resource.Quantity", "Time": "v1.Time"}.get(kind, kind.rpartition("_")[2])


@cache
def table() -> dict[str, Fields]:
    """All types, with the fields that either version has."""
    types = _read("api_types.json")
    for name, fields in _read("api_types_1.37.json").items():
        types[name] = types.get(name, {}) | fields
    return types


def _read(file: str) -> dict[str, Fields]:
    return msgspec.json.decode(files(__package__).joinpath(file).read_bytes(), type=dict[str, Fields])


@cache
def fields_of(name: str) -> Fields:
    """The fields of a type as its JSON has them. KeyError if the table lacks the type."""
    flat: Fields = {}
    for key, field in table()[name].items():
        flat |= fields_of(field.type) if key.startswith("+") else {key: field}
    return flat


def member(kind: str, key: str) -> Field | None:
    """The field under a key of a value of a type; None if the type has no such field, or no fields at all."""
    if kind.startswith("{}"):
        return Field(kind[2:])
    return fields_of(kind).get(key) if kind in table() else None
