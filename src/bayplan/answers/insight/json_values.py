"""Answers, and the parts of answers, as JSON-compatible values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from bayplan.core.api.names import camel


def fields_of(obj: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON-compatible values, with names in camel case.

    `shown` is left out: it says how much of an answer a terminal shows.
    """
    names = [field.name for field in fields(obj) if field.name not in {"shown", *without}]
    return {camel(name): as_json(getattr(obj, name)) for name in names}


def as_json(value: Any) -> Any:
    """Return a value of an answer as JSON-compatible values: with its `to_dict` if it has one, else by its fields."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value
