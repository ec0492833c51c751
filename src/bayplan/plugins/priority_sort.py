"""PrioritySort: pods of higher priority first, of equal priority those that have waited longer."""

from __future__ import annotations

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Plugin


class PrioritySort(Plugin):
    """Mirrors plugins/queuesort/priority_sort.go."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        """Smallest first: the negative priority, then the time."""
        return -pod.priority, queued_at
