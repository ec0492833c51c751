"""CEL's types and their assignability. Mirrors cel-go's common/types and checker/types.go.

The checker (`checking.py`) finds a type for each expression before it runs, with the messages of cel-go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_SHORT = {
    "google.protobuf.Any": "any",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}
_FULL = {short: full for full, short in _SHORT.items() if short not in {"any", "null"}} | {
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "url": "kubernetes.URL",
    "format": "kubernetes.NamedFormat",
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "optional": "optional_type",
}
_PRIMITIVE = frozenset({"bool", "bytes", "double", "int", "string", "uint", "list", "map", "type"})
_WORD = re.compile(r"\w+|[(),]")


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `name` is what `type()` returns; the name of a type parameter starts with a question mark."""

    name: str
    parameters: tuple[Type, ...] = ()

    @property
    def free(self) -> bool:
        """Whether it is a type parameter."""
        return self.name.startswith("?")

    @property
    def dynamic(self) -> bool:
        """Whether the type is known only at run time."""
        return self.name in {"dyn", "google.protobuf.Any"}

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parameters))
        name = _SHORT.get(self.name, self.name)
        return f"{name}({inner})" if inner else name

    @property
    def declared(self) -> str:
        """The full name, including the type parameters."""
        inner = ", ".join(parameter.declared for parameter in self.parameters)
        return f"{self.name}({inner})" if inner else self.name


ANY, BOOL, DYN, INT, STRING = (Type(name) for name in ("google.protobuf.Any", "bool", "dyn", "int", "string"))


def list_of(element: Type) -> Type:
    """The type of lists of an element type."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return Type("map", (key, value))


def optional_of(inner: Type) -> Type:
    """The type of optionals."""
    return Type("optional_type", (inner,))


def read(text: str) -> tuple[Type, ...]:
    """Parse the types of a declaration, such as `list(A), int`. A single capital letter is a type parameter."""
    levels: list[list[Type]] = [[]]
    for word in _WORD.findall(text):
        if word == "(":
            levels.append([])
        elif word == ")":
            inner = tuple(levels.pop())
            levels[-1].append(Type(levels[-1].pop().name, inner))
        elif word != ",":
            levels[-1].append(Type(f"?{word}" if len(word) == 1 else _FULL.get(word, word)))
    return tuple(levels[0])


@dataclass(slots=True)
class Unifier:
    """The known bindings of type parameters. A successful `assignable` adds to them."""

    known: dict[str, Type] = field(default_factory=dict)
    _made: int = 0

    def free(self) -> Type:
        """A new, unbound type parameter."""
        self._made += 1
        return Type(f"?{self._made}")

    def instance(self, types: Sequence[Type]) -> tuple[Type, ...]:
        """The types with their type parameters replaced by new ones."""
        fresh: dict[str, Type] = {}

        def renewed(of: Type) -> Type:
            if of.free:
                return fresh.setdefault(of.name, self.free())
            return Type(of.name, tuple(map(renewed, of.parameters))) if of.parameters else of

        return tuple(map(renewed, types))

    def assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether all given types can be assigned to the wanted ones, or the other way round."""
        before = dict(self.known)
        if self._all(given, wanted):
            return True
        self.known = before
        return False

    def substitute(self, of: Type, unknown: Type | None = None) -> Type:
        """The type with bound parameters replaced. Unbound parameters stay, or become `unknown`."""
        if of.free:
            return self.substitute(self.known[of.name], unknown) if of.name in self.known else unknown or of
        return Type(of.name, tuple(self.substitute(each, unknown) for each in of.parameters)) if of.parameters else of

    def _all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        return len(given) == len(wanted) and all(self._one(*pair) for pair in zip(given, wanted, strict=True))

    def _one(self, given: Type, wanted: Type) -> bool:
        if wanted.free or given.free:
            parameter, other = (wanted, given) if wanted.free else (given, wanted)
            return self._bind(parameter, other)
        if given.dynamic or wanted.dynamic:
            return True
        if "null_type" in {given.name, wanted.name}:
            other = wanted if given.name == "null_type" else given
            return other.name not in _PRIMITIVE
        if given.name == wanted.name == "type":
            return True
        return given.name == wanted.name and self._all(given.parameters, wanted.parameters)

    def _bind(self, parameter: Type, given: Type) -> bool:
        if given == parameter:
            return True
        bound = self.known.get(parameter.name)
        if bound is not None:
            if given != bound and not self._one(given, bound):
                return False
            given = more_general(given, bound)
        if not self._within(parameter, given):
            self.known[parameter.name] = given
            return True
        return bound is not None

    def _within(self, parameter: Type, of: Type) -> bool:
        if of.free:
            return of == parameter or (of.name in self.known and self._within(parameter, self.known[of.name]))
        return any(self._within(parameter, each) for each in of.parameters)


def more_general(one: Type, other: Type) -> Type:
    """The more general of two compatible types."""
    return one if _covers(one, other) else other


def _covers(one: Type, other: Type) -> bool:
    if one.dynamic or one.free:
        return True
    if one.name == "type":
        return other.name == "type"
    return one.name == other.name and all(map(_covers, one.parameters, other.parameters))
