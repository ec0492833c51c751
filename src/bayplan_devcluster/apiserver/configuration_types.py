"""Checks the types of the values in a configuration for server-side apply.

Mirrors structured-merge-diff's typed/validate.go. The values in messages are written as JSON, not in Go's syntax.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import quoted
from bayplan.core.api.type_table import Field, fields_of, member, table
from bayplan_devcluster.apiserver.schema import Object

_SCALARS: dict[str, tuple[str, tuple[type, ...]]] = {
    "bool": ("boolean", (bool,)),
    "int32": ("numeric (int or float)", (int, float)),
    "int64": ("numeric (int or float)", (int, float)),
    "float64": ("numeric (int or float)", (int, float)),
    "string": ("string", (str,)),
    "bytes": ("string", (str,)),
    "Time": ("string", (str,)),
    "MicroTime": ("string", (str,)),
    "Quantity": ("any scalar", (str, int, float, bool)),
    "IntOrString": ("any scalar", (str, int, float, bool)),
}
"""By type: what it is called, and the Python types of its values."""


def type_problem(model: str, configuration: Object) -> str:
    """The errors of the values of a type in the table of types, as kube-apiserver lists them; "" if there are none."""
    body = {key: value for key, value in configuration.items() if key not in {"apiVersion", "kind"}}
    errors = list(_errors(Field(model), body, ""))
    return (
        errors[0] if len(errors) == 1 else "".join(("errors:", *(f"\n  {error}" for error in errors)) if errors else ())
    )


def _errors(field: Field, value: Any, path: str) -> Iterator[str]:
    kind = field.type
    if value is None:
        return
    if kind.startswith("[]"):
        yield from _list_errors(field, value, path)
    elif kind in _SCALARS:
        name, types = _SCALARS[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            yield f"{path}: expected {name}, got {quoted(value)}"
    elif kind.startswith("{}") or kind in table():
        yield from _map_errors(kind, value, path)


def _map_errors(kind: str, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {quoted(value)}"
        return
    declared = None if kind.startswith("{}") else fields_of(kind)
    for key, item in value.items():
        if declared is not None and key not in declared:
            yield f"{path}.{key}: field not declared in schema"
        elif (below := member(kind, key)) is not None:
            yield from _errors(below, item, f"{path}.{key}")


def _list_errors(field: Field, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got {quoted(value)}"
        return
    element, seen = field.type[2:], set()
    for index, item in enumerate(value):
        at = f"[{index}]"
        if field.merge in {"map", "set"}:
            at = _identity(field, element, item)
            if not at.startswith("["):
                yield f"{path}: element {index}: {at}"
                return  # like upstream, which can't name the elements that follow
            if at in seen:
                yield f"{path}: duplicate entries for key {at}"
            seen.add(at)
        yield from _errors(Field(element), item, f"{path}{at}")


def _identity(field: Field, element: str, item: Any) -> str:
    """The name of an element of an associative list in messages, or the error of one that has none."""
    null = "has an element that's an explicit null"
    if field.merge == "set":
        if item is None:
            return f"associative list without keys {null}"
        if isinstance(item, (list, dict)):
            what = "list" if isinstance(item, list) else "map"
            return f"associative list without keys has an element that's a {what} type"
        return f"[={quoted(item)}]"
    if item is None:
        return f"associative list with keys {null}"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    keys = {key: member(element, key) or Field("any") for key in field.keys}
    given = {
        key: item.get(key, of.default) for key, of in keys.items() if key in item or of.default or of.empty == "zero"
    }
    if not given:
        names = " ".join(quoted(key) for key in field.keys)
        return (
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"[{','.join(f'{key}={quoted(value)}' for key, value in sorted(given.items()))}]"
