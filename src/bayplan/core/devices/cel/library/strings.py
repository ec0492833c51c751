"""Strings. Mirrors version 2 of cel-go's ext/strings.go and the string functions of its standard library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.devices.cel.costs import check_length
from bayplan.core.devices.cel.values import CelError

_QUOTED = {ord(each): f"\\{letter}" for each, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}


def quoted(text: str) -> str:
    """The CEL literal of a string."""
    return f'"{text.translate(_QUOTED)}"'


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """The index of the first occurrence of `part` at or after `offset`; -1 if there is none. Raises CelError."""
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """The index of the last occurrence of `part` at or before `offset`; -1 if there is none. Raises CelError."""
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        if len(text.encode()) < len(part.encode()):
            return -1
        offset = len(text) - 1
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    check_length(len(text) + text.count(old) * len(new))
    return str(text).replace(old, new, max(int(limit), -1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    characters = list(text)
    return characters if limit < 0 or limit >= len(characters) else [*characters[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:last]


def _join(values: list[Any], separator: str = "") -> str:
    if any(not isinstance(value, str) for value in values):
        raise CelError("join: invalid input: all elements must be strings")
    check_length(sum(map(len, values)) + len(values) * len(separator))
    return separator.join(values)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": lambda text, part: str(part) in str(text),
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "charAt": _char_at,
    "lowerAscii": lambda text: text.encode().lower().decode(),
    "upperAscii": lambda text: text.encode().upper().decode(),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": lambda text: text.strip(),
    "strings.quote": quoted,
    "join": _join,
}
