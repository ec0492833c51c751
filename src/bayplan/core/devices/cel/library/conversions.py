"""Type conversions. Mirrors cel-go's common/stdlib and common/types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from bayplan.core.devices.cel.library import times
from bayplan.core.devices.cel.library.operators import text_of
from bayplan.core.devices.cel.values import LARGEST_INT, LARGEST_UINT, LEAST_INT, CelError, TypeValue, Uint, type_name

_INTEGER = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]{1,25}", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?((([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


def _cannot(value: Any, wanted: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        if value not in _TRUE | _FALSE:
            raise _cannot(value, "bool")
        return value in _TRUE
    return bool(value)


def _double(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    if not _FLOAT.fullmatch(value) or (math.isinf(float(value)) and "inf" not in value.lower()):
        raise _cannot(value, "double")
    return float(value)


def _int(value: Any) -> int:
    if isinstance(value, (datetime, timedelta)):
        return times.seconds_of(value)
    return _whole(value, range(LEAST_INT, LARGEST_INT + 1), _INTEGER, "int")


def _uint(value: Any) -> Uint:
    return Uint(_whole(value, range(LARGEST_UINT + 1), _UNSIGNED, "uint"))


def _whole(value: Any, allowed: range, syntax: re.Pattern[str], name: str) -> int:
    written = isinstance(value, str)
    if written and not syntax.fullmatch(value):
        raise _cannot(value, name)
    if not isinstance(value, float) or math.isfinite(value):
        number = int(value)
        if number in allowed:
            return number
    raise _cannot(value, name) if written else CelError(f"{'unsigned ' if name == 'uint' else ''}integer overflow")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def string_of(value: Any) -> str:
    """The result of `string()`. Raises CelError."""
    return times.text_of(value) if isinstance(value, (datetime, timedelta)) else text_of(value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "type": lambda value: TypeValue(type_name(value)),
    "dyn": lambda value: value,
    "bool": _bool,
    "bytes": _bytes,
    "double": _double,
    "int": _int,
    "string": string_of,
    "uint": _uint,
}
