"""The words that a plugin looks for: label keys and values, annotations, resources, as they stand in its code.

Random clusters without them would never touch a plugin that reads the label `example.com/tier`.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from bayplan.framework.functions import FunctionPlugin
from bayplan.framework.interface import Plugin

_MOST = 30
_WORD = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def words_of(plugin: object, arguments: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Every text in the plugin's arguments and code, and in what that uses of its package, that could be a label."""
    if isinstance(plugin, FunctionPlugin):
        used: list[object] = [plugin.function]
    else:
        classes = plugin.__mro__ if isinstance(plugin, type) else type(plugin).__mro__
        used = [cls for cls in classes if cls not in {object, Plugin}]
    texts = (*_texts(arguments), *_Reader(used).texts())
    return tuple(dict.fromkeys(text for text in texts if _WORD.fullmatch(text) and not text.isdigit()))[:_MOST]


class _Reader:
    """Reads code, and whatever functions, classes and constants of the same packages it names."""

    def __init__(self, used: list[object]) -> None:
        self._used = used
        self._packages = {_package(value) for value in used}
        self._seen: set[int] = set()

    def texts(self) -> Iterator[str]:
        for value in self._used:
            yield from self._read(value, {})

    def _read(self, value: object, names: Mapping[str, Any]) -> Iterator[str]:
        if isinstance(value, CodeType):
            yield from self._read_code(value, names)
        elif isinstance(value, FunctionType | type | FunctionPlugin):
            if id(value) in self._seen or _package(value) not in self._packages:
                return
            self._seen.add(id(value))
            if isinstance(value, FunctionType):
                yield from self._read_code(value.__code__, value.__globals__)
            elif isinstance(value, FunctionPlugin):
                yield from self._read(value.function, {})
            else:
                yield from self._read_class(value)
        else:
            yield from _texts(value)

    def _read_code(self, code: CodeType, names: Mapping[str, Any]) -> Iterator[str]:
        for instruction in dis.get_instructions(code):  # neither docstrings nor the names of arguments
            if "CONST" in instruction.opname:
                yield from self._read(instruction.argval, names)
        for name in code.co_names:
            if name in names:
                yield from self._read(names[name], names)

    def _read_class(self, cls: type) -> Iterator[str]:
        for attribute, value in vars(cls).items():
            method = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if (not attribute.startswith("__") and attribute != "name") or attribute in {"__init__", "__call__"}:
                yield from self._read(method, {})


def _package(value: object) -> str:
    function = value.function if isinstance(value, FunctionPlugin) else value
    return str(getattr(function, "__module__", "")).rpartition(".")[0] or str(getattr(function, "__module__", ""))


def _texts(value: object) -> Iterator[str]:
    """The texts of data, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, set | frozenset):
        yield from sorted(each for each in value if isinstance(each, str))
