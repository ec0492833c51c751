"""Scaling of raw scores that may be negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.plugin import MAX_NODE_SCORE

Scores = NDArray[np.int64]


def scale_to_range(scores: Scores, least: int = 0) -> Scores:
    """Scale scores so that the lowest one becomes `least`, and the highest one 100. Equal scores become `least`."""
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.full_like(scores, least)
    return (scores - lowest) * (MAX_NODE_SCORE - least) // (highest - lowest) + least
