"""Answers that are short enough for a model: lists and texts are cut, and what was cut is said."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

MOST = 20_000
"""The most characters of an answer: some 5,000 to 8,000 tokens."""
_LEVELS = (
    (100, 4000),
    (50, 2000),
    (20, 1000),
    (10, 500),
    (5, 300),
    (2, 200),
    (1, 100),
    (0, 50),
)
"""The most items of a list, and the most characters of a text. The first ones that are short enough are used."""
_FIELDS = 40
"""An object with more keys is cut like a list: its keys are names, not fields."""
_NAMED = 5
"""The most cut parts to name."""


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """An answer as JSON in ASCII, so that invisible characters in it are seen. `cut`: which parts are not complete."""

    text: str
    cut: tuple[str, ...] = ()


def shortened(answer: dict[str, Any], most: int = MOST) -> ShortAnswer:
    """Return an answer with at most that many characters."""
    text = json.dumps(answer)
    if len(text) <= most:
        return ShortAnswer(text)
    for items, characters in _LEVELS:
        cutting = _Cutting(items, characters)
        text = json.dumps(cutting.of(answer, ()))
        if len(text) <= most:
            return ShortAnswer(text, cutting.named())
    return ShortAnswer("{}", ("all of it",))


@dataclass(slots=True)
class _Cutting:
    items: int
    characters: int
    lists: dict[str, int] = field(default_factory=dict)
    """part -> the most items that it has somewhere"""
    texts: dict[str, None] = field(default_factory=dict)

    def of(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value with shorter parts. `path`: the fields that lead to it."""
        if isinstance(value, str):
            if len(value) <= self.characters:
                return value
            self.texts[".".join(path)] = None
            return f"{value[: self.characters]}..."
        if isinstance(value, list):
            return [self.of(item, path) for item in self._first(value, path)]
        if isinstance(value, dict):
            if len(value) <= _FIELDS:
                return {key: self.of(item, (*path, key)) for key, item in value.items()}
            return {key: self.of(value[key], path) for key in self._first(list(value), path)}
        return value

    def _first(self, items: list[Any], path: tuple[str, ...]) -> list[Any]:
        if len(items) > self.items:
            part = ".".join(path)
            self.lists[part] = max(len(items), self.lists.get(part, 0))
        return items[: self.items]

    def named(self) -> tuple[str, ...]:
        """What was cut, for the model."""
        found = [f"{part}: {self.items:,} of {number:,}" for part, number in self.lists.items()]
        found += [f"{part}: long texts" for part in self.texts]
        return (*found[:_NAMED], *([f"{len(found) - _NAMED:,} other parts"] if len(found) > _NAMED else []))
