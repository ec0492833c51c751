"""Validates values against a schema, with kube-apiserver's messages.

Mirrors kube-openapi's pkg/validation/validate and the errors that apiextensions-apiserver converts its results to.
CEL rules (x-kubernetes-validations) are not evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayplan.core.api.field_errors import (
    FieldError,
    invalid,
    not_supported,
    quoted,
    required,
    too_long,
    too_many,
    type_invalid,
)
from bayplan.core.api.patterns import compile_pattern
from bayplan_devcluster.apiserver.custom.formats import INTEGERS, has_format, known_format
from bayplan_devcluster.apiserver.scalars import go_float
from bayplan_devcluster.apiserver.schema import Object

ABSENT = object()
"""Stands for a missing old value."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a value. `path` is its path in messages; the names of fields in errors begin with `prefix`."""

    path: str = ""
    prefix: str = ""

    def key(self, name: str) -> Place:
        """The place of a field."""
        return Place(f"{self.path}.{name}" if self.path else name, self.prefix)

    def index(self, number: int) -> Place:
        """The place of an element."""
        return Place(f"{self.path}[{number}]", self.prefix)

    @property
    def field(self) -> str:
        """The name of the field in an error."""
        return ".".join(part for part in (self.prefix, self.path) if part) or "<nil>"


def check_value(schema: Object, value: Any, place: Place, old: Any = ABSENT) -> Iterator[FieldError]:
    """Errors of a value under a schema.

    A value that an update does not change (equal to `old`) is valid, because the schema may have changed since.
    """
    if old is not ABSENT and value == old and type(value) is type(old):
        return
    yield from _check_type(schema, value, place)
    if value is not None:
        yield from _check_junctors(schema, value, place)
    if isinstance(value, str):
        yield from _check_text(schema, value, place)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _check_number(schema, value, place)
    elif isinstance(value, list):
        yield from _check_list(schema, value, place)
    yield from _check_enum(schema, value, place)
    if isinstance(value, dict):
        yield from _check_object(schema, value, place, old if isinstance(old, dict) else {})


def _check_type(schema: Object, value: Any, place: Place) -> Iterator[FieldError]:
    types = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else (schema.get("type", ""),)
    if value is None:
        if types != ("",) and not schema.get("nullable"):
            yield _mistyped(place, ",".join(types), "null")
        return
    given = json_type(value)
    whole = given == "number" and float(value).is_integer()
    if types == ("",) or given in types or (given == "integer" and "number" in types) or (whole and "integer" in types):
        return
    format_ = known_format(schema.get("type", ""), schema.get("format", ""))
    if format_ and given not in {"string", "array"}:
        yield _mistyped(place, format_, {"integer": "int64", "number": "float64"}.get(given, ""))
    else:
        yield _mistyped(place, ",".join(types), given)


def json_type(value: Any) -> str:
    """The OpenAPI name of a value's type."""
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _mistyped(place: Place, expected: str, given: str) -> FieldError:
    return type_invalid(place.field, given, f"{place.path} in body must be of type {expected}: {quoted(given)}")


def _check_junctors(schema: Object, value: Any, place: Place) -> Iterator[FieldError]:
    if (choices := schema.get("anyOf")) and (failures := _failures(choices, value, place)) and all(failures):
        yield _without_field(f"{quoted(place.path)} must validate at least one schema (anyOf)")
        yield from min(failures, key=len)
    if choices := schema.get("oneOf"):
        failures = _failures(choices, value, place)
        valid = sum(not found for found in failures)
        if valid != 1:
            count = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _without_field(f"{quoted(place.path)} must validate one and only one schema (oneOf). {count}")
        if not valid:
            yield from min(failures, key=len)
    if choices := schema.get("allOf"):
        failures = _failures(choices, value, place)
        for found in failures:
            yield from found
        if any(failures):
            none = ". None validated" if all(failures) else ""
            yield _without_field(f"{quoted(place.path)} must validate all the schemas (allOf){none}")
    if "not" in schema and not list(check_value(schema["not"], value, place)):
        yield _without_field(f"{quoted(place.path)} must not validate the schema (not)")


