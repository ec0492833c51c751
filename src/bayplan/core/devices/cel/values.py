"""CEL's values: Python's own types as far as they are the same, and the types that Python lacks.

bool, int, float, str, bytes, list, dict and None are CEL's types; datetime and timedelta are timestamps and durations,
with a resolution of a microsecond. Values are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import total_ordering
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, NamedTuple

from bayplan.core.api import quantity

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)


class CelError(ValueError):
    """An error of a function. Evaluation converts it to a Failure, a value that && and || absorb."""


class NoSuchOverload(CelError):
    """A function or operator doesn't support the types of its arguments."""

    def __init__(self, message: str = "no such overload") -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Failure:
    """The result of a subexpression that failed."""

    message: str


NO_OVERLOAD = Failure("no such overload")


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=True)
class Quantity:
    """A `kubernetes.Quantity`, in nano-units. As upstream, a `computed` one can't be the right operand of ==.

    `integer`: whether upstream keeps it as a 64-bit integer.
    """

    nanos: int
    computed: bool = False
    integer: bool = True

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Parse a quantity. Raises InvalidQuantity, a ValueError."""
        return cls(quantity.parse(text), integer=quantity.is_integer(text))

    @property
    def whole(self) -> int | None:
        """The value if it is kept as an integer, else None."""
        return self.nanos // quantity.NANO if self.integer else None

    def plus(self, other: Quantity) -> Quantity:
        """Return the sum. It is kept as both are; a zero counts for nothing."""
        nanos = self.nanos + other.nanos
        parts = [one for one in (self, other) if one.nanos] or [self]
        integer = all(one.integer for one in parts) and -(2**63) <= nanos // quantity.NANO < 2**63
        return Quantity(nanos, computed=True, integer=integer)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A `kubernetes.Semver`. Equality and order ignore build metadata."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Parse a strict semver 2.0.0 version. Raises ValueError."""
        match = _SEMVER.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a semantic version: expected major.minor.patch, such as 1.2.3")
        numbers = [*match.group(1, 2, 3), *(part for part in (match[4] or "").split(".") if part.isdigit())]
        if any(len(number) > 20 or int(number) > LARGEST_UINT for number in numbers):
            raise ValueError(f"{text!r} is not a semantic version: a number does not fit into 64 bits")
        major, minor, patch = (int(number) for number in numbers[:3])
        return cls(major, minor, patch, tuple(match[4].split(".")) if match[4] else (), match[5] or "")

    @classmethod
    def parse_tolerant(cls, text: str) -> Semver:
        """Parse a version that can start with v, omit parts or have leading zeros. Raises ValueError."""
        parts = text.removeprefix("v").split(".", 2)
        for index, part in enumerate(parts):
            if len(part) > 1:
                stripped = part.lstrip("0")
                parts[index] = stripped if stripped[:1] in set("0123456789") else f"0{stripped}"
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise ValueError("short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

    def __str__(self) -> str:
        pre, build = f"-{'.'.join(self.pre)}" if self.pre else "", f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    @property
    def _key(self) -> tuple[Any, ...]:
        pre = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return self.major, self.minor, self.patch, not pre, pre

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key == other._key

    def __lt__(self, other: Semver) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)


def is_semver(text: str) -> bool:
    """Whether a text has the form of a semver 2.0.0 version."""
    return _SEMVER.fullmatch(text) is not None


class Optional(NamedTuple):
    """An optional value."""

    present: bool
    value: Any = None


ABSENT = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class URL:
    """A `kubernetes.URL`, split into its parts."""

    text: str
    scheme: str
    host: str
    hostname: str
    port: str
    path: str
    query: str


@dataclass(frozen=True, slots=True)
class Format:
    """A `kubernetes.NamedFormat`. `validate` returns the errors of a text."""

    name: str
    validate: Callable[[str], list[str]]
    pattern_size: int
    """The length of the format's regular expression, for the cost of a validation."""


class DomainMap(dict[Any, Any]):
    """A map by domain. Selecting a missing domain returns an empty map, although the domain isn't `in` the map."""


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DomainMap: "map",
    Optional: "optional_type",
    TypeValue: "type",
    timedelta: "google.protobuf.Duration",
    datetime: "google.protobuf.Timestamp",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    **dict.fromkeys((IPv4Address, IPv6Address), "net.IP"),
    **dict.fromkeys((IPv4Interface, IPv6Interface), "net.CIDR"),
    URL: "kubernetes.URL",
    Format: "kubernetes.NamedFormat",
}

_GO_TYPES: dict[type, str] = {
    Optional: "*types.Optional",
    TypeValue: "*types.Type",
    float: "types.Double",
    type(None): "types.Null",
    timedelta: "types.Duration",
    datetime: "types.Timestamp",
    Format: "*cel.Format",
    **{each: f"types.{name.capitalize()}" for each, name in _NAMES.items() if each in {bool, int, Uint, str, bytes}},
}

PRIMITIVE = frozenset({bool, int, Uint, float, str})
"""The types of keys and indexes."""
NUMBERS = frozenset({int, Uint, float})
LEAST_INT, LARGEST_INT, LARGEST_UINT = -(2**63), 2**63 - 1, 2**64 - 1


def type_name(value: Any) -> str:
    """The name that `type()` returns for a value."""
    return _NAMES[type(value)]


def go_type(value: Any) -> str:
    """The type of a value that isn't a list or map as cel-go's messages name it."""
    return _GO_TYPES.get(type(value)) or f"cel.{type_name(value).rpartition('.')[2]}"
