"""Measures two schedulers in turns, so that a slow moment of the machine counts for both."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Protocol

TURN = 100
"""Pods of a turn."""


class Placing(Protocol):
    """Places numbered pods, and adds the CPU time that they take to `seconds`."""

    seconds: float

    def place(self, numbers: Iterable[int]) -> None:
        """Decide and assume pods."""


def rates_in_turns(pods: int, *schedulers: Placing) -> list[float]:
    """Let each place as many pods, and return the pods per second of each. The first turn fills columns: it's free."""
    gc.collect()
    gc.freeze()
    for begin in range(-TURN, pods, TURN):
        for each in schedulers:
            each.place(range(begin, begin + TURN))
            if begin < 0:
                each.seconds = 0.0
    gc.unfreeze()
    return [pods / each.seconds for each in schedulers]
