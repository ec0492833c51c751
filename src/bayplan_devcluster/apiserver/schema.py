"""Decodes JSON bodies of the API's types as Go does: checks the types of values, reports unknown fields, and writes
values in the form in which kube-apiserver returns them.

The functions that do this are built for each type at first use, from the table of types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from bayplan.core.api.kinds import Kind
from bayplan.core.api.type_table import METADATA, fields_of, go_name
from bayplan_devcluster.apiserver.scalars import (
    Normalize,
    base64_bytes,
    boolean,
    floating,
    int_or_string,
    integer,
    mismatch,
    quantity,
    text,
    time,
)

Object = dict[str, Any]
"""A decoded JSON object. The storage keeps objects without the empty fields that the API leaves out."""

_SCHEMA = "apiextensions_v1.JSONSchemaProps"


def normalize(kind: Kind, body: Object) -> tuple[Object, list[str]]:
    """The body in the form in which it is stored, without `kind` and `apiVersion`, and the paths of its unknown fields.

    The result shares nothing with the body. Raises Mismatch.
    """
    unknown: list[str] = []
    done = _struct(kind.model)(body, "", unknown)
    done.pop("kind", None)
    done.pop("apiVersion", None)
    return done, unknown


def normalize_metadata(metadata: Any, unknown: list[str]) -> Object:
    """An object's metadata in the form in which it is stored; adds the paths of unknown fields. Raises Mismatch."""
    done: Object = _struct(METADATA)(metadata, "metadata", unknown)
    return done


@cache
def _struct(kind: str, owner: str = "") -> Normalize:
    """Normalizes a struct that is the value of a field of the type `owner`."""
    fields: dict[str, Normalize] = {}
    zeros: dict[str, Normalize] = {}

    def normalize_struct(value: Any, path: str, unknown: list[str]) -> Any:
        if not fields:  # on first use, because types refer to themselves
            _plan(kind, fields, zeros)
        if value.__class__ is not dict:
            raise mismatch(value, path, go_name(kind), owner)
        done: Object = {}
        prefix = f"{path}." if path else ""
        for key, given in value.items():
            field = fields.get(key)
            if field is None:
                unknown.append(prefix + key)
            elif given is not None:
                item = field(given, prefix + key, unknown)
                if item is not None:
                    done[key] = item
        for key, zero in zeros.items():
            if key not in done:
                done[key] = zero({}, prefix + key, unknown)
        return done

    return normalize_struct


def _plan(kind: str, fields: dict[str, Normalize], zeros: dict[str, Normalize]) -> None:
    """Fills in how each field of a struct is normalized, and what is written for missing fields."""
    owner = kind.rpartition(".")[2]
    for name, field in fields_of(kind).items():
        fields[name] = _value(field.type, field.go_type, owner, keep=bool(field.empty))
        if field.empty == "zero":
            zeros[name] = _zero(field.type)
        elif field.empty == "null":
            zeros[name] = _null


def _value(kind: str, go: str, owner: str, *, keep: bool) -> Normalize:
    """Normalizes a value of a type that Go calls `go`. The result is None for what is left out.

    `keep`: an empty scalar is kept.
    """
    if kind.startswith("[]"):
        return _list(kind[2:], go, owner)
    if kind.startswith("{}"):
        return _map(kind[2:], go, owner)
    match kind:
        case "string":
            return text(go, owner, keep_empty=keep)
        case "bytes":
            return base64_bytes(go, owner, keep_empty=keep)
        case "int32" | "int64":
            return integer(go, owner, bits=int(kind[3:]), keep_zero=keep)
        case "float64":
            return floating(owner)
        case "bool":
            return boolean(go, owner, keep_false=keep)
        case "Quantity":
            return quantity
        case "IntOrString":
            return int_or_string
        case "Time" | "MicroTime":
            return time(fraction=kind == "MicroTime")
        case "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray":
            return _schema_or_other
        case "any" | "object":
            return _anything
        case _:
            return _struct(kind, owner)


def _null(_value: Any, _path: str, _unknown: list[str]) -> Any:
    return None


_ZEROS: dict[str, Any] = {"string": "", "int32": 0, "int64": 0, "float64": 0, "bool": False, "IntOrString": 0,
                          "Quantity": "0"}  # fmt: skip


def _zero(kind: str) -> Normalize:
    """The zero value of a type, as a function that ignores its first argument."""
    if kind in _ZEROS:
        zero = _ZEROS[kind]
        return lambda _value, _path, _unknown: zero
    if kind.startswith(("[]", "{}")) or "." not in kind:
        return _null
    normalize_struct = _struct(kind)
    return lambda _value, path, unknown: normalize_struct({}, path, unknown)


def _list(element: str, go: str, owner: str) -> Normalize:
    item, zero = _value(element, go[2:], owner, keep=True), _zero(element)

    def normalize_list(value: Any, path: str, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise mismatch(value, path, go, owner)
        return [
            (zero if one is None else item)(one, f"{path}[{index}]", unknown) for index, one in enumerate(value)
        ] or None

    return normalize_list


def _map(element: str, go: str, owner: str) -> Normalize:
    item_go = go.partition("]")[2] if go.startswith("map[") else go_name(element)
    item, zero = _value(element, item_go, owner, keep=True), _zero(element)
    keyed = "." in element  # Go's messages name the keys of structs only

    def normalize_map(value: Any, path: str, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise mismatch(value, path, go, owner)
        return {
            key: (zero if one is None else item)(one, f"{path}.{key}" if keyed else path, unknown)
            for key, one in value.items()
        } or None

    return normalize_map


def _schema_or_other(value: Any, path: str, unknown: list[str]) -> Any:
    """A schema, or what JSON schemas have in place of one: a list of schemas or strings, or a boolean."""
    if isinstance(value, list):
        return [_schema_or_other(one, f"{path}[{index}]", unknown) for index, one in enumerate(value)]
    return value if isinstance(value, (bool, str)) else _struct(_SCHEMA)(value, path, unknown)


def _anything(value: Any, _path: str, _unknown: list[str]) -> Any:
    return value
