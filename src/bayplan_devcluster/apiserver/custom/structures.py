"""Validates the list types and the embedded resources of a schema.

Mirrors apiextensions-apiserver's pkg/apiserver/schema/listtype and objectmeta.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import FieldError, duplicate, invalid, required
from bayplan.core.api.names import name_errors
from bayplan_devcluster.apiserver.custom.values import Place
from bayplan_devcluster.apiserver.schema import Object

EMBEDDED = "x-kubernetes-embedded-resource"


def check_structure(schema: Object, value: Any, place: Place) -> Iterator[FieldError]:
    """Errors of the lists and embedded resources in a value."""
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            yield from _check_embedded(value, place)
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for key, item in value.items():
            inner = properties.get(key, additional)
            if isinstance(inner, dict):
                yield from check_structure(inner, item, place.key(key))
    elif isinstance(value, list):
        yield from _check_list(schema, value, place)
        for number, item in enumerate(value):
            yield from check_structure(schema.get("items", {}), item, place.index(number))


def _check_list(schema: Object, value: list[Any], place: Place) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type", "atomic")
    if kind == "atomic":
        return
    seen: set[str] = set()
    for number, item in enumerate(value):
        shown = item if kind == "set" else identity(schema, item)
        if shown is None:
            detail = "must be an object for an array of list-type map"
            yield invalid(place.index(number).field, item, detail)
            continue
        written = json.dumps(shown, sort_keys=True)
        if written in seen:
            yield duplicate(place.index(number).field, shown)
        seen.add(written)


def identity(schema: Object, item: Any) -> Object | None:
    """The values of the keys of an element of a list map; None if the element is not an object."""
    if not isinstance(item, dict):
        return None
    keys = schema.get("x-kubernetes-list-map-keys", ())
    defaults = schema.get("items", {}).get("properties", {})
    found = {key: item.get(key, defaults.get(key, {}).get("default")) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


def _check_embedded(value: Object, place: Place) -> Iterator[FieldError]:
    for field in ("apiVersion", "kind"):
        where = place.key(field).field
        if field not in value:
            yield required(where)
        elif not isinstance(value[field], str):
            yield invalid(where, value[field], "must be a string")
        elif not value[field]:
            yield invalid(where, "", "must not be empty")
        elif field == "kind":
            errors = name_errors(value[field].lower(), "label1035")
            if errors:
                detail = f"may have mixed case, but should otherwise match: {','.join(errors)}"
                yield invalid(where, value[field], detail)
