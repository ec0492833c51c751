"""Suggestions for names that don't exist."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def did_you_mean(name: str, known: Collection[str]) -> str:
    """`: did you mean 'weight'?`, or "" if no known name is similar."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.8)
    close = close or [each for each in by_lower if sorted(each) == sorted(name.lower())]  # letters in another order
    return f": did you mean {by_lower[close[0]]!r}?" if close else ""


def or_known(name: str, known: Collection[str]) -> str:
    """The same, or all known names if none is similar."""
    return did_you_mean(name, known) or (f": expected one of {', '.join(known)}" if known else "")
