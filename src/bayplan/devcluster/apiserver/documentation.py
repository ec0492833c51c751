"""The API's documentation of types and fields, from the docstrings of the models."""

from __future__ import annotations

import re
from functools import cache

from bayplan.devcluster.apiserver.schema import Model

_PARAMETER = re.compile(r"\s*\* \*\*(\w+)\*\* ``[^`]*`` - ?(.*)")
_WIDTH = 78
"""The docstrings of the models are wrapped to this width, without the paragraphs of the original texts."""


@cache
def field_descriptions(model: Model) -> dict[str, str]:
    """Returns the documentation of a type's fields, by their names in Python."""
    _, _, parameters = (model.__doc__ or "").partition("**parameters**")
    described: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in parameters.splitlines():
        match = _PARAMETER.match(line)
        if match is not None:
            lines = described.setdefault(match[1], [match[2]])
        elif line.strip():
            lines.append(line.strip())
    return {field: _paragraphs(lines) for field, lines in described.items()}


@cache
def type_description(model: Model) -> str:
    """Returns the documentation of the type itself."""
    text, _, _ = (model.__doc__ or "").partition("**parameters**")
    return _paragraphs([line.strip() for line in text.splitlines() if line.strip()])


def describe(model: Model, field: str) -> str:
    """Returns the documentation of a field, "" if there is none."""
    return field_descriptions(model).get(field, "")


def _paragraphs(lines: list[str]) -> str:
    """Joins wrapped lines. A line that had room for the next word ends a paragraph."""
    text = ""
    for number, line in enumerate(lines):
        following = lines[number + 1].split(" ", 1)[0] if number + 1 < len(lines) else ""
        text += line
        if following:
            fitted = number > 0 and line.endswith(".") and len(line) + 1 + len(following) <= _WIDTH
            text += "\n\n" if fitted else " "
    return text
