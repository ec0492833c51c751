"""Parsed values that objects with equal texts share."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

CAPACITY = 1024
LONGEST = 4096
"""Longer texts are parsed each time. Otherwise, the texts of deleted objects could take any amount of memory."""

P = ParamSpec("P")
R = TypeVar("R")
Text = TypeVar("Text", bound=Sized)


def shared(parse: Callable[Concatenate[Text, P], R]) -> Callable[Concatenate[Text, P], R]:
    """Keep the results of a pure function for the latest texts. Its arguments must be hashable."""
    remembered: Callable[..., R] = lru_cache(maxsize=CAPACITY)(parse)

    @wraps(parse)
    def call(text: Text, /, *rest: P.args, **options: P.kwargs) -> R:
        if len(text) > LONGEST:
            return parse(text, *rest, **options)
        return remembered(text, *rest, **options)

    return call
