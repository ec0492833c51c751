"""Decodes the scalar values of objects as Go does: checks their types, and writes them as kube-apiserver returns them.

Each function returns a Normalize function, or is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from bayplan.core.api.quantity import InvalidQuantity, format_quantity, parse

Normalize = Callable[[Any, str, list[str]], Any]
"""(value, its path, list of unknown fields to add to) -> the value in its stored form. Raises Mismatch."""

QUANTITY_SYNTAX = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

_JSON_TYPES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_INDEX = re.compile(r"\[\d+\]")


class Mismatch(Exception):
    """A value of a type that its field cannot have. The message is kube-apiserver's."""


def text(go: str, owner: str, *, keep_empty: bool) -> Normalize:
    """A string that Go calls `go`, in a field of the Go type `owner`. An empty one is left out unless it is kept."""

    def normalize_text(value: Any, path: str, _unknown: list[str]) -> Any:
        if value.__class__ is not str:
            raise mismatch(value, path, go, owner)
        return value if value or keep_empty else None

    return normalize_text


def base64_bytes(go: str, owner: str, *, keep_empty: bool) -> Normalize:
    """Bytes in base64."""
    normalize_text = text(go, owner, keep_empty=keep_empty)

    def normalize_bytes(value: Any, path: str, unknown: list[str]) -> Any:
        written = normalize_text(value, path, unknown)
        plain = (written or "").replace("\r", "").replace("\n", "")
        good = _BASE64.match(plain)
        end = good.end() if good is not None else 0
        if end < len(plain):
            raise Mismatch(f"illegal base64 data at input byte {end}")
        return written if written is None else plain

    return normalize_bytes


def integer(go: str, owner: str, *, bits: int, keep_zero: bool) -> Normalize:
    """A signed integer of `bits` bits. 0 is left out unless it is kept."""
    limit = 1 << bits - 1

    def normalize_integer(value: Any, path: str, _unknown: list[str]) -> Any:
        if value.__class__ is not int or not -limit <= value < limit:
            raise mismatch(value, path, go, owner)
        return value if value or keep_zero else None

    return normalize_integer


def floating(owner: str) -> Normalize:
    """A float64."""

    def normalize_float(value: Any, path: str, _unknown: list[str]) -> Any:
        if value.__class__ not in {int, float}:
            raise mismatch(value, path, "float64", owner)
        return int(value) if value == int(value) else value  # as Go writes it

    return normalize_float


def boolean(go: str, owner: str, *, keep_false: bool) -> Normalize:
    """A boolean. False is left out unless it is kept."""

    def normalize_boolean(value: Any, path: str, _unknown: list[str]) -> Any:
        if value.__class__ is not bool:
            raise mismatch(value, path, go, owner)
        return value if value or keep_false else None

    return normalize_boolean


def quantity(value: Any, _path: str, _unknown: list[str]) -> Any:
    """A quantity in its canonical form. Raises Mismatch."""
    written = canonical(value if value.__class__ is str else str(value))
    if value is True or value is False or written is None:
        raise Mismatch(QUANTITY_SYNTAX)
    return written


def int_or_string(value: Any, path: str, _unknown: list[str]) -> Any:
    """An IntOrString. Raises Mismatch."""
    if value.__class__ not in {int, str}:
        raise mismatch(value, path, "int32")
    if value.__class__ is int and not -(1 << 31) <= value < 1 << 31:
        raise mismatch(value, path, "int32")
    return value


def time(*, fraction: bool) -> Normalize:
    """A time in UTC, with microseconds (MicroTime) or without (Time)."""

    def normalize_time(value: Any, path: str, _unknown: list[str]) -> Any:
        if value.__class__ is not str:
            raise mismatch(value, path, "Time")
        try:
            moment = datetime.fromisoformat(value)
            in_utc = moment.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            moment = None
        if moment is None or moment.tzinfo is None or "T" not in value:
            raise Mismatch(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"')
        return in_utc.isoformat(timespec="microseconds" if fraction else "seconds") + "Z"

    return normalize_time


def mismatch(value: Any, path: str, expected: str, owner: str = "") -> Mismatch:
    """Go's error for a value that cannot be decoded into a field."""
    where = _INDEX.sub("", path)
    field = f"{owner}.{where}" if owner else where
    given = _JSON_TYPES.get(type(value), "null")
    if given == "number" and expected in {"int32", "int64"}:
        given = f"number {value}"
    into = f"Go struct field {field} of type {expected}" if where else f"Go value of type {expected}"
    return Mismatch(f"json: cannot unmarshal {given} into {into}")


def go_float(number: float) -> str:
    """A float64 as Go's %v prints it."""
    negative, digits, exponent = Decimal(repr(float(number))).normalize().as_tuple()
    assert isinstance(exponent, int)  # JSON has no infinities
    places = len(digits) + exponent - 1
    if -4 <= places < 6:
        text = format(Decimal((0, digits, exponent)), "f")
    else:
        mantissa = str(digits[0]) + ("." + "".join(map(str, digits[1:])) if len(digits) > 1 else "")
        text = f"{mantissa}e{'-' if places < 0 else '+'}{abs(places):02}"
    return f"-{text}" if negative else text


_SYNTAX = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?")


@lru_cache(maxsize=8192)
def canonical(text: str) -> str | None:
    """Returns the canonical form of a quantity, None if the text is not a quantity.

    Mirrors CanonicalizeBytes of apimachinery's pkg/api/resource: no fraction, the largest suffix that allows that.
    """
    match = _SYNTAX.fullmatch(text)
    if match is None:
        return None
    try:
        nanos = parse(text)
    except InvalidQuantity:
        return None
    suffix = match[3] or ""
    if nanos and suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        return _with_exponent(nanos)
    return format_quantity(nanos, binary=suffix.endswith("i"))


def _with_exponent(nanos: int) -> str:
    number, exponent = nanos, -9
    while number % 1000 == 0:
        number //= 1000
        exponent += 3
    return f"{number}e{exponent}" if exponent else f"{number}"
