"""Quantities that are written as numbers, as in `cpu: 4`. Kubernetes takes them, and returns them as strings.

The fields that are quantities come from the table of the API's types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import re2  # type: ignore[import-untyped]  # has no types

from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.core.api.type_table import fields_of, table

_QUANTITY = "Quantity"


def with_text_quantities(kind: Kind, raw: bytes) -> bytes:
    """An object's JSON with strings for quantities that are numbers. Raises msgspec.MsgspecError for malformed JSON."""
    if not kind.model or kind.model not in table() or _may_have_numbers().search(raw) is None:
        return raw
    document = msgspec.json.decode(raw)
    return encode(_converted(kind.model, document))


def _converted(kind: str, value: Any) -> Any:
    """A value of a type of the table with strings for the numbers in its quantities."""
    if kind == _QUANTITY:
        return str(value) if type(value) in {int, float} else value
    if kind.startswith("[]") and isinstance(value, list):
        return [_converted(kind[2:], item) for item in value]
    if kind.startswith("{}") and isinstance(value, dict):
        return {key: _converted(kind[2:], item) for key, item in value.items()}
    if kind not in _with_quantities() or not isinstance(value, dict):
        return value
    fields = fields_of(kind)
    return {key: _converted(fields[key].type, item) if key in fields else item for key, item in value.items()}


@cache
def _may_have_numbers() -> Any:
    """A pattern for JSON that may have a number for a quantity. RE2 takes microseconds for a pod."""
    names = {
        name for kind, fields in table().items() for name, field in fields.items() if field.type.endswith(_QUANTITY)
    }
    return re2.compile(rf'"(?:{"|".join(sorted(names))})"\s*:\s*(?:[\[{{][^\]}}]*[:,\[]\s*)?[-0-9]'.encode())


@cache
def _with_quantities() -> frozenset[str]:
    """The types of the table that are quantities or have some inside."""
    found = {_QUANTITY}
    while True:
        more = {
            kind
            for kind, fields in table().items()
            if kind not in found and any(field.type.lstrip("[]{}+") in found for field in fields.values())
        }
        if not more:
            return frozenset(found)
        found |= more
