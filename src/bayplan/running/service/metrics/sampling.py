"""Sampler: chooses a random share of what is done to be measured, so that the rest pays nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import TypeVar

_BATCH = 20
"""How many samples are made at a time."""

T = TypeVar("T")


class Sampler:
    """Chooses samples. `share`: of all items, 0 to 1; all are equally likely."""

    def __init__(self, share: float, rng: random.Random | None = None) -> None:
        self._share = share
        self._random = (rng or random.Random()).random

    def samples(self, make: Callable[[int], T]) -> Iterator[T | None]:
        """Endless: mostly None, and for each sample `make(n)`, where `n` is the distance to the previous sample."""

        def blocks() -> Iterator[Iterator[Iterable[T | None]]]:
            while True:  # creating a batch at a time is much faster
                gaps = [self._gap() for _ in range(_BATCH)]
                made: list[tuple[T | None]] = [(make(gap + 1),) for gap in gaps]
                yield chain.from_iterable(zip((repeat(None, gap) for gap in gaps), made, strict=True))

        return chain.from_iterable(chain.from_iterable(blocks()))

    def _gap(self) -> int:
        """The number of items to skip before the next sample."""
        if self._share >= 1:
            return 0
        return int(math.log(1.0 - self._random()) / math.log(1.0 - self._share))
