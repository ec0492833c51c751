"""Decodes plain values into typed ones, and reports all errors: unknown fields, wrong types, values out of range.

Invalid values count as missing, so that the rest can be decoded and validated. As in Go, null is a field's empty value.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.suggestions import or_known

T = TypeVar("T")

_UNUSABLE: Any = object()
"""Marks an invalid value that has no substitute."""

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "a mapping of fields",
}


def decode(document: Any, cls: type[T], path: str = "") -> tuple[T | None, list[FieldError]]:
    """A document as a value of a msgspec type or dataclass, and all errors, with paths below `path`.

    The value is made from the valid fields; it is None where these aren't enough for one.
    """
    decoder = _Decoder()
    clean = decoder.clean(document, cls, path)
    if clean is _UNUSABLE:
        return None, decoder.faults
    try:
        return msgspec.convert(clean, cls, strict=True), decoder.faults
    except msgspec.ValidationError as error:
        if not decoder.faults:
            decoder.faults.append(_from_msgspec(error, path))
        return None, decoder.faults


class _Field(NamedTuple):
    type: Any
    required: bool


class _Decoder:
    """Walks a value along with its type: into the fields of structs and dataclasses, and into lists and dictionaries.

    msgspec checks values of other types.
    """

    def __init__(self) -> None:
        self.faults: list[FieldError] = []

    def clean(self, value: Any, wanted: Any, path: str) -> Any:
        """The value without its invalid parts, or _UNUSABLE."""
        before = len(self.faults)
        plain = _plain(wanted)
        origin = get_origin(plain) or plain
        if value is None:
            if NoneType in get_args(wanted):
                return None
            value = {} if fields_of(plain) is not None else None
        if fields_of(plain) is not None:
            clean = self._clean_fields(value, plain, path)
        elif origin is list:
            clean = self._clean_list(value, plain, path)
        elif origin is dict:
            clean = self._clean_dict(value, plain, path)
        elif plain is Any:
            return _without_nulls(value)
        else:
            return self._leaf(value, wanted, path)
        if len(self.faults) == before and clean is not _UNUSABLE:
            try:  # checks of the whole value: its length, its __post_init__
                msgspec.convert(clean, wanted, strict=True)
            except msgspec.ValidationError as error:
                self.faults.append(_from_msgspec(error, path))
                return _UNUSABLE
        return clean

    def _clean_fields(self, value: Any, wanted: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            return self._reject(value, dict, path)
        fields = fields_of(wanted)
        assert fields is not None
        clean: dict[str, Any] = {}
        for name, item in value.items():
            name = _key(name)  # noqa: PLW2901 - YAML may have made a number of it
            where = field_errors.join(path, name)
            if name not in fields:
                self.faults.append(FieldError(where, f"unknown field{or_known(name, tuple(fields))}"))
            elif item is not None:
                clean[name] = self._or_filler(self.clean(item, fields[name].type, where), fields[name])
        for name, field in fields.items():
            if not field.required or (name in clean and clean[name] is not _UNUSABLE):
                continue
            if name not in clean:
                self.faults.append(field_errors.required(field_errors.join(path, name)))
            clean[name] = _filler(field.type)
            if clean[name] is _UNUSABLE:
                return _UNUSABLE
        return {name: item for name, item in clean.items() if item is not _UNUSABLE}

    def _or_filler(self, value: Any, field: _Field) -> Any:
        return _filler(field.type) if value is _UNUSABLE and field.required else value

    def _clean_list(self, value: Any, wanted: Any, path: str) -> Any:
        if not isinstance(value, list):
            return self._reject(value, list, path)
        (of,) = get_args(wanted) or (Any,)
        items = []
        for index, item in enumerate(value):
            clean = self.clean(item, of, f"{path}[{index}]")
            items.append(_filler(of) if clean is _UNUSABLE else clean)
        return _UNUSABLE if _UNUSABLE in items else items

    def _clean_dict(self, value: Any, wanted: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            return self._reject(value, dict, path)
        keys, values = get_args(wanted) or (Any, Any)
        clean = {}
        for name, item in value.items():
            where = field_errors.join(path, _key(name))
            key = self._leaf(_key(name) if keys is str else name, keys, where)
            taken = self.clean(item, values, where)
            if key is not _UNUSABLE and taken is not _UNUSABLE:
                clean[key] = taken
        return clean

    def _leaf(self, value: Any, wanted: Any, path: str) -> Any:
        plain = _plain(wanted)
        if isinstance(value, float) and not math.isfinite(value):
            return self._reject(value, plain if plain in _WORDS else float, path)
        if plain is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.faults.append(FieldError(path, f"is out of range: {shown(value)}"))
            return _UNUSABLE
        try:
            msgspec.convert(value, wanted, strict=True)
        except msgspec.ValidationError as error:
            self.faults.append(_leaf_fault(value, wanted, path) or _from_msgspec(error, path))
            return _UNUSABLE
        return value

    def _reject(self, value: Any, expected: Any, path: str) -> Any:
        self.faults.append(FieldError(path, f"expected {_WORDS[expected]}, got {shown(value)}"))
        return _UNUSABLE


def _plain(wanted: Any) -> Any:
    """A type without None and without annotations."""
    origin = get_origin(wanted)
    if origin is Annotated:
        return _plain(get_args(wanted)[0])
    if origin in {Union, UnionType}:
        types = [each for each in get_args(wanted) if each is not NoneType]
        return _plain(types[0]) if len(types) == 1 else wanted
    return wanted


def _find_fields(wanted: Any) -> dict[str, _Field] | None:
    """The fields of a struct or dataclass by their names in documents; None for other types."""
    if not isinstance(wanted, type):
        return None
    if issubclass(wanted, msgspec.Struct):
        if wanted.__struct_config__.array_like or wanted.__struct_config__.tag is not None:
            return None
        return {field.encode_name: _Field(field.type, field.required) for field in msgspec.structs.fields(wanted)}
    if dataclasses.is_dataclass(wanted):
        hints = get_type_hints(wanted, include_extras=True)
        missing = dataclasses.MISSING
        return {
            field.name: _Field(hints[field.name], field.default is missing and field.default_factory is missing)
            for field in dataclasses.fields(wanted)
            if field.init
        }
    return None


fields_of: Callable[[Any], Mapping[str, _Field] | None] = cache(_find_fields)
"""See _find_fields. Cached."""


def _filler(wanted: Any) -> Any:
    """An empty value of a type, in place of an invalid one, so that later items of a list keep their indexes."""
    plain = _plain(wanted)
    fields = fields_of(plain)
    if fields is not None:
        filled = {name: _filler(field.type) for name, field in fields.items() if field.required}
        return _UNUSABLE if _UNUSABLE in filled.values() else filled
    origin = get_origin(plain) or plain
    return origin() if origin in {int, float, str, bool, list, dict} else _UNUSABLE


def _leaf_fault(value: Any, wanted: Any, path: str) -> FieldError | None:
    """A more specific error than msgspec's; None if there is none."""
    plain = _plain(wanted)
    if get_origin(plain) is Literal:
        return _not_one_of(get_args(plain), value, path)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return _not_one_of([each.value for each in plain], value, path)
    if plain not in _WORDS:
        return None
    expected = _WORDS[plain]
    meta = next(
        (each for each in getattr(wanted, "__metadata__", ()) if isinstance(each, msgspec.Meta)), msgspec.Meta()
    )
    hint = ""
    if isinstance(value, (int, float) if plain is float else plain) and (plain is bool or not isinstance(value, bool)):
        if meta.ge is None or meta.le is None:
            return None
        expected += f" from {meta.ge} to {meta.le}"
    elif plain is str and meta.examples:
        expected += f" such as {meta.examples[0]}"
    elif plain is str and isinstance(value, int | float):
        hint = ": put it in quotes"
    return FieldError(path, f"expected {expected}, got {shown(value)}{hint}")


def _not_one_of(known: Sequence[Any], value: Any, path: str) -> FieldError:
    if isinstance(value, str | int | float):
        return field_errors.not_supported(path, value, known)
    return FieldError(path, f"expected one of {', '.join(map(shown, known))}, got {shown(value)}")


def _from_msgspec(error: msgspec.ValidationError, path: str) -> FieldError:
    """The error of msgspec, with the full path."""
    problem, _, where = str(error).partition(" - at `$")
    return FieldError(field_errors.join(path, where.removesuffix("`").removeprefix(".")), problem)


def shown(value: Any) -> str:
    """A value as a short line, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**60:
        return "a number of 60 digits or more"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int | float) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _key(name: Any) -> str:
    """A key as it was written, as far as YAML preserves it."""
    return name if isinstance(name, str) else json.dumps(name, default=str)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key(name): _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return cast("Any", value)
