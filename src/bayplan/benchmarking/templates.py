"""Objects in YAML with computed numbers. Mirrors getSpecFromTextTemplateFile and getTemplateFuncs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from bayplan.core.config.documents import parse_yaml


class BenchmarkError(ValueError):
    """A benchmark that can't be found, read or run to its end. The message says which one, where, and why."""


class Unsupported(Exception):
    """A workload needs something that doesn't exist here; the message names it."""


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "Add": lambda *numbers: sum(numbers),
    "Subtract": lambda one, other: one - other,
    "Multiply": lambda *numbers: math.prod(numbers),
    "Divide": lambda one, other: one / other,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "Mod": lambda one, other: int(one) % int(other),
    **{f"{name}Float": function for name, function in _ARITHMETIC.items()},
    **{f"{name}Int": lambda *numbers, f=function: int(f(*numbers)) for name, function in _ARITHMETIC.items()},
}
_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_OUTSIDE_NAMES = re.compile(r"(?<![a-z]{2}-)\{\{")
_MARK = re.compile("\ue000(\\d+)\ue001")
"""Stands for an action while YAML is parsed, which is then done once for all objects of a template."""


@dataclass(frozen=True, slots=True)
class ObjectTemplate:
    """An object in YAML, which may contain `{{.Index}}`, `{{.Count}}` and functions of them."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> ObjectTemplate:
        """The template in a file. Raises BenchmarkError."""
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BenchmarkError(f"{path}: {error.strerror}") from None

    @property
    def varies(self) -> bool:
        """Whether objects differ by their index."""
        return "{{" in self.text

    def document(self, index: int, count: int) -> dict[str, Any]:
        """The object for an index. Raises BenchmarkError, and Unsupported for an unknown function."""
        texts = [self._text_of(action, index, count) for action in _ACTION.finditer(self.text)]
        if self._only_in_names:
            marks = [f"\ue000{number}\ue001" for number in range(len(texts))]
            json = _MARK.sub(lambda mark: texts[int(mark[1])], _parsed(self._filled(marks), str(self.path)))
        else:
            json = _parsed(self._filled(texts), str(self.path))
        document: dict[str, Any] = msgspec.json.decode(json)
        return document

    @property
    def _only_in_names(self) -> bool:
        """Whether all actions are in strings such as `pod-{{.Index}}`, so that no number decides a value's type."""
        return "\ue000" not in self.text and not _OUTSIDE_NAMES.search(self.text)

    def _filled(self, texts: Iterable[str]) -> str:
        """The template with its actions replaced, in order."""
        remaining = iter(texts)
        return _ACTION.sub(lambda _: next(remaining), self.text)

    def _text_of(self, action: re.Match[str], index: int, count: int) -> str:
        variables = {".Index": float(index), ".Count": float(count)}
        name, *arguments = action[1].split()
        try:
            if not arguments:
                return _text(variables[name])
            numbers = [variables[each] if each in variables else float(each) for each in arguments]
            return _text(_FUNCTIONS[name](*numbers))
        except KeyError:
            raise Unsupported(f"the template {self.path.name} with {action[0]}") from None
        except (ValueError, TypeError, ZeroDivisionError) as error:
            raise BenchmarkError(f"{self.path}: {action[0]}: {error}") from None


@lru_cache(maxsize=1024)
def _parsed(text: str, source: str) -> str:
    """Return an object in YAML as JSON. Templates have few distinct texts, and parsing YAML takes a millisecond."""
    document = parse_yaml(text, source)
    if isinstance(document, dict) and str(document.get("kind", "Pod")) in _WITH_AMOUNTS:
        document = _with_quantities(document)
    return msgspec.json.encode(document).decode()


def _with_quantities(value: Any, *, amounts: bool = False) -> Any:
    """Turn numbers that are quantities into strings. `amounts`: whether the value has quantities by resource."""
    if isinstance(value, list):
        return [_with_quantities(each) for each in value]
    if not isinstance(value, dict):
        return value
    if amounts:
        return {name: str(amount) for name, amount in value.items()}
    return {name: _with_quantities(each, amounts=name in _AMOUNTS) for name, each in value.items()}


_WITH_AMOUNTS = frozenset({"Node", "Pod"})
"""Kinds with quantities by resource. Templates of these need no kind."""
_AMOUNTS = frozenset({"requests", "limits", "capacity", "allocatable"})
"""Fields with quantities by resource."""


def _text(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
