"""Kinds that the server only stores, because nothing in the embedded cluster acts on them.

They have no code of their own: the table of types says which fields are required and which values are possible. Each
write returns a warning that says what doesn't happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bayplan.core.api.field_errors import FieldError, join, not_supported, required
from bayplan.core.api.kinds import Kind
from bayplan.core.api.type_table import fields_of, table
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.strategy import Strategy


def stored(kind: Kind, why: str) -> Strategy:
    """The strategy of a kind that is only stored. `why` ends the warning `stored; ...`."""
    warning = f"stored; {why}"
    return Strategy(validate=partial(check_by_schema, kind.model), warn=lambda _obj: (warning,))


def check_by_schema(model: str, obj: Object) -> Iterator[FieldError]:
    """Yields the required strings that an object lacks, and strings that are none of the possible values."""
    for kind, part, where in _objects(model, obj):
        if where.partition(".")[0] in {"metadata", "status"}:
            continue
        for key, field in fields_of(kind).items():
            value, at = part.get(key), join(where, key)
            if field.required and field.type == "string" and not value:
                yield required(at)
            elif field.enum and isinstance(value, str) and value not in field.enum:
                yield not_supported(at, value, sorted(field.enum))
            elif field.enum and isinstance(value, list):
                for index, item in enumerate(value):
                    if item not in field.enum:
                        yield not_supported(f"{at}[{index}]", item, sorted(field.enum))


def _objects(model: str, value: Any, where: str = "") -> Iterator[tuple[str, Object, str]]:
    """Yields the objects in a value of a type, the outer ones first: their types, the objects and their paths."""
    if model.startswith("[]"):
        for index, item in enumerate(value):
            yield from _objects(model[2:], item, f"{where}[{index}]")
    elif model.startswith("{}"):
        for key, item in value.items():
            yield from _objects(model[2:], item, f"{where}[{key}]")
    elif isinstance(value, dict) and model in table():
        yield model, value, where
        for key, field in fields_of(model).items():
            if value.get(key) is not None:
                yield from _objects(field.type, value[key], join(where, key))
