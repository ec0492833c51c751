"""LoadVariationRiskBalancing: prefers nodes whose load is low, and varies little.

Mirrors pkg/trimaran/loadvariationriskbalancing of scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from bayplan.plugin import MAX_NODE_SCORE, CycleState, Handle, Nodes, Plugin, PodInfo
from bayplan_plugins.go_arithmetic import Floats, Scores, rounded
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.loads import PERMISSIONS, shared_loads
from bayplan_plugins.trimaran.requests import demand
from bayplan_plugins.trimaran.statistics import MEBI, mean_and_deviation


class LoadVariationRiskBalancingArgs(TrimaranArgs, kw_only=True):
    """Arguments of LoadVariationRiskBalancing. Negative values count as 1."""

    safeVarianceMargin: float = 1.0
    safeVarianceSensitivity: float = 1.0

    def __post_init__(self) -> None:
        self.safeVarianceMargin = 1.0 if self.safeVarianceMargin < 0 else self.safeVarianceMargin
        self.safeVarianceSensitivity = 1.0 if self.safeVarianceSensitivity < 0 else self.safeVarianceSensitivity


class Risk(NamedTuple):
    """How much deviations count. `margin` multiplies them; `sensitivity` is the root that is taken of them."""

    margin: float
    sensitivity: float

    def scores(self, mean: Floats, deviation: Floats) -> Floats:
        """Return scores from 0 to 100 for loads, as fractions of the capacity."""
        if self.sensitivity > 0:
            deviation = deviation ** (1 / self.sensitivity)
        elif self.sensitivity == 0:
            deviation = np.where(deviation < 1, 0.0, deviation)
        deviation = np.clip(deviation * self.margin, 0, 1)
        risk: Floats = (1 - (mean + deviation) / 2) * MAX_NODE_SCORE
        return risk


class LoadVariationRiskBalancing(Plugin):
    """Scores a node by the mean of its load and the deviation from it, of CPU or memory, whichever is worse."""

    name = "LoadVariationRiskBalancing"
    arguments = LoadVariationRiskBalancingArgs
    permissions = PERMISSIONS
    reads_pods = False

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        self._risk = Risk(args.safeVarianceMargin, args.safeVarianceSensitivity)
        self._loads = shared_loads(args, handle)

    def sign(self, pod: PodInfo) -> Hashable:
        """Return what the pod requests."""
        return demand(pod)[:2]

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return the version of the loads."""
        return self._loads.version

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Score nodes by the risk that their load will be high. A node without a load gets 0."""
        wanted = demand(pod)
        cpu = self._scores("cpu", float(wanted.cpu), 1.0, nodes)
        memory = self._scores("memory", wanted.memory * MEBI, MEBI, nodes)
        worse = np.where(np.isnan(cpu), memory, np.where(np.isnan(memory), cpu, np.minimum(cpu, memory)))
        return rounded(np.nan_to_num(worse))

    async def background(self) -> None:
        """Keep the loads up to date."""
        await self._loads.run()

    def _scores(self, resource: str, requested: float, unit: float, nodes: Nodes) -> Floats:
        capacity = nodes.allocatable(resource).astype(np.float64) * unit
        average = self._loads.column(f"{resource}_average", nodes) * capacity / 100
        deviation = self._loads.column(f"{resource}_deviation", nodes) * capacity / 100
        average, deviation = np.clip(average, 0, capacity), np.clip(deviation, 0, capacity)
        found = self._risk.scores(*mean_and_deviation(average, deviation, max(requested, 0.0), capacity))
        return np.where((capacity <= 0) & ~np.isnan(average), 0.0, np.where(np.isnan(average), np.nan, found))
