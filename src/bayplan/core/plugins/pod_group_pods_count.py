"""PodGroupPodsCount: prefers placements in which more pods of a gang fit.

Mirrors plugins/podgrouppodscount/podgroup_pods_count.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.gangs import Gang, Placement
from bayplan.core.framework.interface import MAX_NODE_SCORE, Plugin


class PodGroupPodsCount(Plugin):
    """Counts the pods of the gang that are on nodes already, too."""

    name = "PodGroupPodsCount"

    def score_placement(self, gang: Gang, placement: Placement, placed: Sequence[PodInfo]) -> int:
        """Return how many pods of the gang would be on nodes."""
        return gang.placed + len(placed)

    def normalize_placement_scores(self, gang: Gang, scores: Int64) -> Int64:
        """Scale the highest score to 100. Scores are positive, because the gang fits in each placement."""
        normalized: Int64 = scores * MAX_NODE_SCORE // scores.max()
        return normalized

    def placement_bound(self, gang: Gang, placement: Placement) -> int:
        """Return the highest score, which placements get that have room for all pods."""
        return MAX_NODE_SCORE
