"""Lists and sets. Mirrors Kubernetes' pkg/cel/library/lists.go, and cel-go's ext/lists.go and ext/sets.go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cmp_to_key, partial, reduce
from itertools import pairwise
from operator import le
from typing import Any

from bayplan.core.devices.cel.costs import MAX_COST, CostExceeded
from bayplan.core.devices.cel.library import strings
from bayplan.core.devices.cel.library.conversions import string_of
from bayplan.core.devices.cel.library.operators import FUNCTIONS as OPERATORS
from bayplan.core.devices.cel.library.operators import clashes, comparable, compare, contains, equals, find
from bayplan.core.devices.cel.values import LARGEST_INT, NUMBERS, CelError, NoSuchOverload

_INCLUDED = 48
"""The maximum length of a list for `includes`. Mirrors ResourceSliceMaxAttributeValuesPerDevice."""


def _are_integers(values: list[Any]) -> bool:
    return set(map(type, values)) == {int}


def _is_sorted(values: list[Any]) -> bool:
    if _are_integers(values):
        return all(map(le, values, values[1:]))
    return all(compare(before, after) <= 0 for before, after in pairwise(values))


def _sum(values: list[Any]) -> Any:
    if values and type(values[0]) not in {*NUMBERS, timedelta}:
        raise NoSuchOverload
    if _are_integers(values) and max(map(abs, values)) * len(values) <= LARGEST_INT:
        return sum(values)
    return reduce(OPERATORS["_+_"], values) if values else 0


def _extreme(values: list[Any], name: str, wanted: int) -> Any:
    if not values:
        raise CelError(f"{name} called on empty list")
    if _are_integers(values):
        return max(values) if wanted > 0 else min(values)
    return reduce(lambda found, value: value if compare(value, found) == wanted else found, values)


def _index_of(values: Any, wanted: Any, *more: int) -> int:
    if isinstance(values, str):
        return strings.index_of(values, wanted, *more)
    return next((index for index, value in enumerate(values) if equals(value, wanted)), -1)


def _last_index_of(values: Any, wanted: Any, *more: int) -> int:
    if isinstance(values, str):
        return strings.last_index_of(values, wanted, *more)
    return next((index for index in reversed(range(len(values))) if equals(values[index], wanted)), -1)


def _range(count: int) -> list[int]:
    if count > MAX_COST:  # the list would exceed the cost limit, so don't create it
        raise CostExceeded
    return list(range(count))


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    found: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth > 0:
            found += _flatten(value, int(depth) - 1)
            if len(found) > MAX_COST:
                raise CostExceeded
        else:
            found.append(value)
    return found


def _sort_by(values: list[Any], keys: list[Any]) -> list[Any]:
    if any(not comparable(key) for key in keys):
        raise CelError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelError("list elements must have the same type")
    order = cmp_to_key(compare)
    return [values[place] for place in sorted(range(len(keys)), key=lambda place: order(keys[place]))]


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(equals(value, each) for each in found):
            found.append(value)
    return found


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(contains(values, each) for each in wanted)


def insert(target: dict[Any, Any], more: dict[Any, Any]) -> None:
    """Add all entries of `more` to `target`. Raises CelError if a key exists already."""
    for key, value in more.items():
        if find(target, key).present:
            raise CelError(f"insert failed: key {string_of(key)} already exists")
        if clashes(target, key):
            raise CelError("keys of a map are of different types")
        target[key] = value


def _includes(target: Any, wanted: Any) -> bool:
    if not isinstance(target, list):
        return equals(target, wanted)
    if any(equals(value, wanted) for value in target[:_INCLUDED]):
        return True
    if len(target) > _INCLUDED:
        raise CelError(f"'includes' function cannot be applied to lists longer than {_INCLUDED} values")
    return False


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": partial(_extreme, name="min", wanted=-1),
    "max": partial(_extreme, name="max", wanted=1),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "slice": _slice,
    "flatten": _flatten,
    "sort": lambda values: _sort_by(values, values),
    "@sortByAssociatedKeys": _sort_by,
    "lists.range": _range,
    "reverse": lambda values: values[::-1],
    "distinct": _distinct,
    "sets.contains": _contains_all,
    "sets.equivalent": lambda one, other: _contains_all(one, other) and _contains_all(other, one),
    "sets.intersects": lambda values, others: any(contains(others, value) for value in values),
    "includes": _includes,
}
