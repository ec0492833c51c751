"""Arithmetic as in Go, where upstream's scores depend on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.int64]
Floats = NDArray[np.float64]


def divided(dividend: Scores, divisor: int | Scores) -> Scores:
    """Divide integers, and round toward zero, where Python rounds down. The divisor must not be 0."""
    quotient = dividend // divisor
    inexact = quotient * divisor != dividend
    result: Scores = quotient + (inexact & ((dividend < 0) != (np.asarray(divisor) < 0)))
    return result


def rounded(values: Floats) -> Scores:
    """Round to the nearest integer, and halves away from zero, where NumPy rounds them to even ones. As math.Round."""
    return np.trunc(values + np.copysign(0.5, values)).astype(np.int64)


def scaled(scores: Scores, lowest: int, highest: int) -> Scores:
    """Scale scores from the range of all of them to another one. Scores that are all alike become `lowest`."""
    if not len(scores):
        return scores
    least = scores.min()
    span = scores.max() - least
    if not span:
        return np.full_like(scores, lowest)
    return divided((scores - least) * (highest - lowest), span) + lowest
