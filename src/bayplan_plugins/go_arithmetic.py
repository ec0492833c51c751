"""Arithmetic as in Go, where upstream's scores depend on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.plugin import MAX_NODE_SCORE

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


def turned(scores: Scores) -> Scores:
    """Turn scores around, in floating point: the lowest becomes 100, the highest 0. Scores that are all 0 stay so."""
    if not scores.any():
        return scores
    lowest, span = scores.min(), int(scores.max()) - int(scores.min())
    share = float(MAX_NODE_SCORE) * (scores - lowest).astype(np.float64) / float(span or 1)
    found: Scores = MAX_NODE_SCORE - np.trunc(share).astype(np.int64)
    return found
