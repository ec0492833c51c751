"""The usual way to bring raw scores into 0 to 100. Mirrors plugins/helper/normalize_score.go."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.columns import Int64
from bayplan.framework.interface import MAX_NODE_SCORE


def scale_to_best(scores: Int64, *, reverse: bool = False) -> Int64:
    """Raw scores (not negative) scaled so that the highest becomes 100; with `reverse`, so that zero does."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled
