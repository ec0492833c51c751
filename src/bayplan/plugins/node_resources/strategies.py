"""The scoring strategies of NodeResourcesFit: from the share of every resource to a score of the node.

Mirrors plugins/noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio}.go. A node that has nothing
of a resource is scored by the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bayplan.cluster.columns import Int64
from bayplan.framework.interface import MAX_NODE_SCORE
from bayplan.framework.normalization import utilization_curve
from bayplan.plugins.arguments import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    ScoringStrategy,
)
from bayplan.plugins.node_resources.shares import Amounts, ScoredResource


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy in both forms: the scores, 0 to 100, of all nodes (and how many there are), or of one."""

    of_all: Callable[[Sequence[ScoredResource], int], Int64]
    of_one: Callable[[Sequence[Amounts]], int]


def strategy_of(args: ScoringStrategy) -> Strategy:
    """The strategy that the (valid) arguments ask for."""
    if args.type == LEAST_ALLOCATED:
        return Strategy(least_allocated, least_allocated_of_one)
    if args.type == MOST_ALLOCATED:
        return Strategy(most_allocated, most_allocated_of_one)
    assert args.requestedToCapacityRatio is not None
    curve = utilization_curve([(each.utilization, each.score) for each in args.requestedToCapacityRatio.shape])
    return Strategy(partial(requested_to_capacity_ratio, curve), partial(requested_to_capacity_ratio_of_one, curve))


def least_allocated(resources: Sequence[ScoredResource], count: int) -> Int64:
    """The mean share that is left free; a resource that would be overcommitted scores 0."""
    scores = []
    for each in resources:
        free = each.allocatable - each.taken
        scores.append(each.percent(np.maximum(free, 0, out=free)))
    return _weighted_mean(resources, scores, count)


def least_allocated_of_one(resources: Sequence[Amounts]) -> int:
    """The same for one node."""
    free = ((max(each.allocatable - each.taken, 0), each) for each in resources)
    return _mean_of_one([(MAX_NODE_SCORE * part // each.allocatable, each.weight) for part, each in free])


def most_allocated(resources: Sequence[ScoredResource], count: int) -> Int64:
    """The mean share that is taken; a resource that would be overcommitted scores 100."""
    return _weighted_mean(resources, [_percent_taken(each) for each in resources], count)


def most_allocated_of_one(resources: Sequence[Amounts]) -> int:
    """The same for one node."""
    return _mean_of_one([(_percent_taken_of_one(each), each.weight) for each in resources])


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


def requested_to_capacity_ratio_of_one(curve: Int64, resources: Sequence[Amounts]) -> int:
    """The same for one node."""
    scores = [(int(curve[_percent_taken_of_one(each)]), each.weight) for each in resources]
    total, weights = sum(score * weight for score, weight in scores), sum(weight for score, weight in scores if score)
    return math.floor(total / max(weights, 1) + 0.5)


def _percent_taken_of_one(each: Amounts) -> int:
    return MAX_NODE_SCORE * min(each.taken, each.allocatable) // each.allocatable


def _mean_of_one(scores: Sequence[tuple[int, int]]) -> int:
    return sum(score * weight for score, weight in scores) // max(sum(weight for _, weight in scores), 1)


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
