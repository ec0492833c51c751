"""Simple JSON paths, for printer columns, selectable fields and scales.

Mirrors client-go's util/jsonpath for fields, indices, slices, wildcards and filters; recursive descent, unions and
ranges are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

Find = Callable[[Any], list[Any]]
"""value -> the values at a path in it; none if part of the path is missing."""

_Step = Callable[[Any], Iterable[Any]]


class InvalidPath(ValueError):
    """A string that is not a path, or a path that is not supported."""


def compile_path(text: str) -> Find:
    """A function that finds the values at a path. Raises InvalidPath."""
    steps: list[_Step] = []
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position) or _BRACKETS.match(text, position)
        if match is None:
            raise InvalidPath(f"unrecognized character in path at {text[position:]!r}")
        steps.append(_bracket(match["inside"]) if match.re is _BRACKETS else _field(match["name"]))
        position = match.end()

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [result for one in found for result in step(one)]
        return found

    return find


_FIELD = re.compile(r"\.(?P<name>(?:\\.|[^.\[\]\\])*)")
_BRACKETS = re.compile(r"""\[(?P<inside>(?:'[^']*'|"[^"]*"|[^\]'"])*)\]""")
_SLICE = re.compile(r"(-?\d*):(-?\d*)")
_FILTER = re.compile(r"""\?\(\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>.+?)\s*)?\)""")


def _field(name: str) -> _Step:
    if name == "*":
        return _all
    if not name:
        return lambda value: [value]
    key = re.sub(r"\\(.)", r"\1", name)
    return lambda value: [value[key]] if isinstance(value, dict) and key in value else []


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _bracket(inside: str) -> _Step:
    if inside == "*":
        return _all
    if len(inside) > 1 and inside[0] in "'\"" and inside[-1] == inside[0]:
        return _field(re.sub(r"([\\*])", r"\\\1", inside[1:-1]))
    if re.fullmatch(r"-?\d+", inside):
        index = int(inside)
        return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    if (bounds := _SLICE.fullmatch(inside)) is not None:
        start, end = (int(bound) if bound else None for bound in bounds.groups())
        return lambda value: value[start:end] if isinstance(value, list) else []
    if (matched := _FILTER.fullmatch(inside)) is not None:
        return _filter(compile_path(matched["path"]), matched["operator"] or "", matched["literal"] or "")
    raise InvalidPath(f"unrecognized index [{inside}]")


def _filter(find: Find, operator: str, literal: str) -> _Step:
    expected = _literal(literal) if operator else None

    def passes(value: Any) -> bool:
        found = find(value)
        if not operator:
            return bool(found)
        if not found:
            return False
        return _compare(found[0], operator, expected)

    return lambda value: [one for one in _all(value) if passes(one)]


def _literal(text: str) -> Any:
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text)
    except ValueError as error:
        raise InvalidPath(f"unrecognized value {text} in a filter") from error


def _compare(value: Any, operator: str, expected: Any) -> bool:
    if operator == "==":
        return bool(value == expected)
    if operator == "!=":
        return bool(value != expected)
    if isinstance(expected, str) != isinstance(value, str) or not isinstance(value, (str, int, float)):
        return False
    below, equal = bool(value < expected), bool(value == expected)
    return {"<": below, "<=": below or equal, ">": not below and not equal, ">=": not below}[operator]
