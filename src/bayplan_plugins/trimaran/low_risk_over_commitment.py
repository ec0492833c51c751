"""LowRiskOverCommitment: prefers nodes on which the limits of pods, and their load, leave little risk of overuse.

Mirrors pkg/trimaran/lowriskovercommitment/lowriskovercommitment.go of scheduler-plugins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.plugin import MAX_NODE_SCORE, CycleState, Handle, NodeColumn, NodeInfo, Nodes, Plugin, PodInfo
from bayplan_plugins.go_arithmetic import Floats, Scores, rounded
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.loads import PERMISSIONS, shared_loads
from bayplan_plugins.trimaran.requests import demand
from bayplan_plugins.trimaran.statistics import (
    MEBI,
    beta_probability,
    beta_probability_at,
    fitted,
    max_variance,
    mean_and_deviation,
)

_WEIGHT = 0.5
_MOST_VARIANCE = 0.99
"""Of the variance that a distribution can't reach."""


class LowRiskOverCommitmentArgs(TrimaranArgs, kw_only=True):
    """Arguments of LowRiskOverCommitment. Values that are out of range count as the defaults."""

    smoothingWindowSize: int = 5
    riskLimitWeights: dict[str, float] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.smoothingWindowSize = 5 if self.smoothingWindowSize <= 0 else self.smoothingWindowSize
        given = {name: weight if 0 <= weight <= 1 else _WEIGHT for name, weight in self.riskLimitWeights.items()}
        self.riskLimitWeights = {"cpu": _WEIGHT, "memory": _WEIGHT, **given}


class Commitment(NamedTuple):
    """What the pods of nodes request and may use of a resource, without a pod and with it. Arrays of float64."""

    request: Floats
    limit: Floats
    request_before: Floats
    limit_before: Floats
    capacity: Floats

    @classmethod
    def of(cls, request: Scores, limit: Scores, wanted: tuple[int, int], capacity: Scores) -> Commitment:
        """Count a pod on each node. Requests count up to the capacity."""
        amounts = np.minimum(request + wanted[0], capacity), limit + wanted[1], np.minimum(request, capacity), limit
        return cls(*(amount.astype(np.float64) for amount in (*amounts, capacity)))

    def limit_risk(self) -> Floats:
        """Return which part of what may be used beyond the requests is beyond the capacity."""
        over = self.limit > self.capacity
        return np.where(over, (self.limit - self.capacity) / np.where(over, self.limit - self.request, 1.0), 0.0)

    def load_risk(self, mean: Floats, deviation: Floats) -> Floats:
        """Return the probability that the load is above the requests, by the distribution that fits it."""
        whole = np.where(self.capacity > 0, self.capacity, 1.0)
        threshold = np.clip(self.request_before / whole, 0, 1)
        alpha, beta = fitted(mean, deviation**2 + mean**2 - mean * mean)
        settled = (mean == 0) | (deviation == 0)
        below = np.where(settled, (mean == 0) | (mean <= threshold), beta_probability(threshold, alpha, beta))
        limited = (self.limit_before < self.capacity) & (self.request_before <= self.limit_before)
        within = beta_probability(self.limit_before / whole, alpha, beta)
        fits = limited & ~settled & (within > 0)
        below = np.where(fits, np.clip(below / np.where(fits, within, 1.0), 0, 1), below)
        below = np.where(limited & (self.limit_before == 0), 1.0, below)
        return 1.0 - below


class _Amounts(NamedTuple):
    """What the pods of one node request and may use of a resource, and what a pod adds to it."""

    request: int
    limit: int
    more: int
    more_limit: int
    capacity: int


