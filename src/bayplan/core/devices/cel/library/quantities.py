"""Quantities and semantic versions. Mirrors Kubernetes' pkg/cel/library/quantity.go and semverlib.go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bayplan.core.api.quantity import LARGEST, NANO
from bayplan.core.devices.cel.values import CelError, Quantity, Semver


def _read(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(str(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def reads(parse: Callable[[str], Any], text: str) -> bool:
    """Whether `parse` accepts a text."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _semver(normalize: bool) -> Callable[[str], Semver]:
    return Semver.parse_tolerant if normalize else Semver.parse


def _as_integer(one: Quantity) -> int:
    if one.whole is None:
        raise CelError("cannot convert value to integer")
    return one.whole


def _amount(value: Quantity | int, sign: int) -> Quantity:
    if isinstance(value, Quantity):
        return Quantity(sign * value.nanos, integer=value.integer)
    number = sign * int(value)
    return Quantity((number if number <= LARGEST else number - 2**64) * NANO)  # upstream negates 64 bits


def _compare(one: Any, other: Any) -> int:
    if isinstance(one, Quantity):
        one, other = one.nanos, other.nanos
    return int(one > other) - int(one < other)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": partial(_read, Quantity.parse),
    "isQuantity": partial(reads, Quantity.parse),
    "sign": lambda one: (one.nanos > 0) - (one.nanos < 0),
    "isInteger": lambda one: one.whole is not None,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda one: one.nanos / NANO,
    "add": lambda one, more: one.plus(_amount(more, 1)),
    "sub": lambda one, less: one.plus(_amount(less, -1)),
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "compareTo": _compare,
    "semver": lambda text, normalize=False: _read(_semver(normalize), text),
    "isSemver": lambda text, normalize=False: reads(_semver(normalize), text),
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
}
