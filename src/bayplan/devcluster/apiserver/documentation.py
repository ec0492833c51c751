"""The API documentation of types and fields, from the docstrings of lightkube-models."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

_PARAMETER = re.compile(r"\s*\* \*\*(\w+)\*\* ``[^`]*`` - ?(.*)")
_WIDTH = 78
"""The docstrings are wrapped at this width, without blank lines between paragraphs."""


def describe(kind: str, field: str = "") -> str:
    """The description of a field, or of the type without one; "" if there is none. Types are those of the table."""
    return _descriptions(kind).get(field, "")


@cache
def _descriptions(kind: str) -> dict[str, str]:
    """The descriptions by field, and that of the type under ""."""
    module, _, name = kind.rpartition(".")
    model = getattr(import_module(f"lightkube.models.{module}"), name)
    text, _, parameters = (model.__doc__ or "").partition("**parameters**")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    described = {"": lines}
    names: dict[str, str] = {}
    if parameters:
        names.update(zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True))
    for line in parameters.splitlines():
        match = _PARAMETER.match(line)
        if match is not None:
            lines = described.setdefault(names[match[1]], [match[2]])
        elif line.strip():
            lines.append(line.strip())
    return {field: _paragraphs(lines) for field, lines in described.items()}


def _paragraphs(lines: list[str]) -> str:
    """Joins wrapped lines. A paragraph ends where the next word would have fitted in the line."""
    text = ""
    for number, line in enumerate(lines):
        following = lines[number + 1].split(" ", 1)[0] if number + 1 < len(lines) else ""
        text += line
        if following:
            fitted = number > 0 and line.endswith(".") and len(line) + 1 + len(following) <= _WIDTH
            text += "\n\n" if fitted else " "
    return text
