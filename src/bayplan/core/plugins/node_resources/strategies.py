"""The scoring strategies of NodeResourcesFit. A node is scored only by the resources that it has.

Mirrors plugins/noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio}.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bayplan.core.cluster.columns import Int64
from bayplan.core.framework.interface import MAX_NODE_SCORE
from bayplan.core.framework.normalization import utilization_curve
from bayplan.core.plugins.arguments import LEAST_ALLOCATED, MOST_ALLOCATED, ScoringStrategy
from bayplan.core.plugins.node_resources.shares import Amounts, ScoredResource


@dataclass(frozen=True, slots=True)
class ResourceStrategy:
    """A strategy in both forms. Scores are from 0 to 100.

    `of_all`: (resources, number of nodes) -> scores; `of_one`: resources of one node -> score.
    """

    of_all: Callable[[Sequence[ScoredResource], int], Int64]
    of_one: Callable[[Sequence[Amounts]], int]


def strategy_of(args: ScoringStrategy) -> ResourceStrategy:
    """Return the strategy for validated arguments."""
    if args.type == LEAST_ALLOCATED:
        return ResourceStrategy(least_allocated, least_allocated_of_one)
    if args.type == MOST_ALLOCATED:
        return ResourceStrategy(most_allocated, most_allocated_of_one)
    assert args.requestedToCapacityRatio is not None
    curve = utilization_curve([(each.utilization, each.score) for each in args.requestedToCapacityRatio.shape])
    return ResourceStrategy(
        partial(requested_to_capacity_ratio, curve), partial(requested_to_capacity_ratio_of_one, curve)
    )


def least_allocated(resources: Sequence[ScoredResource], count: int) -> Int64:
    """Score by the mean free share. A resource that would be overcommitted scores 0."""
    scores = []
    for each in resources:
        free = each.allocatable - each.requested
        scores.append(each.percent(np.maximum(free, 0, out=free)))
    return _weighted_mean(resources, scores, count)


def least_allocated_of_one(resources: Sequence[Amounts]) -> int:
    """Score one node; see `least_allocated`."""
    return _mean_of_one(
        [
            (MAX_NODE_SCORE * max(each.allocatable - each.requested, 0) // each.allocatable, each.weight)
            for each in resources
        ]
    )


def most_allocated(resources: Sequence[ScoredResource], count: int) -> Int64:
    """Score by the mean utilization. A resource that would be overcommitted scores 100."""
    return _weighted_mean(resources, [_utilization(each) for each in resources], count)


def most_allocated_of_one(resources: Sequence[Amounts]) -> int:
    """Score one node; see `most_allocated`."""
    return _mean_of_one([(_utilization_of_one(each), each.weight) for each in resources])


def requested_to_capacity_ratio(curve: Int64, resources: Sequence[ScoredResource], count: int) -> Int64:
    """Score by a function of the utilization: the mean over the resources that score more than 0, rounded half up.

    `curve`: int64, shape (101,); the score at each percentage.
    """
    total, weights = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for each in resources:
        scores = np.where(each.present, curve[_utilization(each)], 0)
        total += scores * each.weight
        weights += (scores > 0) * each.weight
    mean: Int64 = np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)
    return mean


def requested_to_capacity_ratio_of_one(curve: Int64, resources: Sequence[Amounts]) -> int:
    """Score one node; see `requested_to_capacity_ratio`."""
    scores = [(int(curve[_utilization_of_one(each)]), each.weight) for each in resources]
    total, weights = sum(score * weight for score, weight in scores), sum(weight for score, weight in scores if score)
    return math.floor(total / max(weights, 1) + 0.5)


def _utilization_of_one(each: Amounts) -> int:
    return MAX_NODE_SCORE * min(each.requested, each.allocatable) // each.allocatable


def _mean_of_one(scores: Sequence[tuple[int, int]]) -> int:
    total = weights = 0
    for score, weight in scores:
        total += score * weight
        weights += weight
    return total // max(weights, 1)


def _utilization(each: ScoredResource) -> Int64:
    return each.percent(np.minimum(each.requested, each.allocatable))


def _weighted_mean(resources: Sequence[ScoredResource], scores: Sequence[Int64], count: int) -> Int64:
    """Return the weighted mean, rounded down; 0 for a node without any of the resources."""
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
