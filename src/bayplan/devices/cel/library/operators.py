"""Operators. cel-python's numbers detect 64-bit overflow; equality and order mirror cel-go's common/types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from operator import add, ge, gt, le, lt, mul, sub, truediv
from typing import Any

from celpy.celtypes import (
    BoolType,
    BytesType,
    DoubleType,
    DurationType,
    IntType,
    ListType,
    MapType,
    StringType,
    TimestampType,
    UintType,
)

from bayplan.devices.cel.costs import MAX_COST, CostExceeded
from bayplan.devices.cel.values import (
    ABSENT,
    URL,
    CelError,
    DomainMap,
    Format,
    NoSuchOverload,
    Optional,
    Quantity,
    Semver,
    TypeValue,
    type_name,
)

_NUMBERS = (IntType, UintType, DoubleType)
_ORDERED = (BoolType, *_NUMBERS, StringType, BytesType, TimestampType, DurationType)
_OPAQUE = (Quantity, Semver, IPv4Address, IPv6Address, URL, Format)
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
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS):
        return _number(one) == _number(other)
    if one is None or other is None:
        return one is other
    if isinstance(one, _OPAQUE):
        if type_name(one) != type_name(other) or (isinstance(other, Quantity) and other.computed):
            raise NoSuchOverload
        return bool(one.nanos == other.nanos) if isinstance(one, Quantity) else bool(one == other)
    if isinstance(one, ListType):
        if not isinstance(other, ListType) or len(one) != len(other):
            return False
        return not _differ(zip(one, other, strict=True), budget or _Budget())
    if isinstance(one, MapType):
        return isinstance(other, MapType) and _equal_maps(one, other, budget or _Budget())
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


def _equal_maps(one: MapType, other: MapType, budget: _Budget) -> bool:
    if len(one) != len(other):
        return False
    found = [(value, find(other, key)) for key, value in one.items()]
    return all(each.present for _, each in found) and not _differ(((a, b.value) for a, b in found), budget)


def find(values: MapType, key: Any) -> Optional:
    """The value of a key in a map. Numeric keys of different types are equal if their values are."""
    if isinstance(key, StringType):
        return Optional(True, dict.__getitem__(values, key)) if dict.__contains__(values, key) else ABSENT
    for each, value in values.items():
        if equals(each, key):
            return Optional(True, value)
    return ABSENT


def look_up(whole: Any, key: Any) -> Optional:
    """The value that a field or an index selects. Raises CelError for an invalid index."""
    if isinstance(whole, MapType):
        found = find(whole, key)
        return Optional(True, MapType()) if isinstance(whole, DomainMap) and not found.present else found
    if not isinstance(whole, ListType):
        return ABSENT
    if not isinstance(key, _NUMBERS):
        raise CelError(f"unsupported index type '{type_name(key)}' in list")
    if isinstance(key, DoubleType) and not key.is_integer():
        raise CelError(f"unsupported index value {text_of(key)} in list")
    return Optional(True, whole[int(key)]) if 0 <= _number(key) < len(whole) else ABSENT


def contains(values: Any, wanted: Any) -> bool:
    """Whether a list has an element, or a map a key."""
    if isinstance(values, MapType):
        return find(values, wanted).present
    return any(equals(wanted, value) for value in values)


def comparable(value: Any) -> bool:
    """Whether values of this type are ordered."""
    return isinstance(value, _ORDERED)


def compare(one: Any, other: Any) -> int:
    """Negative if `one` is less than `other`, positive if it is greater. Raises CelError."""
    return int(_ordered(gt, one, other)) - int(_ordered(lt, one, other))


def _ordered(relation: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS):
        one, other = _number(one), _number(other)
        if math.isnan(one) or math.isnan(other):
            raise CelError("NaN values cannot be ordered")
    elif type(one) is not type(other) or not comparable(one):
        raise NoSuchOverload
    return bool(relation(one, other))


def _number(value: Any) -> int | float:
    return float(value) if isinstance(value, DoubleType) else int(value)


def text_of(value: Any) -> str:
    """The result of `string()` for a value other than a timestamp or duration."""
    match value:
        case BoolType():
            return "true" if value else "false"
        case BytesType():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
        case DoubleType():
            return _shortest(float(value))
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
            if isinstance(one, DoubleType):
                return operation(float(one), float(other))
            result = operation(one, other)
            return DurationType(result) if type(result) is timedelta else result
        except ZeroDivisionError:
            if isinstance(one, DoubleType):
                return _by_zero(float(one), float(other))
            raise CelError("modulus by zero" if name == "_%_" else "division by zero") from None
        except (ValueError, OverflowError):
            kinds = {IntType: "integer", UintType: "unsigned integer", TimestampType: "timestamp"}
            raise CelError(f"{kinds.get(type(one), 'duration')} overflow") from None

    return calculated


def _by_zero(one: float, other: float) -> float:
    if math.isnan(one) or one == 0:
        return math.nan
    return math.copysign(math.inf, math.copysign(1, one) * math.copysign(1, other))


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, ListType):
        return ListType([*one, *other])
    if isinstance(one, (StringType, BytesType)):
        return type(one)(add(one, other))
    return other + one if isinstance(other, TimestampType) else one + other


def _negated(one: Any) -> Any:
    try:
        return -one
    except ValueError:
        raise CelError("integer overflow") from None


def _unequal(one: Any, other: Any) -> bool:
    try:
        return not equal(one, other)
    except NoSuchOverload:
        return True


def _compared(relation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: _ordered(relation, one, other)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_+_": _arithmetic("_+_", _added),
    "_-_": _arithmetic("_-_", sub),
    "_*_": _arithmetic("_*_", mul),
    "_/_": _arithmetic("_/_", truediv),
    "_%_": _arithmetic("_%_", lambda one, other: one % other),
    "-_": _negated,
    "!_": lambda one: not one,
    "_==_": equal,
    "_!=_": _unequal,
    **{name: _compared(relation) for name, relation in (("_<_", lt), ("_<=_", le), ("_>_", gt), ("_>=_", ge))},
    "@in": lambda wanted, values: contains(values, wanted),
}
