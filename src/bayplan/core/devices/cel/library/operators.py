"""Operators. Arithmetic, equality and order mirror cel-go's common/types.

Integers have 64 bits, and overflow is an error. 1, 1u and 1.0 are equal, but true is not, unlike in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any

from bayplan.core.devices.cel.costs import MAX_COST, CostExceeded
from bayplan.core.devices.cel.values import (
    ABSENT,
    LARGEST_INT,
    LARGEST_UINT,
    LEAST_INT,
    NUMBERS,
    URL,
    CelError,
    DomainMap,
    Format,
    NoSuchOverload,
    Optional,
    Quantity,
    Semver,
    TypeValue,
    Uint,
    type_name,
)

_ORDERED = NUMBERS | {bool, str, bytes, datetime, timedelta}
_DIRECT = NUMBERS | {str}
"""Types whose values Python compares as CEL does, but for numbers with strings, which never are equal."""
_EXACT = frozenset({int, Uint, str})
"""Types whose values are equal to themselves, which doubles need not be."""
_LONGEST = timedelta(seconds=315_576_000_000)
_OPAQUE = (Quantity, Semver, IPv4Address, IPv6Address, URL, Format)
_MISSING = object()
_LARGE = 6
"""The power of ten from which doubles are written with an exponent."""


class _Budget:
    """A limit on compared elements: nested lists can contain the same list many times at almost no cost."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_COST

    def count(self) -> None:
        """Count a compared element. Raises CostExceeded above the maximum."""
        self.left -= 1
        if self.left < 0:
            raise CostExceeded


def equal(one: Any, other: Any, budget: _Budget | None = None) -> bool:
    """Whether two values of any types are equal.

    Raises NoSuchOverload for a comparison of a Kubernetes type with a different type.
    """
    if type(one) in _DIRECT and type(other) in _DIRECT:
        return bool(one == other)
    if one is None or other is None:
        return one is other
    if isinstance(one, _OPAQUE):
        if type_name(one) != type_name(other) or (isinstance(other, Quantity) and other.computed):
            raise NoSuchOverload
        return bool(one.nanos == other.nanos) if isinstance(one, Quantity) else bool(one == other)
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        if _are(_EXACT, one) and _are(_EXACT, other):
            return one == other
        return not _differ(zip(one, other, strict=True), budget or _Budget())
    if isinstance(one, dict):
        return isinstance(other, dict) and _equal_maps(one, other, budget or _Budget())
    if isinstance(one, Optional):
        if not isinstance(other, Optional) or one.present != other.present:
            return False
        return not one.present or equal(one.value, other.value, budget)
    return type(one) is type(other) and bool(one == other)


def equals(one: Any, other: Any) -> bool:
    """Whether two values are equal. Values that can't be compared aren't equal."""
    try:
        return equal(one, other)
    except NoSuchOverload:
        return False


def _differ(pairs: Iterable[tuple[Any, Any]], budget: _Budget) -> bool:
    """Whether any pair is unequal. As upstream, pairs that can't be compared don't count."""
    for one, other in pairs:
        budget.count()
        try:
            if not equal(one, other, budget):
                return True
        except NoSuchOverload:
            continue
    return False


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any], budget: _Budget) -> bool:
    if len(one) != len(other):
        return False
    found = [(value, find(other, key)) for key, value in one.items()]
    return all(each.present for _, each in found) and not _differ(((a, b.value) for a, b in found), budget)


def find(values: dict[Any, Any], key: Any) -> Optional:
    """The value of a key in a map. Numeric keys of different types are equal if their values are."""
    if type(key) in _DIRECT:
        found = values.get(key, _MISSING)
        if found is _MISSING:
            return ABSENT
        if type(key) is str:
            return Optional(True, found)
    for each, value in values.items():
        if equals(each, key):
            return Optional(True, value)
    return ABSENT


def clashes(values: dict[Any, Any], key: Any) -> bool:
    """Whether a map has a key of another type that Python takes for the same, as 1, 1u and true are."""
    return key in values and not any(type(value) is type(key) and value == key for value in values)


