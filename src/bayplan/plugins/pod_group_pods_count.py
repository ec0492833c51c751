"""PodGroupPodsCount: of the placements that a gang fits into, those are better that take more of its pods.

Mirrors plugins/podgrouppodscount/podgroup_pods_count.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.columns import Int64
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import MAX_NODE_SCORE, Gang, Placement, Plugin


class PodGroupPodsCount(Plugin):
    """Counts the pods that are on nodes already too, so that one pod more or less matters less in a large group."""

    name = "PodGroupPodsCount"

    def score_placement(self, gang: Gang, placement: Placement, placed: Sequence[PodInfo]) -> int:
        """How many pods the group would have on nodes."""
        return gang.placed + len(placed)

    def normalize_placement_scores(self, gang: Gang, scores: Int64) -> Int64:
        """In per cent of the most; a gang that fits has pods in each placement."""
        normalized: Int64 = scores * MAX_NODE_SCORE // scores.max()
        return normalized
