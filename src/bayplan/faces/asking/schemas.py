"""JSON Schemas of questions, as programs that generate clients read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct


def schemas_of(types: Iterable[type[Struct]], template: str) -> dict[str, Any]:
    """Return the schemas of types and of the types in them, by name. `template`: a reference to `{name}`."""
    _, schemas = msgspec.json.schema_components(list(types), ref_template=template)
    found: dict[str, Any] = _generatable(schemas)
    return found


def _generatable(schema: Any) -> Any:
    """The schema with an array of a fixed length in place of a tuple, whose `items` are `false`."""
    if isinstance(schema, list):
        return [_generatable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _generatable(value) for key, value in schema.items()}
    places = found.pop("prefixItems", None)
    if places is not None:
        (found["items"], *others) = places
        if any(each != found["items"] for each in others):
            raise TypeError("the places of a tuple have different types, which generators of clients can't read")
    return found
