"""Names that hardly differ from one that doesn't exist, such as a label value with a typing error."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 2000
"""The most names to compare."""


def near_name(name: str, names: Iterable[str], least: float = 0.65) -> str | None:
    """Return the most similar one of these names; None if none is similar. `least`: how similar, up to 1."""
    known = dict.fromkeys(names)
    known.pop(name, None)
    if len(known) > _MOST:
        return None
    same = next((each for each in known if each.lower() == name.lower()), None)
    return same or next(iter(get_close_matches(name, known, 1, least)), None)
