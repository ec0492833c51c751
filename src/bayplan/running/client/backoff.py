"""Exponential backoff between attempts, with jitter so that many clients don't retry in step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits after consecutive failures, in seconds.

    The n-th wait (from 0) is `initial * factor**n`, at most `longest`, plus up to `jitter` times that at random.
    """

    initial: float = 0.2
    longest: float = 15.0
    factor: float = 2.0
    jitter: float = 0.5

    def waits(self, rng: random.Random) -> Iterator[float]:
        """The waits in order, endlessly."""
        wait = self.initial
        while True:
            yield wait * (1 + self.jitter * rng.random())
            wait = min(wait * self.factor, self.longest)
