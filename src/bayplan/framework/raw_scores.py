"""Scores of all rows before normalization, kept up to date row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import CycleState, NormalizeScores
from bayplan.framework.profile import Point, Profile, implements
from bayplan.framework.runner import checked, raw_scores
from bayplan.framework.verdicts import Verdicts


@dataclass(slots=True)
class RawScores:
    """The scores of all rows before normalization: int64, one per row. Values of infeasible rows are undefined.

    `fixed`: the weighted sum of the plugins that do not normalize. `to_normalize` has the others.
    """

    fixed: Int64
    unmoved: Int64
    """The part of `fixed` from plugins that read no pods; it changes only with the node."""
    to_normalize: list[tuple[Any, int, Int64]] = field(default_factory=list)
    """Plugin, weight, raw scores."""

    @classmethod
    def of(cls, profile: Profile, cycle: CycleState, pod: PodInfo, verdicts: Verdicts) -> RawScores:
        """Score the nodes of `verdicts` with every scoring plugin."""
        nodes, mask = verdicts.nodes, verdicts.feasible_mask
        feasible = int(np.count_nonzero(mask))
        scores = cls(np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64))
        for plugin in profile.at(Point.SCORE):
            if plugin.name in cycle.skip_score:
                continue
            raw, weight = raw_scores(plugin, cycle, pod, nodes, mask), profile.weights.get(plugin.name, 1)
            if implements(plugin, NormalizeScores):
                scores.to_normalize.append((plugin, weight, raw.copy()))  # `replace` writes to it
            else:
                checked(raw if feasible == len(nodes) else raw[mask], plugin, feasible)
                weighted = raw if weight == 1 else raw * weight
                scores.fixed += weighted
                if not plugin.reads_pods:
                    scores.unmoved += weighted
        return scores

    def replace(self, rows: Rows, others: RawScores) -> bool:
        """Replace the scores of some rows. Returns whether a score that needs normalization changed."""
        self.fixed[rows] = others.fixed
        self.unmoved[rows] = others.unmoved
        changed = False
        for (_, _, raw), (_, _, new) in zip(self.to_normalize, others.to_normalize, strict=True):
            changed = changed or bool((raw[rows] != new).any())
            raw[rows] = new
        return changed
