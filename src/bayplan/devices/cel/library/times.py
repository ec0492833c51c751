"""Timestamps and durations, with cel-python's resolution of a microsecond."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from celpy.celtypes import DurationType, IntType, TimestampType
from celpy.evaluation import base_functions

from bayplan.devices.cel.values import CelError

_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS = (
    *("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)


def _duration(value: Any) -> DurationType:
    if isinstance(value, IntType):
        return DurationType(timedelta(microseconds=int(value) // 1000))
    if isinstance(value, DurationType):
        return value
    try:
        if _DURATION.fullmatch(value):
            return DurationType(f"{value}s" if value.strip("+-") == "0" else value.replace("μ", "µ"))
    except (ValueError, OverflowError):
        pass
    raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")


def _timestamp(value: Any) -> TimestampType:
    if isinstance(value, TimestampType):
        return value
    try:
        if isinstance(value, IntType):
            return TimestampType(_EPOCH + timedelta(seconds=int(value)))
        if _TIMESTAMP.fullmatch(value):
            return TimestampType(value)
    except (ValueError, OverflowError):
        pass
    if isinstance(value, IntType):
        raise CelError("timestamp overflow")
    raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")


def text_of(value: TimestampType | DurationType) -> str:
    """The result of `string()`."""
    if isinstance(value, DurationType):
        micros = value // timedelta(microseconds=1)
        seconds, rest = divmod(abs(micros), 10**6)
        written = f"{seconds}.{rest:06d}".rstrip("0").rstrip(".")
        return f"{'-' if micros < 0 else ''}{written}s"
    fraction = f".{value.microsecond:06d}".rstrip("0").rstrip(".")
    whole = str(value.replace(microsecond=0))
    return f"{whole[:19]}{fraction}{whole[19:]}"


def seconds_of(value: TimestampType | DurationType) -> int:
    """The result of `int()`: a timestamp's seconds since the epoch, a duration's nanoseconds."""
    if isinstance(value, DurationType):
        return value // timedelta(microseconds=1) * 1000
    return (value - TimestampType(_EPOCH)) // timedelta(seconds=1)


def _part(name: str) -> Callable[..., Any]:
    of = base_functions[name]

    def part(value: Any, *zone: Any) -> Any:
        try:
            return of(value, *zone)
        except (ValueError, OverflowError):
            raise CelError(f"unknown time zone {', '.join(zone)}") from None

    return part


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "duration": _duration,
    "timestamp": _timestamp,
    **{name: _part(name) for name in _PARTS},
}
