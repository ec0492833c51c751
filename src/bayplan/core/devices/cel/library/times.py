"""Timestamps and durations, as Python's datetime and timedelta. Mirrors cel-go's common/types/timestamp.go."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import fsum
from typing import Any
from zoneinfo import ZoneInfo

from bayplan.core.devices.cel.values import CelError

_DURATION = re.compile(r"([+-]?)(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(\D+)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 315_576_000_000
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d?):(\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND, _SECOND = timedelta(microseconds=1), timedelta(seconds=1)


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int):
        return timedelta(microseconds=value // 1000)
    written = _DURATION.fullmatch(value)
    if written:
        seconds = fsum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(written[2]))
        if seconds <= _LONGEST:
            return timedelta(seconds=-seconds if written[1] == "-" else seconds)
    raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, int):
            return _EPOCH + timedelta(seconds=value)
        if _TIMESTAMP.fullmatch(value):
            return datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        pass
    if isinstance(value, int):
        raise CelError("timestamp overflow")
    raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")


def text_of(value: datetime | timedelta) -> str:
    """The result of `string()`."""
    if isinstance(value, timedelta):
        micros = value // _MICROSECOND
        seconds, rest = divmod(abs(micros), 10**6)
        written = f"{seconds}.{rest:06d}".rstrip("0").rstrip(".")
        return f"{'-' if micros < 0 else ''}{written}s"
    fraction = f".{value.microsecond:06d}".rstrip("0").rstrip(".")
    whole = value.isoformat(timespec="seconds")
    zone = "Z" if whole.endswith("+00:00") else whole[19:]
    return f"{whole[:19]}{fraction}{zone}"


def seconds_of(value: datetime | timedelta) -> int:
    """The result of `int()`: a timestamp's seconds since the epoch, a duration's nanoseconds."""
    return value // _MICROSECOND * 1000 if isinstance(value, timedelta) else (value - _EPOCH) // _SECOND


def _zone(name: str) -> tzinfo:
    if not name or name.lower() == "utc":
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        return ZoneInfo(name)
    prefix, hours, minutes = offset.groups()
    return timezone(timedelta(minutes=(int(hours) * 60 + int(minutes)) * (-1 if prefix == "-" else 1)))


def _part(name: str) -> Callable[..., int]:
    """The function that reads a part of a timestamp in a time zone."""
    of = _PARTS[name]

    def part(value: Any, zone: str = "") -> int:
        if isinstance(value, timedelta):
            whole = abs(value) // _UNITS[name]
            return -whole if value < timedelta() else whole
        try:
            return of(value.astimezone(_zone(zone)))
        except (ValueError, OverflowError, LookupError, OSError):
            raise CelError(f"unknown time zone {zone}") from None

    return part


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_UNITS = {
    "getHours": timedelta(hours=1),
    "getMinutes": timedelta(minutes=1),
    "getSeconds": _SECOND,
    "getMilliseconds": timedelta(milliseconds=1),
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "duration": _duration,
    "timestamp": _timestamp,
    **{name: _part(name) for name in _PARTS},
}
