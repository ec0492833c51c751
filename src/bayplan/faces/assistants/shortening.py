"""Answers that are short enough for a model: lists and texts are cut, and what was cut is said.

Texts of a cluster may be written to mislead a model. An answer with such texts is JSON in ASCII, so that all of it is
seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.insight.answers import Answer

MOST = 20_000
"""The most characters of an answer: some 5,000 to 8,000 tokens."""
_LEVELS = (
    (100, 100, 4000),
    (100, 20, 2000),
    (100, 10, 1000),
    (100, 5, 1000),
    (100, 3, 500),
    (100, 1, 500),
    (100, 1, 300),
    (50, 1, 300),
    (20, 1, 300),
    (10, 1, 300),
    (5, 1, 200),
    (2, 1, 100),
    (1, 0, 100),
    (0, 0, 50),
)
"""The most items of a list, and of the lists in its items, and the most characters of a text.

The first ones that are short enough are used: an answer lacks examples of a cause before it lacks a cause.
"""
_FIELDS = 40
"""An object with more keys is cut like a list: its keys are names, not fields."""
_NAMED = 5
"""The most cut parts to name."""


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """An answer in ASCII, so that invisible characters in it are seen. `cut`: which parts are not complete.

    `json`: whether it is JSON, and not the text of the command. `brief`: whether it has the next steps first.
    """

    text: str
    cut: tuple[str, ...] = ()
    json: bool = True
    brief: bool = False


def short_answer(answer: Answer, most: int = MOST) -> ShortAnswer:
    """Return the text of the command if it is short, else JSON.

    Texts of the cluster could pass for lines of that text, or hide something in it; then, too, it is JSON.
    """
    document = answer.to_dict()
    if _is_plain(document):
        text = answer.text()
        if len(text) <= most:
            return ShortAnswer(text, json=False)
    return shortened(document, most)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def brief_answer(answer: Answer, most: int, shown: int = 3) -> ShortAnswer:
    """Return an answer in a few lines: its first one, the first next steps, and as many others as there is room for.

    As for `short_answer`, it is JSON if texts of the cluster could pass for lines. `shown`: the most next steps.
    """
    document, steps = answer.to_dict(), [_cut(step, most // 5) for step in answer.next_steps[:shown]]
    if not _is_plain(document):
        steps = [_cut(ascii(step)[1:-1], most // 5) for step in steps]
        rest = shortened(document, most - len(json.dumps({"next": steps, "answer": {}})))
        text = json.dumps({"next": steps, "answer": json.loads(rest.text)})
        return ShortAnswer(text, rest.cut, brief=True)
    lines = [line for line in answer.text().splitlines() if line.strip()]
    found, left = [_cut(lines[0], most // 5), *(f"next: {step}" for step in steps)], lines[1:]
    room = most - sum(len(line) + 1 for line in found)
    while left and len(left[0]) < room:
        room -= len(left[0]) + 1
        found.append(left.pop(0))
    more = len(left) + max(len(answer.next_steps) - shown, 0)
    return ShortAnswer("\n".join(found), (f"{more:,} more lines",) if more else (), json=False, brief=True)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _is_plain(document: dict[str, Any]) -> bool:
    """Whether no text could pass for several lines, or hide something."""
    return all(text.isascii() and text.isprintable() for text in _texts(document))


def shortened(answer: dict[str, Any], most: int = MOST) -> ShortAnswer:
    """Return an answer with at most that many characters."""
    text = json.dumps(answer)
    if len(text) <= most:
        return ShortAnswer(text)
    for items, inner, characters in _LEVELS:
        cutting = _Cutting(items, inner, characters)
        text = json.dumps(cutting.of(answer, ()))
        if len(text) <= most:
            return ShortAnswer(text, cutting.named())
    return ShortAnswer("{}", ("all of it",))


@dataclass(slots=True)
class _Cutting:
    items: int
    inner: int
    characters: int
    lists: dict[str, tuple[int, int]] = field(default_factory=dict)
    """part -> how many items are left of the most that it has somewhere"""
    texts: dict[str, None] = field(default_factory=dict)

    def of(self, value: Any, path: tuple[str, ...], depth: int = 0) -> Any:
        """Return a value with shorter parts. `path`: the fields that lead to it. `depth`: the lists that it is in."""
        if isinstance(value, str):
            if len(value) <= self.characters:
                return value
            self.texts[".".join(path)] = None
            return f"{value[: self.characters]}..."
        if isinstance(value, list):
            return [self.of(item, path, depth + 1) for item in self._first(value, path, depth)]
        if isinstance(value, dict):
            if len(value) <= _FIELDS:
                return {key: self.of(item, (*path, key), depth) for key, item in value.items()}
            return {key: self.of(value[key], path, depth + 1) for key in self._first(list(value), path, depth)}
        return value

    def _first(self, items: list[Any], path: tuple[str, ...], depth: int) -> list[Any]:
        most = self.inner if depth else self.items
        if len(items) > most:
            part = ".".join(path)
            self.lists[part] = most, max(len(items), self.lists.get(part, (0, 0))[1])
        return items[:most]

    def named(self) -> tuple[str, ...]:
        """What was cut, for the model."""
        found = [f"{part}: {most:,} of {number:,}" for part, (most, number) in self.lists.items()]
        found += [f"{part}: long texts" for part in self.texts]
        return (*found[:_NAMED], *([f"{len(found) - _NAMED:,} other parts"] if len(found) > _NAMED else []))
