"""The cost of calls. Mirrors cel-go's interpreter/runtimecost.go, ext/lists.go and ext/sets.go, and Kubernetes'
pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any

from celpy.celtypes import IntType, ListType, MapType

from bayplan.devices.cel.values import URL, Format, Optional, Quantity, Semver

MAX_COST = 1_000_000
"""The maximum cost of one evaluation. Mirrors resourceapi.CELSelectorExpressionMaxCost."""

NEW_LIST, NEW_MAP = 10, 30
CHARGED_AFTERWARDS = frozenset({"join", "lists.range", "reverse", "slice"})
"""The functions whose cost depends on their result. All others are charged first, and not called above the limit."""

_MAX_COPIED = 10 * MAX_COST

_Cost = Callable[[Sequence[Any], Any], int]
_CONSTANT_TIME = (Quantity, Semver, IPv4Address, IPv6Address, URL, Format)


class CostExceeded(Exception):
    """An evaluation exceeded its cost limit."""


class Meter:
    """The cost of an evaluation so far."""

    __slots__ = ("_copied", "limit", "spent")

    def __init__(self, limit: int = MAX_COST) -> None:
        self.spent = 0
        self.limit = limit
        self._copied = 0

    def spend(self, cost: int) -> None:
        """Add a cost. Raises CostExceeded above the limit."""
        self.spent += cost
        if self.spent > self.limit:
            raise CostExceeded

    def copy(self, elements: int) -> None:
        """Count the elements of concatenated lists. Raises CostExceeded above a limit.

        Concatenation costs one unit upstream, which shares the elements. It is limited here because it copies them.
        """
        self._copied += elements
        if self._copied > _MAX_COPIED:
            raise CostExceeded


def check_length(length: int) -> None:
    """Limit the length of a result, since upstream's costs depend on the arguments only. Raises CostExceeded."""
    if length > MAX_COST:
        raise CostExceeded


def call_cost(name: str, arguments: Sequence[Any], result: Any) -> int:
    """The cost of a call to the function declared as `name`. `result` is None before the call.

    Raises CostExceeded if the cost itself takes too long to compute.
    """
    of_function = _COSTS.get(name) or _COSTS.get(name.removeprefix("."))
    return 1 if of_function is None else of_function(arguments, result)


def size(value: Any) -> int:
    """The number of elements, characters or bytes of a value; 1 for scalars."""
    match value:
        case Optional():
            return size(value.value) if value.present else 1
        case str() | bytes() | ListType() | MapType():
            return len(value)
        case IPv4Interface() | IPv6Interface():
            return -(-value.network.prefixlen // 8)
        case IPv4Address() | IPv6Address():
            return value.max_prefixlen // 8
    return 1


def _tenths(amount: int, times: int = 1) -> int:
    """The cost of traversing a string, rounded up in floating point like upstream."""
    return math.ceil(amount * times * 0.1)


def _traversal(arguments: Sequence[Any], _: Any) -> int:
    """The cost of traversing a value and everything inside it."""
    cost, left, stack = 0, MAX_COST, [arguments[0]]
    while stack:
        left -= 1
        if left < 0:
            raise CostExceeded
        match stack.pop():
            case str() as text:
                cost += int(len(text.encode(errors="surrogatepass")) * 0.1)
            case bytes() as data:
                cost += int(len(data) * 0.1)
            case ListType() as elements:
                stack += elements
            case MapType() as entries:
                stack += [part for entry in entries.items() for part in entry]
            case _:
                cost += 1
    return cost


def _containment(arguments: Sequence[Any], _: Any) -> int:
    network = size(arguments[0])
    return _tenths(network, 2) + (_tenths(size(arguments[1])) if isinstance(arguments[1], str) else 0)


def _network_containment(arguments: Sequence[Any], _: Any) -> int:
    return _containment(arguments, _) + _tenths(size(arguments[0])) + 1


def _by_length(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(size(arguments[0])) if isinstance(arguments[0], (str, bytes)) else 1


def _by_double_length(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(size(arguments[0]), 2)


def _search(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(1 + size(arguments[0])) * math.ceil(size(arguments[1]) * 0.25)


def _validation(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(1 + size(arguments[1])) * math.ceil(getattr(arguments[0], "pattern_size", 1) * 0.25)


def _allocation(factor: float, amount: int) -> int:
    return int(amount * factor) + 1 + NEW_LIST


def _new_list(_: Sequence[Any], result: Any) -> int:
    return _allocation(1, size(result))


def _flattening(arguments: Sequence[Any], _: Any) -> int:
    depth = arguments[1] if len(arguments) == 2 and type(arguments[1]) is IntType else 1
    return max(_allocation(int(depth), size(arguments[0])), 0)


def _comparisons(arguments: Sequence[Any], _: Any) -> int:
    values = arguments[-1]
    if not isinstance(values, ListType) or not values:
        return _allocation(2, 0)
    return _allocation(2.1 if isinstance(values[0], (str, bytes)) else 2, len(values) ** 2)


def _sets(factor: int) -> _Cost:
    return lambda arguments, _: 1 + size(arguments[0]) * size(arguments[1]) * factor


def _equality(arguments: Sequence[Any], _: Any) -> int:
    return 1 if isinstance(arguments[0], _CONSTANT_TIME) else _shorter(arguments, _)


def _shorter(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(min(size(arguments[0]), size(arguments[1])))


def _order(arguments: Sequence[Any], _: Any) -> int:
    return _shorter(arguments, _) if isinstance(arguments[0], (str, bytes)) else 1


def _addition(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(sum(map(size, arguments))) if isinstance(arguments[0], (str, bytes)) else 1


def _substring_search(arguments: Sequence[Any], _: Any) -> int:
    return _tenths(size(arguments[0])) * _tenths(size(arguments[1]))


_COSTS: dict[str, _Cost] = {
    "lists.range": _new_list,
    "slice": _new_list,
    "reverse": _new_list,
    "flatten": _flattening,
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _comparisons),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "ip", "isIP", "isCIDR"), _by_length
    ),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _by_length),
    "bytes": lambda arguments, _: _by_length(arguments, _) if isinstance(arguments[0], str) else 1,
    "string": lambda arguments, _: _by_length(arguments, _) if isinstance(arguments[0], bytes) else 1,
    **dict.fromkeys(("startsWith", "endsWith", "strings.quote", "format"), _by_length),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _by_double_length),
    "join": lambda _, result: _tenths(size(result), 2),
    **dict.fromkeys(("find", "findAll", ".matches"), _search),
    "validate": _validation,
    "contains": _substring_search,
    "containsIP": _containment,
    "containsCIDR": _network_containment,
    **dict.fromkeys(("_==_", "_!=_"), _equality),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    "_+_": _addition,
    "@in": lambda arguments, _: size(arguments[1]) if isinstance(arguments[1], ListType) else 1,
}
