"""`'...'.format([...])`. Mirrors cel-go's ext/formatting.go with the locale en_US."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bayplan.core.devices.cel.costs import check_length
from bayplan.core.devices.cel.library.conversions import string_of
from bayplan.core.devices.cel.library.strings import quoted
from bayplan.core.devices.cel.values import CelError, TypeValue, type_name

_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]*))?(.?))", re.DOTALL)
_INTEGERS, _DOUBLES, _HEXADECIMAL = {"int", "uint"}, {"double", "string"}, {"int", "uint", "string", "bytes"}
_TIMES = {"google.protobuf.Timestamp", "google.protobuf.Duration"}
_TAKES = {
    "s": {"list", "map", "bool", "type", "null_type", *_INTEGERS, *_DOUBLES, *_HEXADECIMAL, *_TIMES},
    "d": _INTEGERS,
    "f": _DOUBLES,
    "e": _DOUBLES,
    "b": {*_INTEGERS, "bool"},
    "x": _HEXADECIMAL,
    "X": _HEXADECIMAL,
    "o": _INTEGERS,
}
_PRECISION, _MAX_PRECISION = 6, 1000
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def check_format(text: str, types: Sequence[Sequence[str]]) -> None:
    """Check that a format string matches arguments of types with these names. Raises CelError.

    An argument that is a literal has its own type, and then those of all its elements, which only %s looks at.
    """
    clauses = [match for match in _clauses(text) if match[0] != "%%"]
    for index, clause in enumerate(clauses):
        if index >= len(types):
            raise CelError(f"index {index} out of range")
        for name in types[index] if clause[2] == "s" else types[index][:1]:
            _check(clause[2], name)
    if len(types) > len(clauses):
        counts = f"(expected {len(clauses)}, got {len(types)})"
        raise CelError(f"too many arguments supplied to string.format {counts}")


def _format(text: str, values: list[Any]) -> str:
    written, position, used = [], 0, 0
    for match in _clauses(text):
        written.append(text[position : match.start()])
        position = match.end()
        if match[0] == "%%":
            written.append("%")
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        _check(match[2], type_name(values[used]))
        written.append(_WRITERS[match[2]](values[used], int(match[1]) if match[1] else _PRECISION))
        used += 1
    return "".join([*written, text[position:]])


def _clauses(text: str) -> list[re.Match[str]]:
    found = list(_CLAUSE.finditer(text))
    for match in found:
        digits, kind = match.groups()
        if match[0] == "%%":
            continue
        if not kind:
            raise CelError("unexpected end of string")
        parsing = "could not parse formatting clause"
        if digits is not None and (not digits or len(digits) > 4 or int(digits) > _MAX_PRECISION):
            raise CelError(f"{parsing}: error while parsing precision: error while converting precision to integer")
        if kind not in _TAKES:
            raise CelError(f'{parsing}: unrecognized formatting clause "{kind}"')
    return found


def _check(kind: str, name: str) -> None:
    if name != "dyn" and name not in _TAKES[kind]:
        raise CelError(f"error during formatting: %{kind} cannot write a value of type {name}")


def _string(value: Any, _: int) -> str:
    match value:
        case list():
            return f"[{_joined(map(_literal, value))}]"
        case dict():
            pairs = sorted((_literal(key), _literal(each)) for key, each in value.items())
            return f"{{{_joined(f'{key}:{each}' for key, each in pairs)}}}"
        case None:
            return "null"
    return string_of(value)


def _joined(parts: Iterable[str]) -> str:
    length, written = 0, []
    for part in parts:
        length += len(part)
        check_length(length)
        written.append(part)
    return ", ".join(written)


def _literal(value: Any) -> str:
    """The CEL literal of a value, as in formatted lists and maps."""
    match value:
        case str():
            return quoted(value)
        case bytes():
            return f"b{quoted(string_of(value))}"
        case float():
            return f"{value:.{_PRECISION}f}" if math.isfinite(value) else f'"{string_of(value)}"'
        case datetime():
            return f"timestamp({quoted(string_of(value))})"
        case timedelta():
            return f"duration({quoted(string_of(value))})"
        case TypeValue():
            return f"type({value.name})"
    _check("s", type_name(value))
    return _string(value, _PRECISION)


def _double(value: Any) -> float:
    if isinstance(value, str) and value not in {"NaN", "Infinity", "-Infinity"}:
        _check("d", "string")
    return float(value)


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(value: Any, digits: int) -> str:
    number = _double(value)
    return f"{number:,.{digits}f}" if math.isfinite(number) else _special(number)


def _scientific(value: Any, digits: int) -> str:
    number = _double(value)
    if not math.isfinite(number):
        return _special(number)
    written, _, exponent = f"{number:.{digits}e}".partition("e")
    power = f"{'-' if exponent[0] == '-' else ''}{abs(int(exponent)):02d}"
    return f"{written}\u202f×\u202f10{power.translate(_SUPERSCRIPT)}"


def _hexadecimal(value: Any, _: int) -> str:
    if isinstance(value, (str, bytes)):
        return (value.encode() if isinstance(value, str) else value).hex()
    return f"{int(value):x}"


_WRITERS: dict[str, Callable[[Any, int], str]] = {
    "s": _string,
    "d": lambda value, _: str(int(value)),
    "f": _fixed,
    "e": _scientific,
    "b": lambda value, _: f"{int(value):b}",
    "x": _hexadecimal,
    "X": lambda value, _: _hexadecimal(value, 0).upper(),
    "o": lambda value, _: f"{int(value):o}",
}

FUNCTIONS: dict[str, Callable[..., Any]] = {"format": _format}