def look_up(whole: Any, key: Any) -> Optional:
    """The value that a field or an index selects. Raises CelError for an invalid index."""
    if isinstance(whole, dict):
        found = find(whole, key)
        return Optional(True, {}) if isinstance(whole, DomainMap) and not found.present else found
    if not isinstance(whole, list):
        return ABSENT
    if type(key) not in NUMBERS:
        raise CelError(f"unsupported index type '{type_name(key)}' in list")
    if isinstance(key, float) and not key.is_integer():
        raise CelError(f"unsupported index value {text_of(key)} in list")
    return Optional(True, whole[int(key)]) if 0 <= key < len(whole) else ABSENT


def contains(values: Any, wanted: Any) -> bool:
    """Whether a list has an element, or a map a key."""
    if isinstance(values, dict):
        return find(values, wanted).present
    if type(wanted) in _EXACT and _are(_DIRECT, values):
        return wanted in values
    return any(equals(wanted, value) for value in values)


def _are(types: frozenset[type], values: list[Any]) -> bool:
    return types.issuperset(map(type, values))


def comparable(value: Any) -> bool:
    """Whether values of this type are ordered."""
    return type(value) in _ORDERED


def compare(one: Any, other: Any) -> int:
    """Negative if `one` is less than `other`, positive if it is greater. Raises CelError."""
    return int(_ordered(gt, one, other)) - int(_ordered(lt, one, other))


def _ordered(relation: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    if type(one) in NUMBERS and type(other) in NUMBERS:
        if math.isnan(one) or math.isnan(other):
            raise CelError("NaN values cannot be ordered")
    elif type(one) is not type(other) or not comparable(one):
        raise NoSuchOverload
    return bool(relation(one, other))


def text_of(value: Any) -> str:
    """The result of `string()` for a value other than a timestamp or duration."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
        case float():
            return _shortest(value)
        case TypeValue():
            return value.name
    return str(value)


def _shortest(value: float) -> str:
    """A double in the format of Go's %g."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    precision = next(digits for digits in range(17) if digits == 16 or float(f"{value:.{digits}e}") == value)
    written = f"{value:.{precision}e}"
    power = int(written.partition("e")[2])
    return f"{value:.{max(precision - power, 0)}f}" if -4 <= power < _LARGE else written


def _arithmetic(name: str, operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def calculated(one: Any, other: Any) -> Any:
        try:
            result = operation(one, other)
        except ZeroDivisionError:
            if isinstance(one, float):
                return _by_zero(one, other)
            raise CelError("modulus by zero" if name == "_%_" else "division by zero") from None
        except OverflowError:
            raise _overflow(one) from None
        if type(result) is int:
            if isinstance(one, Uint):
                if not 0 <= result <= LARGEST_UINT:
                    raise _overflow(one)
                return Uint(result)
            if not LEAST_INT <= result <= LARGEST_INT:
                raise _overflow(one)
        elif type(result) is timedelta and not -_LONGEST <= result <= _LONGEST:
            raise _overflow(one)
        return result

    return calculated


def _overflow(one: Any) -> CelError:
    kinds = {int: "integer", Uint: "unsigned integer", datetime: "timestamp"}
    return CelError(f"{kinds.get(type(one), 'duration')} overflow")


def _divided(one: Any, other: Any) -> Any:
    if isinstance(one, float):
        return one / other
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) is (other < 0) else -quotient


def _remainder(one: int, other: int) -> int:
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _by_zero(one: float, other: float) -> float:
    if math.isnan(one) or one == 0:
        return math.nan
    return math.copysign(math.inf, math.copysign(1, one) * math.copysign(1, other))


def _negated(one: Any) -> Any:
    if type(one) is int and one == LEAST_INT:
        raise CelError("integer overflow")
    return -one


def _unequal(one: Any, other: Any) -> bool:
    try:
        return not equal(one, other)
    except NoSuchOverload:
        return True


def _compared(relation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: _ordered(relation, one, other)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_+_": _arithmetic("_+_", add),
    "_-_": _arithmetic("_-_", sub),
    "_*_": _arithmetic("_*_", mul),
    "_/_": _arithmetic("_/_", _divided),
    "_%_": _arithmetic("_%_", _remainder),
    "-_": _negated,
    "!_": lambda one: not one,
    "_==_": equal,
    "_!=_": _unequal,
    **{name: _compared(relation) for name, relation in (("_<_", lt), ("_<=_", le), ("_>_", gt), ("_>=_", ge))},
    "@in": lambda wanted, values: contains(values, wanted),
}
