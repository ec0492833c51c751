"""The scores of all rows for pods with one key, each computed when a decision needs it.

A raw score holds for a row until the row changes; where only pods changed, only plugins that read pods run again.
Normalized scores depend on the set of feasible nodes, so the sums of a few such sets are kept. All arrays are int64,
with one value per row of the node table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayplan.core.cluster.columns import Bool, Int64, Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import CycleState, NormalizeScores, Score
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.promises import reads_pods
from bayplan.core.framework.runner import checked, normalized, raw_score, raw_scores, run_pre_score, score_node
from bayplan.core.framework.verdicts import Verdicts
from bayplan.foundations.latest import LruDict

FEW_CHANGES = 8
"""Up to this many rows on which only pods changed are filtered and scored one by one: it takes less time."""
_SETS = 4
"""Sets of feasible rows for which the sums of normalized scores are kept; 8 bytes a row."""


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
                checked(raw if feasible == len(nodes) else raw[mask], plugin, "Score", feasible)
                weighted = raw if weight == 1 else raw * weight
                scores.fixed += weighted
                if not reads_pods(plugin):
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


class LatestScores:
    """The raw scores of all rows for pods with one key. A row is scored when a decision needs its score.

    Most attempts of pending pods end without any feasible node, or with one, and need no scores.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._scores: RawScores | None = None
        """None until PreScore has run."""
        self._moving: list[tuple[Any, int]] | None = None
        """The plugins that read pods and don't normalize, with their weights; None where one has no per-node form."""
        self._moving_raw: list[tuple[Any, Int64]] = []
        """Those that read pods and normalize, with their raw scores."""
        self._stale: Bool = np.zeros(0, dtype=np.bool_)
        """By row: whether it has no valid score."""
        self._unknown: Bool = self._stale
        """By row: whether not even the part of the plugins that read no pods is valid."""
        self._latest: tuple[Bool, Int64] | None = None
        """The mask of the last pod's feasible rows, and the sums of their normalized scores."""
        self._sums: LruDict[bytes, Int64 | None] = LruDict(_SETS)
        """mask -> the sums of normalized scores; None for a mask that occurred once. With anti-affinity by hostname, no
        set of feasible rows occurs again."""

    @property
    def began(self) -> bool:
        """Whether PreScore has run."""
        return self._scores is not None

    def changed(self, rows: Sequence[int], *, only_pods: bool) -> None:
        """Record that rows changed. `only_pods`: see `RowChanges`."""
        if self._scores is not None:
            for row in rows:  # often one
                self._stale[row] = True
                if not only_pods:
                    self._unknown[row] = True

    def total(self, cycle: CycleState, pod: PodInfo, verdicts: Verdicts, nodes: Nodes, feasible: Bool | None) -> Int64:
        """Return the weighted sum of the scores of some feasible nodes: int64, a new array. Raises PluginError.

        `verdicts`: of the shared filters on all rows. `feasible`: the mask of `nodes` among all rows, if there is one.
        """
        scores, rows = self._raw(cycle, pod, verdicts), nodes.rows
        fixed = scores.fixed if isinstance(rows, slice) else scores.fixed.take(rows)
        return fixed + (self._normalized(scores, cycle, pod, nodes, feasible) if scores.to_normalize else 0)

    def _raw(self, cycle: CycleState, pod: PodInfo, verdicts: Verdicts) -> RawScores:
        """Return the scores, which are valid for the nodes that `verdicts` on all rows leave feasible.

        The first call runs PreScore, which stores its data in `cycle`. Raises PluginError.
        """
        feasible, nodes = verdicts.feasible_mask, verdicts.nodes
        if self._scores is None:
            run_pre_score(self._profile, cycle, pod, nodes.at(verdicts.feasible()))
            self._scores = RawScores.of(self._profile, cycle, pod, verdicts)
            self._moving = self._find_moving(cycle, self._scores)
            self._stale, self._unknown = ~feasible, ~feasible
            return self._scores
        rows = (self._stale & feasible).nonzero()[0]
        if not len(rows):
            return self._scores
        few = len(rows) <= FEW_CHANGES and not any(map(self._unknown.item, rows.tolist()))
        if self._moving is not None and few:
            changed = False
            for row in rows.tolist():
                node = nodes.info(row)
                score = score_node(self._moving, cycle, pod, node)
                self._scores.fixed[row] = self._scores.unmoved[row] + score
                for plugin, raw in self._moving_raw:
                    new = raw_score(plugin, cycle, pod, node)
                    changed = changed or raw.item(row) != new
                    raw[row] = new
            if changed:
                self._latest = None
                self._sums.clear()
        elif self._scores.replace(rows, RawScores.of(self._profile, cycle, pod, Verdicts(nodes.at(rows)))):
            self._latest = None
            self._sums.clear()
        self._stale[rows] = self._unknown[rows] = False
        return self._scores

    def _normalized(
        self, scores: RawScores, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Bool | None
    ) -> Int64:
        """Return the weighted sum of the normalized scores of some nodes."""
        if feasible is None:
            return _normalized_sum(scores, cycle, pod, nodes)
        if self._latest is not None and self._latest[0] is feasible:
            return self._latest[1]
        mask = feasible.tobytes()
        total = self._sums.use(mask)
        if total is None:
            total = _normalized_sum(scores, cycle, pod, nodes)
            self._sums[mask] = total if mask in self._sums else None
        self._latest = feasible, total
        return total

    def _find_moving(self, cycle: CycleState, scores: RawScores) -> list[tuple[Any, int]] | None:
        """Note the plugins whose scores change with pods. Returns those that don't normalize."""
        moving = [
            plugin
            for plugin in self._profile.at(Point.SCORE)
            if plugin.name not in cycle.skip_score and reads_pods(plugin)
        ]
        if not all(implements(plugin, Score) for plugin in moving):
            return None
        self._moving_raw = [(plugin, raw) for plugin, _, raw in scores.to_normalize if plugin in moving]
        fixed = [plugin for plugin in moving if not implements(plugin, NormalizeScores)]
        return [(plugin, self._profile.weights.get(plugin.name, 1)) for plugin in fixed]


def _normalized_sum(scores: RawScores, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
    total, rows = np.zeros(len(nodes), dtype=np.int64), nodes.rows
    for plugin, weight, raw in scores.to_normalize:
        own = raw.copy() if isinstance(rows, slice) else raw.take(rows)
        total += normalized(plugin, cycle, pod, own, nodes) * weight
    return total