def _failures(choices: list[Object], value: Any, place: Place) -> list[list[FieldError]]:
    return [list(check_value(choice, value, place)) for choice in choices]


def _without_field(message: str) -> FieldError:
    """An error without a field, as upstream reports it."""
    return invalid("<nil>", "", message)


def _check_text(schema: Object, value: str, place: Place) -> Iterator[FieldError]:
    if (longest := schema.get("maxLength")) is not None and len(value) > longest:
        yield too_long(place.field, longest)
    if (shortest := schema.get("minLength")) is not None and len(value) < shortest:
        yield _breaks(place, value, f"should be at least {shortest} chars long")
    if (pattern := schema.get("pattern")) and not compile_pattern(pattern).search(value):
        yield _breaks(place, value, f"should match '{pattern}'")
    format_ = known_format(schema.get("type", ""), schema.get("format", ""))
    if format_ and schema.get("type") in {None, "", "string"} and not has_format(value, format_):
        detail = f"{place.path} in body must be of type {format_}: {quoted(value)}"
        yield type_invalid(place.field, value, detail)


def _breaks(place: Place, value: Any, rule: str) -> FieldError:
    return invalid(place.field, value, f"{place.path} in body {rule}")


def _check_number(schema: Object, value: float, place: Place) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind == "integer":
        format_ = known_format(kind, schema.get("format", ""))
        least, greatest = INTEGERS.get(format_, INTEGERS["int64"])
        if not least <= value <= greatest:
            expected = f"with format {format_}" if format_ else "(default format)"
            yield _without_field(f"Checked value must be of type integer {expected} in {place.path}")
    shown = _shown if isinstance(value, int) else go_float
    if (step := schema.get("multipleOf")) and not _is_whole(value / step):
        yield _breaks(place, value, f"should be a multiple of {shown(step)}")
    if (top := schema.get("maximum")) is not None:
        if schema.get("exclusiveMaximum"):
            if value >= top:
                yield _breaks(place, value, f"should be less than {shown(top)}")
        elif value > top:
            yield _breaks(place, value, f"should be less than or equal to {shown(top)}")
    if (bottom := schema.get("minimum")) is not None:
        if schema.get("exclusiveMinimum"):
            if value <= bottom:
                yield _breaks(place, value, f"should be greater than {shown(bottom)}")
        elif value < bottom:
            yield _breaks(place, value, f"should be greater than or equal to {shown(bottom)}")


def _is_whole(number: float) -> bool:
    return math.isinf(number) or abs(number - round(number)) < 1e-9  # the precision of upstream


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else go_float(number)


def _check_list(schema: Object, value: list[Any], place: Place) -> Iterator[FieldError]:
    items = schema.get("items")
    if items is not None:
        for number, item in enumerate(value):
            yield from check_value(items, item, place.index(number))
    if (least := schema.get("minItems")) is not None and len(value) < least:
        yield _breaks(place, len(value), f"should have at least {least} items")
    if (most := schema.get("maxItems")) is not None and len(value) > most:
        yield too_many(place.field, len(value), most)


def _check_enum(schema: Object, value: Any, place: Place) -> Iterator[FieldError]:
    allowed = schema.get("enum")
    if allowed is None or (value is None and schema.get("nullable")):
        return
    if not any(json_type(one) == json_type(value) and one == value for one in allowed):
        names = [one if isinstance(one, str) else quoted(one) for one in allowed]
        yield not_supported(place.field, value, names)


def _check_object(schema: Object, value: Object, place: Place, old: Object) -> Iterator[FieldError]:
    if (least := schema.get("minProperties")) is not None and len(value) < least:
        yield _breaks(place, len(value), f"should have at least {least} properties")
    if (most := schema.get("maxProperties")) is not None and len(value) > most:
        yield too_many(place.field, len(value), most)
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    if isinstance(additional, dict):
        for key, item in value.items():
            if key not in properties:
                yield from check_value(additional, item, place.key(key), old.get(key, ABSENT))
    for key, inner in properties.items():
        if key in value:
            yield from check_value(inner, value[key], place.key(key), old.get(key, ABSENT))
    for key in schema.get("required", ()):
        if key not in value:
            yield required(place.key(key).field)
