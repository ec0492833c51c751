"""Parsed values that objects with equal texts share.

Pods of one workload have the same selectors and quantities; each distinct text is parsed and stored once. Results must
not be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

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


def shared_while_used(parse: Callable[[bytes, str], R]) -> Callable[[bytes, str], R]:
    """Keep results as `shared` does, and those of longer texts as long as something uses them.

    Results must allow weak references.
    """
    short, used = shared(parse), WeakValueDictionary[tuple[bytes, str], R]()

    @wraps(parse)
    def call(text: bytes, context: str, /) -> R:
        if len(text) <= LONGEST:
            return short(text, context)
        key = blake2b(text).digest(), context
        result = used.get(key)
        if result is None:
            result = used[key] = parse(text, context)
        return result

    return call
