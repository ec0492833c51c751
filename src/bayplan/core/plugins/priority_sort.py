"""PrioritySort: sorts pods by priority, then by the time at which they were queued."""

from __future__ import annotations

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Plugin


class PrioritySort(Plugin):
    """Mirrors plugins/queuesort/priority_sort.go."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        """Return the negative priority, then the time: the smallest key is popped first."""
        return -pod.priority, queued_at
