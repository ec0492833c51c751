"""Finds the strings that a plugin looks for, such as label keys, so that random clusters contain them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from bayplan.core.framework.functions import FunctionPlugin
from bayplan.core.framework.interface import Plugin

_MOST = 30
_WORD = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def words_of(plugin: object, arguments: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return the strings in a plugin's arguments and code that could be label keys or values.

    The code of a plugin is its methods, and the functions, classes and constants that these use of its package.
    """
    cls = plugin if isinstance(plugin, type) else type(plugin)
    code = (
        [plugin.function]
        if isinstance(plugin, FunctionPlugin)
        else [each for each in cls.__mro__ if each is not Plugin]
    )
    packages = {_package(each) for each in code} - {"builtins"}
    texts = _texts([arguments, *code], packages, set())
    return tuple(dict.fromkeys(text for text in texts if _WORD.fullmatch(text) and not text.isdigit()))[:_MOST]


def _texts(values: Iterable[Any], packages: set[str], seen: set[Any]) -> Iterator[str]:
    for value in values:
        inner: Iterable[Any] = ()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            inner = (*value, *value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            inner = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        elif isinstance(value, FunctionPlugin):
            inner = [value.function]
        elif isinstance(value, type | FunctionType) and value not in seen and _package(value) in packages:
            seen.add(value)
            inner = _members(value) if isinstance(value, type) else _constants(value.__code__, value.__globals__)
        yield from _texts(inner, packages, seen)


def _members(cls: type) -> Iterator[Any]:
    for name, member in vars(cls).items():
        if name in {"__init__", "__call__"} or not (name.startswith("__") or name == "name"):
            yield getattr(member, "fget", None) or getattr(member, "__func__", member)


def _constants(code: CodeType, known: Mapping[str, Any]) -> Iterator[Any]:
    for constant in code.co_consts:
        yield from _constants(constant, known) if isinstance(constant, CodeType) else [constant]
    yield from (known[name] for name in code.co_names if name in known)


def _package(value: Any) -> str:
    module = str(value.__module__)
    return module.rpartition(".")[0] or module
