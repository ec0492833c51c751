"""The functions that Kubernetes adds to CEL: quantities, versions, regular expressions, lists, strings and sets.

Mirrors k8s.io/apiserver/pkg/cel/library, and of cel-go's ext what Kubernetes' environment has. What a function raises
of TypeError is "no such overload", of ValueError another failure of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import re2  # type: ignore[import-untyped]  # what cel-python's own `matches` uses: the syntax of Go
from celpy.celtypes import BoolType, DoubleType, IntType, ListType, StringType

from bayplan.api.quantity import NANO
from bayplan.plugins.dynamic_resources.cel.values import Quantity, Semver


def _of(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise TypeError(f"no such overload: {type(value).__name__}")
    return value


def _parses(parse: Callable[[str], Any], text: str) -> BoolType:
    try:
        parse(_of(text, StringType))
    except ValueError:
        return BoolType(False)
    return BoolType(True)


def _semver(text: str, normalize: bool = False) -> Semver:
    return Semver.parse_tolerantly(_of(text, StringType)) if normalize else Semver.parse(_of(text, StringType))


def _is_semver(text: str, normalize: bool = False) -> BoolType:
    return _parses(partial(_semver, normalize=normalize), text)


def _compare(one: Any, other: Any) -> int:
    _of(one, Quantity, Semver)
    _of(other, type(one))
    greater, less = bool(one > other), bool(one < other)
    return greater - less


def _sign(one: Quantity) -> IntType:
    nanos = _of(one, Quantity).nanos
    return IntType((nanos > 0) - (nanos < 0))


def _as_integer(one: Quantity) -> IntType:
    whole = _of(one, Quantity).whole
    if whole is None:
        raise ValueError("cannot convert value to integer")
    return IntType(whole)


def _amount(value: Any) -> int:
    nanos: int = value.nanos if isinstance(value, Quantity) else int(_of(value, IntType)) * NANO
    return nanos


def _find(text: str, pattern: str) -> StringType:
    match = _pattern(pattern).search(_of(text, StringType))
    return StringType(match[0] if match else "")


def _find_all(text: str, pattern: str, limit: int = -1) -> ListType:
    found = [StringType(match[0]) for match in _pattern(pattern).finditer(_of(text, StringType))]
    return ListType(found if limit < 0 else found[:limit])


def _pattern(pattern: str) -> Any:
    try:
        return re2.compile(_of(pattern, StringType))
    except re2.error as error:
        raise ValueError(f"Illegal regex: {error}") from None


def _matches(text: str, pattern: str) -> BoolType:
    return BoolType(_pattern(pattern).search(_of(text, StringType)) is not None)


def _is_sorted(values: Any) -> BoolType:
    items = list(_of(values, ListType))
    return BoolType(all(not after < before for before, after in pairwise(items)))


def _sum(values: Any) -> Any:
    items = list(_of(values, ListType))
    total = items[0] if items else IntType(0)
    for item in items[1:]:
        total = total + item
    return total


def _extreme(values: Any, choose: Callable[[Any], Any], name: str) -> Any:
    if not _of(values, ListType):
        raise ValueError(f"{name} called on empty list")
    return choose(values)


def _index_of(values: Any, wanted: Any, start: int = 0) -> IntType:
    if isinstance(values, StringType):
        _in_range(start, values)
        return IntType(str(values).find(_of(wanted, StringType), start))
    return IntType(next((index for index, item in enumerate(_of(values, ListType)) if item == wanted), -1))


def _last_index_of(values: Any, wanted: Any) -> IntType:
    if isinstance(values, StringType):
        return IntType(str(values).rfind(_of(wanted, StringType)))
    items = list(_of(values, ListType))
    return IntType(next((index for index in reversed(range(len(items))) if items[index] == wanted), -1))


def _substring(text: str, start: int, end: int | None = None) -> StringType:
    last = len(_of(text, StringType)) if end is None else int(end)
    _in_range(start, text)
    _in_range(last, text)
    if start > last:
        raise ValueError(f"invalid substring range. start: {start}, end: {last}")
    return StringType(str(text)[start:last])


def _char_at(text: str, index: int) -> StringType:
    _in_range(index, _of(text, StringType))
    return StringType(str(text)[index : index + 1])


def _in_range(index: int, text: str) -> None:
    if not 0 <= _of(index, IntType, int) <= len(text):
        raise ValueError(f"index out of range: {index}")


def _ascii(text: str, upper: bool) -> StringType:
    changed = (each.upper() if upper else each.lower() for each in _of(text, StringType))
    return StringType("".join(new if old.isascii() else old for old, new in zip(text, changed, strict=True)))


def _replace(text: str, old: str, new: str, limit: int = -1) -> StringType:
    return StringType(str(_of(text, StringType)).replace(_of(old, StringType), _of(new, StringType), int(limit)))


def _split(text: str, separator: str, limit: int = -1) -> ListType:
    whole = str(_of(text, StringType))
    if limit == 0:
        return ListType([])
    parts = whole.split(str(separator), limit - 1 if limit > 0 else -1) if separator else list(whole)
    return ListType([StringType(part) for part in parts])


def _join(values: Any, separator: str = "") -> StringType:
    return StringType(str(separator).join(_of(value, StringType) for value in _of(values, ListType)))


def _contains_all(values: Any, wanted: Any) -> BoolType:
    return BoolType(all(any(item == each for item in _of(values, ListType)) for each in _of(wanted, ListType)))


def _intersects(values: Any, others: Any) -> BoolType:
    return BoolType(any(item == each for item in _of(values, ListType) for each in _of(others, ListType)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": lambda text: Quantity.parse(_of(text, StringType)),
    "isQuantity": partial(_parses, Quantity.parse),
    "sign": _sign,
    "isInteger": lambda one: BoolType(_of(one, Quantity).whole is not None),
    "asInteger": _as_integer,
    "asApproximateFloat": lambda one: DoubleType(_of(one, Quantity).nanos / NANO),
    "add": lambda one, more: Quantity(_of(one, Quantity).nanos + _amount(more)),
    "sub": lambda one, less: Quantity(_of(one, Quantity).nanos - _amount(less)),
    "isGreaterThan": lambda one, other: BoolType(_compare(one, other) > 0),
    "isLessThan": lambda one, other: BoolType(_compare(one, other) < 0),
    "compareTo": lambda one, other: IntType(_compare(one, other)),
    "semver": _semver,
    "isSemver": _is_semver,
    "major": lambda version: IntType(_of(version, Semver).major),
    "minor": lambda version: IntType(_of(version, Semver).minor),
    "patch": lambda version: IntType(_of(version, Semver).patch),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": partial(_extreme, choose=min, name="min"),
    "max": partial(_extreme, choose=max, name="max"),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "substring": _substring,
    "charAt": _char_at,
    "lowerAscii": partial(_ascii, upper=False),
    "upperAscii": partial(_ascii, upper=True),
    "trim": lambda text: StringType(str(_of(text, StringType)).strip()),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "reverse": lambda values: ListType(reversed(_of(values, ListType))),
    "distinct": lambda values: ListType(
        item for index, item in enumerate(values) if not any(item == before for before in values[:index])
    ),
    "sets.contains": _contains_all,
    "sets.equivalent": lambda one, other: BoolType(_contains_all(one, other) and _contains_all(other, one)),
    "sets.intersects": _intersects,
}
