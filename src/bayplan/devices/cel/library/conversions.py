"""Type conversions. Mirrors cel-go's common/stdlib and common/types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from celpy.celtypes import (
    BytesType,
    DoubleType,
    DurationType,
    IntType,
    StringType,
    TimestampType,
    UintType,
)

from bayplan.devices.cel.library import times
from bayplan.devices.cel.library.operators import text_of
from bayplan.devices.cel.values import CelError, TypeValue, type_name

_INTEGER = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]{1,25}", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?((([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


def _cannot(value: Any, wanted: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def _bool(value: Any) -> bool:
    if isinstance(value, StringType):
        if value not in _TRUE | _FALSE:
            raise _cannot(value, "bool")
        return value in _TRUE
    return bool(value)


def _double(value: Any) -> float:
    if not isinstance(value, StringType):
        return float(value)
    if not _FLOAT.fullmatch(value) or (math.isinf(float(value)) and "inf" not in value.lower()):
        raise _cannot(value, "double")
    return float(value)


def _int(value: Any) -> Any:
    if isinstance(value, (TimestampType, DurationType)):
        return IntType(times.seconds_of(value))
    return _whole(value, IntType, _INTEGER, "int", "integer overflow")


def _uint(value: Any) -> Any:
    return _whole(value, UintType, _UNSIGNED, "uint", "unsigned integer overflow")


def _whole(value: Any, kind: Any, syntax: re.Pattern[str], name: str, overflow: str) -> Any:
    written = isinstance(value, StringType)
    if written and not syntax.fullmatch(value):
        raise _cannot(value, name)
    try:
        return kind(float(value) if isinstance(value, DoubleType) else int(value))
    except (ValueError, OverflowError):
        raise (_cannot(value, name) if written else CelError(overflow)) from None


def string_of(value: Any) -> str:
    """The result of `string()`. Raises CelError."""
    return times.text_of(value) if isinstance(value, (TimestampType, DurationType)) else text_of(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "type": lambda value: TypeValue(type_name(value)),
    "dyn": lambda value: value,
    "bool": _bool,
    "bytes": BytesType,
    "double": _double,
    "int": _int,
    "string": string_of,
    "uint": _uint,
}