class LowRiskOverCommitment(Plugin):
    """Scores a node by the risk that its CPUs or its memory are used beyond what is there, whichever is worse."""

    name = "LowRiskOverCommitment"
    arguments = LowRiskOverCommitmentArgs
    permissions = PERMISSIONS

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: Handle) -> None:
        self._weights = args.riskLimitWeights
        self._smoothing = float(args.smoothingWindowSize) ** 0.5
        self._loads = shared_loads(args, handle)
        self._sums = [NodeColumn(_sum_of(index), np.int64) for index in range(4)]

    def sign(self, pod: PodInfo) -> Hashable:
        """Return what the pod requests, and may use."""
        return demand(pod)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return the version of the loads."""
        return self._loads.version

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Score nodes by their risk. Best-effort pods have no scores, and a node without metrics gets 0."""
        wanted = demand(pod)
        if not any(wanted):
            return np.zeros(len(nodes), dtype=np.int64)
        cpu, memory, cpu_limit, memory_limit = (column.of(nodes) for column in self._sums)
        ours = Commitment.of(cpu, cpu_limit, (wanted.cpu, wanted.cpu_limit), nodes.allocatable("cpu"))
        risk = self._risk("cpu", ours, 1.0, nodes)
        ours = Commitment.of(memory, memory_limit, (wanted.memory, wanted.memory_limit), nodes.allocatable("memory"))
        risk = np.maximum(risk, self._risk("memory", ours, MEBI, nodes))
        return np.where(self._loads.known(nodes), rounded((1 - risk) * MAX_NODE_SCORE), 0)

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node: as `score_nodes`."""
        wanted, load = demand(pod), self._loads.at(node)
        if load is None or not load.valid or not any(wanted):
            return 0
        cpu = memory = cpu_limit = memory_limit = 0
        for each in node.pods:
            theirs = demand(each)
            cpu += theirs.cpu
            memory += theirs.memory
            cpu_limit += theirs.cpu_limit
            memory_limit += theirs.memory_limit
        ours = _Amounts(cpu, cpu_limit, wanted.cpu, wanted.cpu_limit, node.allocatable_of("cpu"))
        risk = self._risk_at("cpu", ours, load.cpu_average, load.cpu_deviation)
        ours = _Amounts(memory, memory_limit, wanted.memory, wanted.memory_limit, node.allocatable_of("memory"))
        risk = max(risk, self._risk_at("memory", ours, load.memory_average, load.memory_deviation))
        return math.floor((1 - risk) * MAX_NODE_SCORE + 0.5)

    def _risk_at(self, resource: str, amounts: _Amounts, average: float | None, deviation: float) -> float:
        """The risk of a resource on one node: as `risk`."""
        request, limit, more, more_limit, capacity = amounts
        weight = self._weights[resource]
        total, most = min(request + more, capacity), limit + more_limit
        limit_risk = (most - capacity) / (most - total) if most > capacity else 0.0
        load_risk = 0.0
        if capacity > 0 and average is not None:
            mean = min(max(average / 100, 0.0), 1.0)
            spread = min(max(deviation / 100, 0.0), 1.0) * self._smoothing
            spread = min(spread, math.sqrt(mean * (1 - mean) * _MOST_VARIANCE))
            before = min(request, capacity)
            load_risk = 1 - _below(mean, spread, before / capacity, limit / capacity)
        return min(max(weight * limit_risk + (1 - weight) * load_risk, 0.0), 1.0)

    async def background(self) -> None:
        """Keep the loads up to date."""
        await self._loads.run()

    def _risk(self, resource: str, commitment: Commitment, unit: float, nodes: Nodes) -> Floats:
        average = self._loads.column(f"{resource}_average", nodes)
        deviation = self._loads.column(f"{resource}_deviation", nodes)
        return self.risk(resource, commitment, unit, average, deviation)

    def risk(self, resource: str, commitment: Commitment, unit: float, average: Floats, deviation: Floats) -> Floats:
        """Weigh the risks of a resource. Loads are in percent, and NaN where none is measured."""
        capacity = commitment.capacity * unit
        measured = ~np.isnan(average)
        used = np.where(measured, average, 0.0) * capacity / 100
        spread = np.where(measured, deviation, 0.0) * capacity / 100
        mean, spread = mean_and_deviation(used, spread, 0.0, capacity)
        spread = np.minimum(spread * self._smoothing, np.sqrt(max_variance(mean) * _MOST_VARIANCE))
        load_risk = np.where(measured, commitment.load_risk(mean, spread), 0.0)
        weight = self._weights[resource]
        return np.clip(weight * commitment.limit_risk() + (1 - weight) * load_risk, 0, 1)


def _below(mean: float, spread: float, requested: float, limited: float) -> float:
    """The probability of a load up to what is requested, if it is no more than the limits: all are fractions."""
    if requested <= limited < 1 and limited == 0:
        return 1.0
    if mean == 0 or spread == 0:
        return float(mean == 0 or mean <= requested)
    variance = spread**2 + mean**2 - mean * mean
    if not 0 < variance < mean * (1 - mean):
        return 0.0
    scale = max(mean * (1 - mean) / variance - 1, 5e-324)
    alpha, beta = mean * scale, (1 - mean) * scale
    below = beta_probability_at(min(max(requested, 0.0), 1.0), alpha, beta)
    if requested <= limited < 1:
        within = below if limited == requested else beta_probability_at(limited, alpha, beta)
        if within > 0:
            return min(max(below / within, 0.0), 1.0)
    return below


def _sum_of(index: int) -> Callable[[NodeInfo], int]:
    """Return what sums up a field of the demands of a node's pods."""
    return lambda node: sum([demand(pod)[index] for pod in node.pods])
