"""LowerPods: the pods of each row that a group may evict by their own priority, kept up to date row by row.

A group that preempts looks at all pods of the cluster. Of most rows, nothing has changed since the last one did.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.pod_changes import AllRemoved
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.latest import LruDict

_PRIORITIES = 8
"""For how many priorities pods are kept."""


@dataclass(slots=True)
class PodsByRow:
    """The pods on live rows. `lower`: those without a PodGroup whose priority is lower. `grouped`: those with one.

    `versions`, `replacements`: those of the rows (`NodeTable.row_version`, `NodeTable.replacements`).
    """

    lower: AllRemoved
    versions: Int64
    replacements: Int64
    grouped: dict[int, list[PodInfo]] = field(default_factory=dict)


class LowerPods:
    """The pods of lower priority by row, for a few priorities."""

    def __init__(self) -> None:
        self._kept: LruDict[int, PodsByRow] = LruDict(_PRIORITIES)

    def than(self, priority: int, table: NodeTable) -> PodsByRow:
        """Return the pods of lower priority, and those of PodGroups, as they are now. They are not to be changed."""
        size, kept = table.size, self._kept.use(priority)
        if kept is None or len(kept.versions) != size:
            nothing: Int64 = np.full(size, -1, dtype=np.int64)
            kept = self._kept[priority] = PodsByRow(AllRemoved([()] * size), nothing, nothing)
        versions, replacements = table.row_version[:size], table.replacements[:size]
        changed = ((versions != kept.versions) | (replacements != kept.replacements)).nonzero()[0].tolist()
        if len(changed) > size // 4:  # else sums would be renewed one by one
            kept.lower = AllRemoved(kept.lower.pods)
        lower = {}
        for row in changed:
            kept.grouped.pop(row, None)
            pods = table.pods[row].values() if table.live[row] else ()
            if grouped := [pod for pod in pods if pod_group_of(pod) is not None]:
                kept.grouped[row] = grouped
            lower[row] = [pod for pod in pods if pod.priority < priority and pod_group_of(pod) is None]
        kept.lower.replace(lower)
        kept.versions, kept.replacements = versions.copy(), replacements.copy()
        return kept
