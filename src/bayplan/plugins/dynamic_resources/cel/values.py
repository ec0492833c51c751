"""Values that Kubernetes adds to CEL: quantities, semantic versions, and maps in which no domain is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from celpy import celtypes

from bayplan.api import quantity

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)
_MAX_UINT64 = 2**64 - 1


@total_ordering
@dataclass(frozen=True, slots=True, eq=True)
class Quantity:
    """A `kubernetes.Quantity`, in nano-units."""

    nanos: int

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Of a text. Raises InvalidQuantity, a ValueError."""
        return cls(quantity.parse(text))

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    @property
    def whole(self) -> int | None:
        """The value, if it is an integer of 64 bits."""
        value, rest = divmod(self.nanos, quantity.NANO)
        return value if not rest and -(2**63) <= value < 2**63 else None


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A `kubernetes.Semver`: equal and ordered by precedence, in which build metadata does not count."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Of a text in the strict form of semver 2.0.0. Raises ValueError."""
        match = _SEMVER.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a semantic version: expected major.minor.patch, as in 1.2.3")
        major, minor, patch = (int(part) for part in match.group(1, 2, 3))
        if max(major, minor, patch) > _MAX_UINT64:
            raise ValueError(f"{text!r} is not a semantic version: a number does not fit into 64 bits")
        return cls(major, minor, patch, tuple(match[4].split(".")) if match[4] else ())

    @classmethod
    def parse_tolerantly(cls, text: str) -> Semver:
        """Of a text that may begin with v, leave parts out or have leading zeros. Raises ValueError."""
        parts = text.removeprefix("v").split(".", 2)
        for index, part in enumerate(parts):
            if len(part) > 1:
                stripped = part.lstrip("0")
                parts[index] = stripped if stripped[:1].isdigit() else f"0{stripped}"
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise ValueError("short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

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


class DomainMap(celtypes.MapType):
    """A map by domain: one that is not there reads as an empty map, though it is not `in` the map."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if key in self else celtypes.MapType()
