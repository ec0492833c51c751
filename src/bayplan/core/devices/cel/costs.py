"""The cost of calls. Mirrors cel-go's interpreter/runtimecost.go, ext/lists.go and ext/sets.go, and Kubernetes'
pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any

from bayplan.core.devices.cel.values import URL, Format, Optional, Quantity, Semver

MAX_COST = 1_000_000
"""The maximum cost of one evaluation. Mirrors resourceapi.CELSelectorExpressionMaxCost."""

NEW_LIST, NEW_MAP = 10, 30
CHARGED_AFTERWARDS = frozenset({"join", "lists.range", "reverse", "slice"})
"""The functions whose cost depends on their result. All others are charged first, and not called above the limit."""

_MAX_COPIED = 10 * MAX_COST
_INTERVAL = 10_000
"""The cost between two checkpoints."""

Cost = Callable[[Sequence[Any], Any], int]
_SCALARS = frozenset({bool, int, float})
_CONSTANT_TIME = (Quantity, Semver, IPv4Address, IPv6Address, URL, Format)


class CostExceeded(Exception):
    """An evaluation exceeded its cost limit."""


Frame = list[Any]
"""The state of one evaluation: see the indexes below. The values of its variables follow."""
SPENT, STOP, METER, DEVICE, FACTS, FIRST_VARIABLE = range(6)
"""What has been spent, the amount at which the meter is asked, the meter, the variable `device`, and its facts."""


class Meter:
    """Limits evaluations: their cost, and, with a `checkpoint` that raises an exception, their time.

    `spent` is the cost of the last evaluation. The checkpoint is called every few milliseconds.
    """

    __slots__ = ("_copied", "checkpoint", "limit", "spent")

    def __init__(self, limit: int = MAX_COST, checkpoint: Callable[[], None] | None = None) -> None:
        self.spent = 0
        self.limit = limit
        self.checkpoint = checkpoint
        self._copied = 0

    def run(self, code: Callable[[Frame], Any], size: int, device: Any = None, facts: Any = None) -> Any:
        """Evaluate an expression with `size` variables. Raises CostExceeded, and what the checkpoint raises."""
        self._copied = 0
        frame = [0, min(self.limit, _INTERVAL), self, device, facts, *[None] * size]
        try:
            value = code(frame)
        finally:
            self.spent = frame[SPENT]
        if self.spent > self.limit:
            raise CostExceeded
        return value

    def check(self, frame: Frame) -> None:
        """Handle that an evaluation has reached the next stop. Raises CostExceeded, and what the checkpoint raises."""
        if frame[SPENT] > self.limit:
            raise CostExceeded
        if self.checkpoint is not None:
            self.checkpoint()
        frame[STOP] = min(self.limit, frame[SPENT] + _INTERVAL)

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


def cost_of(name: str) -> Cost | None:
    """The function for the cost of calls to the function declared as `name`; None if each costs 1.

    It is called with the arguments and the result, which is None before the call. It raises CostExceeded if the cost
    itself takes too long to compute.
    """
    return _COSTS.get(name) or _COSTS.get(name.removeprefix("."))


def size(value: Any) -> int:
    """The number of elements, characters or bytes of a value; 1 for scalars."""
    match value:
        case Optional():
            return size(value.value) if value.present else 1
        case str() | bytes() | list() | dict():
            return len(value)
        case IPv4Interface() | IPv6Interface():
            return -(-value.network.prefixlen // 8)
        case IPv4Address() | IPv6Address():
            return value.max_prefixlen // 8
    return 1


def tenths(amount: int, times: int = 1) -> int:
    """The cost of traversing a string, rounded up in floating point like upstream."""
    return math.ceil(amount * times * 0.1)


def _traversal(arguments: Sequence[Any], _: Any) -> int:
    """The cost of traversing a value and everything inside it."""
    if type(arguments[0]) is list and _SCALARS.issuperset(map(type, arguments[0])):
        return len(arguments[0])
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
            case list() as elements:
                stack += elements
            case dict() as entries:
                stack += [part for entry in entries.items() for part in entry]
            case _:
                cost += 1
    return cost


def _containment(arguments: Sequence[Any], _: Any) -> int:
    network = size(arguments[0])
    return tenths(network, 2) + (tenths(size(arguments[1])) if isinstance(arguments[1], str) else 0)


def _by_length(arguments: Sequence[Any], _: Any) -> int:
    return tenths(size(arguments[0])) if _is_text(arguments[0]) else 1


def _matching(text: int, pattern: int) -> int:
    """The cost of matching a text with a pattern of these sizes."""
    return tenths(1 + text) * math.ceil(pattern * 0.25)


def _allocation(factor: float, amount: int) -> int:
    return int(amount * factor) + 1 + NEW_LIST


def _flattening(arguments: Sequence[Any], _: Any) -> int:
    depth = arguments[1] if len(arguments) == 2 and type(arguments[1]) is int else 1
    return max(_allocation(int(depth), size(arguments[0])), 0)


def _comparisons(arguments: Sequence[Any], _: Any) -> int:
    values = arguments[-1]
    if not isinstance(values, list) or not values:
        return _allocation(2, 0)
    return _allocation(2.1 if _is_text(values[0]) else 2, len(values) ** 2)


def _equality(arguments: Sequence[Any], _: Any) -> int:
    return 1 if isinstance(arguments[0], _CONSTANT_TIME) else _shorter(arguments, _)


def _shorter(arguments: Sequence[Any], _: Any) -> int:
    return tenths(min(size(arguments[0]), size(arguments[1])))


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes))


_COSTS: dict[str, Cost] = {
    **dict.fromkeys(("lists.range", "slice", "reverse"), lambda _, result: _allocation(1, size(result))),
    "flatten": _flattening,
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _comparisons),
    **dict.fromkeys(("sets.contains", "sets.intersects"), lambda given, _: 1 + size(given[0]) * size(given[1])),
    "sets.equivalent": lambda given, _: 1 + 2 * size(given[0]) * size(given[1]),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "ip", "isIP", "isCIDR"), _by_length
    ),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _by_length),
    "bytes": lambda given, _: _by_length(given, _) if isinstance(given[0], str) else 1,
    "string": lambda given, _: _by_length(given, _) if isinstance(given[0], bytes) else 1,
    **dict.fromkeys(("startsWith", "endsWith", "strings.quote", "format"), _by_length),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), lambda given, _: tenths(size(given[0]), 2)),
    "join": lambda _, result: tenths(size(result), 2),
    **dict.fromkeys(("find", "findAll", ".matches"), lambda given, _: _matching(size(given[0]), size(given[1]))),
    "validate": lambda given, _: _matching(size(given[1]), getattr(given[0], "pattern_size", 1)),
    "contains": lambda given, _: tenths(size(given[0])) * tenths(size(given[1])),
    "containsIP": _containment,
    "containsCIDR": lambda given, _: _containment(given, _) + tenths(size(given[0])) + 1,
    **dict.fromkeys(("_==_", "_!=_"), _equality),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), lambda given, _: _shorter(given, _) if _is_text(given[0]) else 1),
    "_+_": lambda given, _: tenths(sum(map(size, given))) if _is_text(given[0]) else 1,
    "@in": lambda given, _: size(given[1]) if isinstance(given[1], list) else 1,
}
