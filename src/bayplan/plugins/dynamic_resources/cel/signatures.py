"""What functions take and give, for the checker. Types are names; `dyn` is any, `ordered` what can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DYN = "dyn"

DEVICE = {
    "driver": "string",
    "allowMultipleAllocations": "bool",
    "attributes": "attributes",
    "capacity": "capacities",
}
"""The fields of `device`, with their types."""

KEYED = frozenset({"map", "attributes", "capacities", "quantities"})
"""The types of what is looked up by keys."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload of a function; for a method the receiver comes first."""

    arguments: tuple[str, ...]
    result: str

    def takes(self, types: Sequence[str]) -> bool:
        """Whether arguments of these types may be right."""
        return len(types) == len(self.arguments) and all(
            DYN in {given, wanted} or given == wanted or (wanted == "map" and given in KEYED)
            for given, wanted in zip(types, self.arguments, strict=True)
        )


def _overloads(*texts: str) -> tuple[Signature, ...]:
    """Of texts such as `string int -> bool`."""
    found = []
    for text in texts:
        arguments, _, result = text.partition("->")
        found.append(Signature(tuple(arguments.split()), result.strip()))
    return tuple(found)


_COMPARED = ("quantity quantity -> {0}", "semver semver -> {0}")
_TIME = ("timestamp -> int", "timestamp string -> int")
_SIZES = ("string -> int", "bytes -> int", "list -> int", "map -> int")

PLAIN: dict[str, tuple[Signature, ...]] = {
    "bool": _overloads("bool -> bool", "string -> bool"),
    "bytes": _overloads("bytes -> bytes", "string -> bytes"),
    "double": _overloads("double -> double", "int -> double", "uint -> double", "string -> double"),
    "duration": _overloads("duration -> duration", "string -> duration"),
    "dyn": _overloads("dyn -> dyn"),
    "int": _overloads("int -> int", "uint -> int", "double -> int", "string -> int", "timestamp -> int"),
    "matches": _overloads("string string -> bool"),
    "size": _overloads(*_SIZES),
    "string": _overloads(
        *(f"{each} -> string" for each in ("string", "bool", "int", "uint", "double", "bytes", "timestamp", "duration"))
    ),
    "timestamp": _overloads("timestamp -> timestamp", "string -> timestamp", "int -> timestamp"),
    "type": _overloads("dyn -> type"),
    "uint": _overloads("uint -> uint", "int -> uint", "double -> uint", "string -> uint"),
    "quantity": _overloads("string -> quantity"),
    "isQuantity": _overloads("string -> bool"),
    "semver": _overloads("string -> semver", "string bool -> semver"),
    "isSemver": _overloads("string -> bool", "string bool -> bool"),
}

METHODS: dict[str, tuple[Signature, ...]] = {
    "size": _overloads(*_SIZES),
    "startsWith": _overloads("string string -> bool"),
    "endsWith": _overloads("string string -> bool"),
    "contains": _overloads("string string -> bool"),
    "matches": _overloads("string string -> bool"),
    "find": _overloads("string string -> string"),
    "findAll": _overloads("string string -> list", "string string int -> list"),
    "sign": _overloads("quantity -> int"),
    "isInteger": _overloads("quantity -> bool"),
    "asInteger": _overloads("quantity -> int"),
    "asApproximateFloat": _overloads("quantity -> double"),
    "add": _overloads("quantity quantity -> quantity", "quantity int -> quantity"),
    "sub": _overloads("quantity quantity -> quantity", "quantity int -> quantity"),
    "isGreaterThan": _overloads(*(each.format("bool") for each in _COMPARED)),
    "isLessThan": _overloads(*(each.format("bool") for each in _COMPARED)),
    "compareTo": _overloads(*(each.format("int") for each in _COMPARED)),
    "major": _overloads("semver -> int"),
    "minor": _overloads("semver -> int"),
    "patch": _overloads("semver -> int"),
    "isSorted": _overloads("list -> bool"),
    "sum": _overloads("list -> dyn"),
    "min": _overloads("list -> dyn"),
    "max": _overloads("list -> dyn"),
    "indexOf": _overloads("list dyn -> int", "string string -> int", "string string int -> int"),
    "lastIndexOf": _overloads("list dyn -> int", "string string -> int"),
    "charAt": _overloads("string int -> string"),
    "substring": _overloads("string int -> string", "string int int -> string"),
    "lowerAscii": _overloads("string -> string"),
    "upperAscii": _overloads("string -> string"),
    "trim": _overloads("string -> string"),
    "replace": _overloads("string string string -> string", "string string string int -> string"),
    "split": _overloads("string string -> list", "string string int -> list"),
    "join": _overloads("list -> string", "list string -> string"),
    "reverse": _overloads("list -> list"),
    "distinct": _overloads("list -> list"),
    **{
        name: _overloads(*_TIME)
        for name in (
            "getDate",
            "getDayOfMonth",
            "getDayOfWeek",
            "getDayOfYear",
            "getFullYear",
            "getMonth",
        )
    },
    **{
        name: _overloads(*_TIME, "duration -> int")
        for name in ("getHours", "getMilliseconds", "getMinutes", "getSeconds")
    },
}

NAMESPACES: dict[str, dict[str, tuple[Signature, ...]]] = {
    "sets": {name: _overloads("list list -> bool") for name in ("contains", "equivalent", "intersects")}
}

MACROS: dict[str, frozenset[int]] = {
    "map": frozenset({2, 3}),
    "filter": frozenset({2}),
    "all": frozenset({2, 3}),
    "exists": frozenset({2, 3}),
    "exists_one": frozenset({2}),
    "existsOne": frozenset({2, 3}),
}
"""The macros, with how many arguments they take."""
