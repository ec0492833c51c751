"""The scoring strategies of NodeResourcesFit: from the share of every resource to a score of the node.

Mirrors plugins/noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio}.go. A node that has nothing
of a resource is scored by the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bayplan.cluster.columns import Int64
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.plugins.arguments import (
    LEAST_ALLOCATED,
    MAX_SHAPE_SCORE,
    MOST_ALLOCATED,
    ScoringStrategy,
    UtilizationShapePoint,
)
from bayplan.plugins.node_resources.shares import ScoredResource

Strategy = Callable[[Sequence[ScoredResource], int], Int64]
"""(resources, number of nodes) -> score of every node, 0 to 100."""


def strategy_of(args: ScoringStrategy) -> Strategy:
    """The strategy that the (valid) arguments ask for."""
    if args.type == LEAST_ALLOCATED:
        return least_allocated
    if args.type == MOST_ALLOCATED:
        return most_allocated
    assert args.requestedToCapacityRatio is not None
    return partial(requested_to_capacity_ratio, _curve(args.requestedToCapacityRatio.shape))


def least_allocated(resources: Sequence[ScoredResource], count: int) -> Int64:
    """The mean share that is left free; a resource that would be overcommitted scores 0."""
    scores = []
    for each in resources:
        free = each.allocatable - each.taken
        scores.append(each.percent(np.maximum(free, 0, out=free)))
    return _weighted_mean(resources, scores, count)


def most_allocated(resources: Sequence[ScoredResource], count: int) -> Int64:
    """The mean share that is taken; a resource that would be overcommitted scores 100."""
    return _weighted_mean(resources, [_percent_taken(each) for each in resources], count)


def requested_to_capacity_ratio(curve: Int64, resources: Sequence[ScoredResource], count: int) -> Int64:
    """The mean of a curve of the share that is taken, over the resources that score more than 0, rounded half up.

    `curve`: int64, shape (101,): the score at every percentage.
    """
    total, weights = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for each in resources:
        scores = np.where(each.present, curve[_percent_taken(each)], 0)
        total += scores * each.weight
        weights += (scores > 0) * each.weight
    mean: Int64 = np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)
    return mean


def _percent_taken(each: ScoredResource) -> Int64:
    return each.percent(np.minimum(each.taken, each.allocatable))


def _weighted_mean(resources: Sequence[ScoredResource], scores: Sequence[Int64], count: int) -> Int64:
    """Rounded down; a node without any of the resources scores 0."""
    total, weights = np.zeros(count, dtype=np.int64), 0
    if all(each.everywhere for each in resources):
        for each, score in zip(resources, scores, strict=True):
            total += score if each.weight == 1 else score * each.weight
            weights += each.weight
        return total // max(weights, 1)
    present_weights = np.zeros(count, dtype=np.int64)
    for each, score in zip(resources, scores, strict=True):
        total += np.where(each.present, score, 0) * each.weight
        present_weights += each.present * each.weight
    return total // np.maximum(present_weights, 1)


def _curve(shape: Sequence[UtilizationShapePoint]) -> Int64:
    """The broken line through the points, at every percentage from 0 to 100. Mirrors helper/shape_score.go."""
    scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]
    return np.array([_on_line(points, percentage) for percentage in range(101)], dtype=np.int64)


def _on_line(points: Sequence[tuple[int, int]], at: int) -> int:
    for index, (utilization, score) in enumerate(points):
        if at <= utilization:
            if index == 0:
                return score
            before, base = points[index - 1]
            return base + int((score - base) * (at - before) / (utilization - before))
    return points[-1][1]
