"""Common ways to scale raw scores to 0 to 100. Mirrors plugins/helper/normalize_score.go and shape_score.go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.core.cluster.columns import Int64
from bayplan.core.framework.interface import MAX_NODE_SCORE

MAX_SHAPE_SCORE = 10
"""The highest score of a point of a utilization shape."""


def scale_to_best(scores: Int64, *, reverse: bool = False) -> Int64:
    """Scale non-negative raw scores so that the highest becomes 100; with `reverse`, so that 0 becomes 100.

    `scores`: int64, any shape. Returns int64 of the same shape.
    """
    highest = max(scores.item(scores.argmax()), 0) if scores.size else 0
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def utilization_curve(points: Sequence[tuple[int, int]]) -> Int64:
    """Interpolate linearly between points (utilization in percent, score from 0 to 10).

    `points`: at least one, sorted by utilization. Returns int64, shape (101,): the score from 0 to 100 at every
    percentage. Mirrors helper/shape_score.go.
    """
    scaled = [(utilization, score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for utilization, score in points]
    return np.array([_interpolate(scaled, percentage) for percentage in range(101)], dtype=np.int64)


def _interpolate(points: Sequence[tuple[int, int]], at: int) -> int:
    for index, (utilization, score) in enumerate(points):
        if at <= utilization:
            if index == 0:
                return score
            before, base = points[index - 1]
            return base + int((score - base) * (at - before) / (utilization - before))
    return points[-1][1]
